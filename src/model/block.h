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
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/sublayer.h"

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

#endif
