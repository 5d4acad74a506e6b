// Names of Megatron's parameters, from its first releases to today's core models, in our terms. Internal to this
// folder.
#ifndef CHECKPOINT_MEGATRON_NAMES_H
#define CHECKPOINT_MEGATRON_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum megatron_split {
    SPLIT_WHOLE,    // every tensor-parallel rank has it all
    SPLIT_ROWS,     // ranks one below another
    SPLIT_COLUMNS,  // ranks side by side
    SPLIT_QKV,      // rows, interleaved by head
    SPLIT_GATED,    // rows, each rank's in two halves
};

// What a name is read as: the stack it belongs to, and where its layers begin.
struct megatron_place {
    const char *stack;  // "decoder", of BERT "encoder"
    int64_t first_layer;
};
// Our name of a parameter, to be freed; NULL with *is_ignored where it is none that matters, without where it is not
// known. *layer is its number in the file, -1 where it has none; the name is for that layer + first_layer. Of BERT the
// heads are known too.
char *megatron_name(const char *theirs, const struct megatron_place *place, int64_t *layer, bool *is_ignored);
// How tensor-parallel ranks share a parameter of ours.
enum megatron_split megatron_split(const char *ours, bool is_gated);

#endif
