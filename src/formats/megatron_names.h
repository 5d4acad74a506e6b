// Converts names of Megatron's parameters, from its first releases to today's core models, to ours. Internal to this
// folder.
#ifndef FORMATS_MEGATRON_NAMES_H
#define FORMATS_MEGATRON_NAMES_H

#include "config/config.h"
#include <stdbool.h>
#include <stdint.h>

enum megatron_split {
    SPLIT_WHOLE,    // every tensor-parallel rank has it all
    SPLIT_ROWS,     // ranks have blocks of rows
    SPLIT_COLUMNS,  // ranks have blocks of columns
    SPLIT_QKV,      // rows, interleaved by head
    SPLIT_KV,       // the same for keys and values alone
    SPLIT_GATED,    // rows, in two halves per rank
};

// The stacks of a T5; other models only have the first.
enum { MEGATRON_FIRST, MEGATRON_DECODER, MEGATRON_STACKS };

// The context of a name: the form of its model, and the number of the first layer of each stack.
struct megatron_place {
    enum config_form form;
    int64_t first_layer[MEGATRON_STACKS];
};
struct megatron_found {
    char *ours;       // to be freed; NULL if the name is ignored or unknown
    bool is_ignored;  // it is known and not needed
    int64_t layer;    // its number in the file, -1 if it has none; `ours` has that plus first_layer
    int stack;
    int64_t expert;  // index in the file; -1 if it is not one expert's
    bool is_packed;  // all experts of the file in one matrix, each transposed (weight1 and weight2)
};
// Knows the heads of BERT and T5 too.
struct megatron_found megatron_name(const char *theirs, const struct megatron_place *place);
// How tensor-parallel ranks share a parameter of ours.
enum megatron_split megatron_split(const char *ours, bool is_gated);
// Changes the shape of a whole parameter into that of one rank's shard.
void megatron_shard_shape(enum megatron_split split, int64_t ranks, int64_t *shape);

#endif
