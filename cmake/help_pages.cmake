# cmake -DPROGRAM=… -DFOLDER=… -P help_pages.cmake: writes the manual pages and completion scripts that the program
# prints, where a prefix has them: FOLDER becomes share/. PROGRAM may be a list, an emulator before the program.
function(ask file)
  execute_process(COMMAND ${PROGRAM} help ${ARGN} OUTPUT_FILE ${file} RESULT_VARIABLE code)
  if(code)
    message(FATAL_ERROR "${PROGRAM} help ${ARGN}: exit code ${code}")
  endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
set(man ${FOLDER}/man/man1)
file(MAKE_DIRECTORY ${man} ${FOLDER}/bash-completion/completions ${FOLDER}/zsh/site-functions
  ${FOLDER}/zsh/vendor-completions ${FOLDER}/fish/vendor_completions.d)
ask(${man}/bevatron.1 --man)
execute_process(COMMAND ${PROGRAM} help commands OUTPUT_VARIABLE commands OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" commands "${commands}")
foreach(command ${commands})
  string(REPLACE " " ";" words "${command}")
  string(REPLACE " " "-" page "${command}")
  ask(${man}/bevatron-${page}.1 --man ${words})
endforeach()
find_program(GZIP gzip)
if(GZIP)
  file(GLOB pages ${man}/*.1)
  execute_process(COMMAND ${GZIP} -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
ask(${FOLDER}/bash-completion/completions/bevatron --completion bash)
ask(${FOLDER}/fish/vendor_completions.d/bevatron.fish --completion fish)
ask(${FOLDER}/zsh/site-functions/_bevatron --completion zsh)
# Debian's zsh looks here instead.
file(CREATE_LINK ../site-functions/_bevatron ${FOLDER}/zsh/vendor-completions/_bevatron SYMBOLIC)
