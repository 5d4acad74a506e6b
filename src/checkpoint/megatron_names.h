// Names of Megatron's parameters, from its first releases to today's core models, in our terms. Internal to this
// folder.
#ifndef CHECKPOINT_MEGATRON_NAMES_H
#define CHECKPOINT_MEGATRON_NAMES_H

#include "config/config.h"
#include <stdbool.h>
#include <stdint.h>

enum megatron_split {
    SPLIT_WHOLE,    // every tensor-parallel rank has it all
    SPLIT_ROWS,     // ranks one below another
    SPLIT_COLUMNS,  // ranks side by side
    SPLIT_QKV,      // rows, interleaved by head
    SPLIT_KV,       // the same of keys and values alone
    SPLIT_GATED,    // rows, each rank's in two halves
};

// The stacks of a T5; other models have one, which counts as the first.
enum { MEGATRON_FIRST, MEGATRON_DECODER, MEGATRON_STACKS };

// What a name is read as: the form of the model it belongs to, and where the layers of its stacks begin.
struct megatron_place {
    enum config_form form;
    int64_t first_layer[MEGATRON_STACKS];
};
struct megatron_found {
    char *ours;       // to be freed; NULL if it is none that matters or not known
    bool is_ignored;  // the former
    int64_t layer;    // its number in the file, -1 if it has none; `ours` is for that layer + first_layer
    int stack;
    int64_t expert;  // of those in the file; -1 if it is not that of one expert
    bool is_packed;  // all experts of the file in one matrix, each transposed (weight1 and weight2)
};
// Of BERT and T5 the heads are known too.
struct megatron_found megatron_name(const char *theirs, const struct megatron_place *place);
// How tensor-parallel ranks share a parameter of ours.
enum megatron_split megatron_split(const char *ours, bool is_gated);
// The shape of a whole parameter becomes that of one rank's shard.
void megatron_shard_shape(enum megatron_split split, int64_t ranks, int64_t *shape);

#endif
