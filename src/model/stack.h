// A stack of blocks, an encoder or a decoder, with its final norm, its relative positions, and recompute: what a group
// of blocks keeps for the backward pass is thrown away after the forward and computed again from the group's input
// when it is needed. Dropout masks depend on place alone, so it comes out the same to the bit.
#ifndef MODEL_STACK_H
#define MODEL_STACK_H

#include "model/block.h"
#include "model/context.h"

struct stack {
    int64_t first, L, layers;  // layers [first, first + L) of so many in the whole stack
    struct block *blocks;      // L of them
    const struct choices *choices;
    bool is_causal, has_final_norm;
    struct norm final_norm;
    struct param *relative;  // (buckets, H), or NULL
};

// Of a micro-batch on its way: what backward needs.
struct stack_flight {
    struct block_saved *saved;                         // L of them
    struct tensor *inputs;                             // (N, C), L of them: what each group of blocks was given
    size_t *marks;                                     // of pass->saved, L of them: where what a group keeps begins
    struct tensor relative_bias[CONTEXT_MOST_CHUNKS];  // see struct pass
    struct tensor x;                                   // (N, C): input of the final norm
    struct norm_saved final_saved;
};

struct stack_options {
    const char *name;               // "encoder" or "decoder"
    const struct choices *choices;  // must outlive the stack
    int64_t first, L, layers;       // see struct stack
    bool is_causal, has_cross;
    int64_t first_dropout_layer, first_cross_dropout_layer;
};
void stack_build(struct stack *stack, struct param_list *params, const struct stack_options *options);
void stack_free(struct stack *stack);
// Whether it has the first, and the last, layer of the whole stack.
bool stack_begins(const struct stack *stack);
bool stack_ends(const struct stack *stack);
// Room for one micro-batch; several may be on their way through a stack, each with its own.
void stack_flight_open(struct stack_flight *flight, const struct stack *stack);
void stack_flight_close(struct stack_flight *flight);

// x (N, C) through all blocks; x must stay until the backward. The result is what the final norm takes.
struct tensor stack_forward(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                            struct tensor x);
// The final norm of any rows of that result; the same rows where the stack has none.
struct tensor stack_normalize(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                              struct tensor x);
// dy (N, C) is the gradient of what stack_normalize gave, dx (N, C) becomes that of stack_forward's x. Without a final
// norm they must be the same tensor, with one they must not.
void stack_backward(const struct stack *stack, const struct pass *pass, struct stack_flight *flight, struct tensor dx,
                    struct tensor dy);

#endif
