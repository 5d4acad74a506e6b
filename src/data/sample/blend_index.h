// The arithmetic of a blend, exactly as in Megatron: the meaning of the words after --data-path, how many samples each
// dataset must provide, and which dataset provides sample i. Doubles are added and multiplied in NumPy's order, because
// a difference in the last bit moves samples.
#ifndef DATA_SAMPLE_BLEND_INDEX_H
#define DATA_SAMPLE_BLEND_INDEX_H

#include <stdint.h>

enum { BLEND_MOST_DATASETS = 32767 };  // their numbers have 16 bits

struct blend_list {
    int64_t count;
    const char **prefixes;  // (count) those of the items
    double *weights;        // (count) with a sum of 1, or NULL if none were given: then sizes are the weights
};

// "PREFIX…" or "WEIGHT PREFIX WEIGHT PREFIX…". The list has weights if its length is even and every other item is a
// number.
int blend_list_parse(struct blend_list *list, char *const *items, int64_t count, const char *flag);
void blend_list_free(struct blend_list *list);

// How many samples of a blend of `size` a dataset of this weight provides, and how many it is built with, to be safe.
int64_t blend_target(double weight, int64_t size);
int64_t blend_surplus(int64_t target);

// Divides the weights by their sum.
void blend_normalize(double *weights, int64_t count);

// Sample i is sample numbers[i] of dataset datasets[i]: always from the dataset that lags its weight most.
struct blend_index {
    int16_t *datasets;  // (size)
    int64_t *numbers;   // (size)
};
void blend_index_fill(struct blend_index *index, int64_t size, const double *weights, int64_t count);
// Continues until every dataset j has provided all its sizes[j] samples.
void blend_index_fill_all(struct blend_index *index, const int64_t *sizes, int64_t count);

#endif
