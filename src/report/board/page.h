// The files of the web page, embedded in the program by the build (cmake/embed_page.cmake).
#ifndef REPORT_BOARD_PAGE_H
#define REPORT_BOARD_PAGE_H

#include <stddef.h>

struct page_asset {
    const char *name;  // "index.html", "style.css", "board.js"
    const char *type;  // of its content, with the character set
    const char *bytes;
    size_t size;
};

extern const struct page_asset page_assets[];
extern const size_t page_asset_count;

// The asset of this name, which must be one of the three above.
const struct page_asset *page_asset(const char *name);

#endif
