// The arithmetic of a blend, exactly as Megatron does it: what the words after --data-path mean, how many samples each
// dataset is asked for, and which dataset gives sample i. Doubles are added and multiplied in NumPy's order, because a
// difference in the last bit moves samples.
#ifndef DATA_SAMPLE_BLEND_INDEX_H
#define DATA_SAMPLE_BLEND_INDEX_H

#include <stdint.h>

enum { BLEND_MOST_DATASETS = 32767 };  // their numbers are kept in 16 bits

struct blend_list {
    int64_t count;
    const char **prefixes;  // (count) those of the items
    double *weights;        // (count), summing to 1, or NULL: none were given, and sizes weigh
};

// "PREFIX…" or "WEIGHT PREFIX WEIGHT PREFIX…". An even number of items whose every other one is a number has weights.
int blend_list_parse(struct blend_list *list, char *const *items, int64_t count, const char *flag);
void blend_list_free(struct blend_list *list);

// Samples of a blend of `size` that a dataset of this weight gives, and how many it is built with, to be safe.
int64_t blend_target(double weight, int64_t size);
int64_t blend_surplus(int64_t target);

// Divides by the sum.
void blend_normalize(double *weights, int64_t count);

// Sample i is sample numbers[i] of dataset datasets[i]: always from the dataset that is furthest behind its weight.
struct blend_index {
    int16_t *datasets;  // (size)
    int64_t *numbers;   // (size)
};
void blend_index_fill(struct blend_index *index, int64_t size, const double *weights, int64_t count);
// The same until every dataset has given all its samples, of which it has sizes[j].
void blend_index_fill_all(struct blend_index *index, const int64_t *sizes, int64_t count);

#endif
