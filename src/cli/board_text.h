// bevatron board --text: runs in the terminal, with their losses and the balance of experts.
#ifndef CLI_BOARD_TEXT_H
#define CLI_BOARD_TEXT_H

#include "report/board/store.h"

struct board_text_options {
    const char *logdir;  // as given: names of runs follow it
    int width, height;   // of a plot in characters; width 0: the terminal's
};
// Prints all runs of a scanned store.
int board_text(struct board_store *store, const struct board_text_options *options);

#endif
