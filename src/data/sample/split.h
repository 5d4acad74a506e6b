// The parts of a dataset for training, validation and test, and how many samples of each a run needs. Both are computed
// exactly as in Megatron, including rounding.
#ifndef DATA_SAMPLE_SPLIT_H
#define DATA_SAMPLE_SPLIT_H

#include "config/flag.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum split { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST, SPLIT_COUNT };

const char *split_name(enum split split);  // "train", "valid", "test"

// The bounds of the splits as fractions: split i is [bookends[i], bookends[i + 1]), empty if they are equal.
struct split_bounds {
    double bookends[SPLIT_COUNT + 1];
};

// Reads "969, 30, 1": up to three weights, separated by anything that is not a number.
int split_parse(struct split_bounds *bounds, const char *text);
bool split_is_empty(const struct split_bounds *bounds, enum split split);
// The elements [*begin, *end) of 0…count-1 that belong to a split.
void split_range(const struct split_bounds *bounds, enum split split, int64_t count, int64_t *begin, int64_t *end);

#define SPLIT_PART "part "

// split_range for a dataset with the user's --split; `split` is NULL if `which` is all of it, and "part START:END" if
// it is a part of it, see below. An empty range is an error.
struct split_choice {
    const char *prefix;  // of the dataset
    const char *split;
    enum split which;   // not read if `split` is a part
    const char *items;  // the split items: "documents"
    int64_t count;
};
int split_choose(const struct split_choice *choice, int64_t *begin, int64_t *end);

// How many samples a run needs from each split.
struct split_demand {
    int64_t train_iters;  // used if train_samples is 0
    int64_t train_samples;
    int64_t global_batch_size;
    int64_t eval_interval;  // 0: no evaluation during training
    int64_t eval_iters;
    int64_t eval_global_batch_size;  // 0: global_batch_size
};
int split_sample_counts(const struct split_demand *demand, int64_t counts[SPLIT_COUNT]);

// ---- parts by weight ----

// Groups of datasets with parts of them, as BigScience's Megatron-DeepSpeed names its data:
//
//     NAME: WEIGHT START:END PREFIX, WEIGHT START:END PREFIX, …
//
// A dataset gives the documents from START to END, shares of it from 0 to 1, rounded as by Python's round(). A file has
// groups in double quotes, with white space between them.

enum { WEIGHTED_MOST_GROUPS = 64, WEIGHTED_NAME_BYTES = 48 };

struct weighted_group {
    char *name;
    struct string_list words;   // WEIGHT PREFIX WEIGHT PREFIX…
    struct string_list ranges;  // START:END of each dataset
};

// Parses the text of one group; errors call it `flag`. To be freed, also after an error.
int weighted_group_parse(struct weighted_group *group, const char *text, const char *flag);
void weighted_group_free(struct weighted_group *group);
// The quoted texts of a file's contents.
int weighted_groups_list(struct string_list *groups, const char *text, size_t length, const char *path);
// Reads START:END; -1 without a message unless 0 <= START < END <= 1.
int weighted_range_parse(const char *text, double *start, double *end);

#endif
