# cmake -DFOLDER=… -DOUTPUT=… -P embed_page.cmake: writes the files of the board's web page as C arrays (see
# src/report/board/web.h). The scripts become one, board.js: in the order of their names, main.js at the end.
function(bytes_of variable)
  set(all "")
  foreach(file ${ARGN})
    file(READ ${file} hex HEX)
    string(APPEND all "${hex}")
  endforeach()
  string(LENGTH "${all}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," all "${all}")
  set(${variable} "${all}" PARENT_SCOPE)
  set(${variable}_size ${size} PARENT_SCOPE)
endfunction()

file(GLOB scripts ${FOLDER}/*.js)
list(SORT scripts)
list(FILTER scripts EXCLUDE REGEX "/main\\.js$")
if(EXISTS ${FOLDER}/main.js)
  list(APPEND scripts ${FOLDER}/main.js)
endif()
bytes_of(index ${FOLDER}/index.html)
bytes_of(style ${FOLDER}/style.css)
bytes_of(script ${scripts})

# Bytes above 127 do not fit a char where it is signed, so the arrays are of unsigned ones.
file(WRITE ${OUTPUT}.new "// Made by cmake/embed_page.cmake from src/report/board/page.
#include \"report/board/web.h\"

static const unsigned char index_html[] = {${index}0};
static const unsigned char style_css[] = {${style}0};
static const unsigned char board_js[] = {${script}0};

const struct page_asset page_assets[] = {
    {\"index.html\", \"text/html; charset=utf-8\", (const char *)index_html, ${index_size}},
    {\"style.css\", \"text/css; charset=utf-8\", (const char *)style_css, ${style_size}},
    {\"board.js\", \"text/javascript; charset=utf-8\", (const char *)board_js, ${script_size}},
};
const size_t page_asset_count = sizeof page_assets / sizeof page_assets[0];
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
