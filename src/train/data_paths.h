// The words that name the data of a split, wherever they are given: after --data-path or --train-data-path, or in the
// files of --data-args-path and --per-split-data-args-path.
#ifndef TRAIN_DATA_PATHS_H
#define TRAIN_DATA_PATHS_H

#include "config/config.h"
#include "data/sample/split.h"

struct data_paths {
    struct string_list items;  // "PREFIX" or "WEIGHT PREFIX WEIGHT PREFIX…"; empty if the split has no data
    const char *flag;          // what errors call them
    const char *split;         // the shares of a dataset that serves all splits; NULL if all of it is for this one
};

int data_paths_find(struct data_paths *paths, const struct config *config, enum split which);
void data_paths_free(struct data_paths *paths);  // a zeroed one is fine

#endif
