// The files of the web page, embedded in the program by the build (cmake/embed_page.cmake), and the page as one file:
// with its style, its script and all data of the store, it needs no server. It loads nothing, and its policy forbids
// browsers to load anything.
#ifndef REPORT_BOARD_PAGE_H
#define REPORT_BOARD_PAGE_H

#include "report/board/store.h"
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

// Called before the work: -1 if a file of that name would be lost that is not such a page.
int board_export_check(const char *path);
// Writes the file, whole or not at all.
int board_export(struct board_store *store, const char *path);

#endif
