// The words that name the data of a split, wherever they are given: after --data-path or --train-data-path, or in the
// files of --data-args-path and --per-split-data-args-path; or in the groups of --train-weighted-split-paths. A split
// has one group of datasets, or several with names for validation and test.
#ifndef TRAIN_DATA_PATHS_H
#define TRAIN_DATA_PATHS_H

#include "config/config.h"
#include "data/sample/split.h"

// The kind of samples that the model learns from.
enum corpus_kind { CORPUS_GPT, CORPUS_BERT, CORPUS_ROBERTA, CORPUS_T5, CORPUS_ICT };
enum corpus_kind corpus_kind_of(const struct config *config);

struct data_paths {
    struct string_list items;  // "PREFIX" or "WEIGHT PREFIX WEIGHT PREFIX…"; empty if the split has no data
    const char *flag;          // name of the items in errors
    const char *split;         // the shares of a dataset that serves all splits; NULL if all of it is for this one
    struct string_list parts;  // of each dataset the part that is for this split, see split_choose; empty: all of it
    char *name;                // of the group; NULL if it is the only one and has none
};

// Number of groups of a split: 1 also if it has no data.
int data_paths_count_groups(int64_t *count, const struct config *config, enum split which);
int data_paths_find_group(struct data_paths *paths, const struct config *config, enum split which, int64_t group);
// The first group.
int data_paths_find(struct data_paths *paths, const struct config *config, enum split which);
void data_paths_free(struct data_paths *paths);  // a zeroed one is fine

#endif
