// The parts of a dataset for training, validation and test, and how many samples of each a run needs. Both are computed
// exactly as in Megatron, including rounding.
#ifndef DATA_SAMPLE_SPLIT_H
#define DATA_SAMPLE_SPLIT_H

#include <stdbool.h>
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
// it is a part of it, see weighted_split.h. An empty range is an error.
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

#endif
