// The board as one HTML file that needs no server: the page with its style, its script, and all data of the store. It
// loads nothing, and its policy forbids browsers to load anything.
#ifndef REPORT_BOARD_EXPORT_H
#define REPORT_BOARD_EXPORT_H

#include "report/board/store.h"

// Called before the work: -1 if a file of that name would be lost that is not such a page.
int board_export_check(const char *path);
// Writes the file, whole or not at all.
int board_export(struct board_store *store, const char *path);

#endif
