// A stack of blocks, an encoder or a decoder, with its final norm, its relative positions and its recompute. Under
// recompute, a group's saved activations are dropped after the forward and recomputed from the group's input when
// backward needs them. A dropout mask depends only on layer, place and element, so the results are bit-identical.
#ifndef MODEL_STACK_H
#define MODEL_STACK_H

#include "model/context.h"
#include "model/sublayer.h"

// ---- a block ----

// A transformer block: a list of sublayers, each with a norm and a residual addition:
//   NORMS_BEFORE:    stream += drop(sublayer(norm(stream)) + bias), for each sublayer
//   NORMS_AFTER:     stream = norm(stream + drop(sublayer(stream) + bias))
//   NORMS_RESULTS:   stream += factor * drop(norm(sublayer(stream) + bias))
//   NORMS_BOTH:      stream += factor * drop(norm(sublayer(another norm(stream)) + bias))
//   NORMS_PARALLEL:  stream += the sum of drop(sublayer(norm(stream)) + bias) over the sublayers, which all read the
//                    same stream
//   NORMS_SHARED:    the same with one norm for all of them, that of the first
// The addition is fused into the norm that follows it. The result of a norm before a sublayer is kept only if the first
// matmul keeps its input. Otherwise the norm's backward recomputes it, and that matmul's weight gradient uses the
// recomputed result.

struct sublayer_saved {
    struct tensor x;       // (N, C): input of the norm
    struct tensor result;  // (N, C): input of the output norm
    struct operand input;  // (N, C): input of the sublayer; kept unless a norm before it can compute it again
    struct norm_saved norm, output_norm;
    void *own;  // the kind's own struct
};

struct block {
    struct sublayer *sublayers[MOST_SUBLAYERS];
    int count;
    const struct norm_arrangement *norms;  // see block.c
    int64_t C;
    double dropout;
    float factor;
};
struct block_saved {
    struct sublayer_saved sublayers[MOST_SUBLAYERS];
};

// The residual stream between two blocks: its value and, if open, the last sublayer's delta, which the next norm will
// add. Without a delta the value is complete.
struct residual_stream {
    struct tensor x;           // (N, C)
    struct residual residual;  // its sum is not set
    struct tensor room;        // (N, C): memory for deltas
};
// The gradient of the residual stream in the backward pass.
struct stream_gradient {
    struct tensor dx;      // (N, C)
    struct tensor ddelta;  // (N, C): of what a sublayer added; may be dx with pre-norm and no dropout
    bool is_open;  // ddelta holds the gradient of the preceding sublayer's result, whose bias has been accounted for
};

void block_build(struct block *block, struct param_list *params, const char *name,
                 const struct sublayer_options *options);
void block_free(struct block *block);
// Allocates the block's saved activations of one micro-batch.
void block_saved_open(struct block_saved *saved, const struct block *block);
void block_saved_close(struct block_saved *saved);
// Takes memory for the caches of attention, see struct pass.
void block_take_cache(const struct block *block, struct block_saved *saved, const struct cache_options *options);
// Takes memory for results that stay while the rest of the block is recomputed.
void block_hold(const struct block *block, const struct pass *pass, struct block_saved *saved);
// The first and last declared matrices of the usual parameter group.
const struct param *block_first_matrix(const struct block *block);
const struct param *block_last_matrix(const struct block *block);
// Waits for the values of all parameters of the block, see pass_await_param; tells that their gradients are final, see
// pass_gradients_final.
void block_await(const struct block *block, const struct pass *pass);
void block_gradients_final(const struct block *block, const struct pass *pass);
// Moves the residual stream forward through the block. The result goes to out (N, C); if out is none, which is for
// NORMS_BEFORE, NORMS_PARALLEL and NORMS_SHARED, the last delta remains to be added. Its x must stay until
// the backward. The block saves its activations in pass->activations.
void block_forward(const struct block *block, const struct pass *pass, struct block_saved *saved,
                   struct residual_stream *stream, struct tensor out);
// On entry the gradient is that of the block's output, on return that of its input. With pre-norm it then also includes
// the gradient of the preceding block `before`'s contribution to the residual stream, even if that block made the
// addition itself; parallel sublayers leave that to `before`. `before` is NULL for the first block.
void block_backward(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                    struct stream_gradient *gradient, const struct block *before);

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
