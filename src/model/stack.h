// A stack of blocks, an encoder or a decoder, with its final norm, its relative positions and its recompute. Under
// recompute, a group's saved activations are dropped after the forward and recomputed from the group's input when
// backward needs them. A dropout mask depends only on layer, place and element, so the results are bit-identical.
#ifndef MODEL_STACK_H
#define MODEL_STACK_H

#include "model/block.h"
#include "model/context.h"

struct stack {
    int64_t first, L, layers;  // layers [first, first + L) of the `layers` in the whole stack
    bool begins, ends;         // the embeddings precede it, the final norm and heads follow it
    struct block *blocks;      // L of them
    const struct choices *choices;
    bool is_causal, has_final_norm;
    struct norm final_norm;
    struct param **relative;  // (buckets, H): for all layers or for each; none without relative positions
    int64_t tables;           // how many of them there are
};

// See struct pass.
struct relative_bias {
    struct tensor strips[CONTEXT_MOST_STRIPS];
};

// Saved activations of one micro-batch, for backward.
struct stack_flight {
    int64_t L;
    struct block_saved *saved;  // L of them
    struct tensor *inputs;      // (N, C), L of them: the input of each group of blocks
    size_t *marks;  // L + 1 marks of pass->activations: the beginning of each group's memory, and the end of all
    struct relative_bias *relative_bias;  // of each table
    struct tensor x;                      // (N, C): input of the final norm
    struct norm_saved final_saved;
};

struct stack_options {
    const char *name;               // "encoder" or "decoder"
    const char *block;              // name of its only block; NULL: blocks have numbers
    const struct choices *choices;  // must outlive the stack
    int64_t first, L, layers;       // see struct stack
    bool begins, ends;
    const struct layer_choices *each;  // of each of the L layers
    bool is_causal;
    int64_t first_dropout_layer, first_cross_dropout_layer;
};
void stack_build(struct stack *stack, struct param_list *params, const struct stack_options *options);
void stack_free(struct stack *stack);
// Memory for one micro-batch; several may be in flight through a stack, each with its own.
void stack_flight_open(struct stack_flight *flight, const struct stack *stack);
void stack_flight_close(struct stack_flight *flight);
// Takes memory for the caches of attention, see struct pass.
void stack_take_cache(const struct stack *stack, struct stack_flight *flight, const struct cache_options *options);

// Takes x (N, C) through all blocks; x must stay until the backward. Returns the input of the final norm.
struct tensor stack_forward(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                            struct tensor x);
// Applies the final norm to any rows of that result; returns the same rows if the stack has none.
struct tensor stack_normalize(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                              struct tensor x);
// dy (N, C) is the gradient of stack_normalize's result; dx (N, C) receives that of stack_forward's x. They must be the
// same tensor if there is no final norm, and different tensors if there is one.
void stack_backward(const struct stack *stack, const struct pass *pass, struct stack_flight *flight, struct tensor dx,
                    struct tensor dy);

#endif
