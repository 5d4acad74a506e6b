// A layer consists of its parameters, a forward pass that saves activations, and the backward pass, written by hand
// beside its forward pass. All layers are written against the table of operations and know no backend.
//
// A `struct pass` takes one micro-batch through a stack of layers. Tensors that the backward pass needs come from
// `activations` and live until the micro-batch is done; temporaries come from `scratch` and live until the function
// that took them returns. The residual stream, activations and their gradients are (N, C) with N = B * T rows, in the
// pass's dtype.
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "model/input_offload.h"
#include "model/device_batch.h"
#include "ops/ops.h"
#include "parallel/context.h"
#include "parallel/param.h"
#include "parallel/reducer.h"
#include "tensor/arena.h"

// The encoder's output, to which a decoder cross-attends.
struct memory {
    struct tensor x;   // (B * T, C), with the encoder's T
    struct tensor dx;  // same shape: the gradients are accumulated here
    int64_t T;         // rows per sample
};

struct pass {
    struct device *device;
    const struct mesh *mesh;
    struct arena *activations, *scratch;
    enum dtype dtype;
    int64_t B, T;             // sequences, and how many tokens of each this rank holds
    bool is_training;         // dropout is on, and a backward pass follows
    bool keeps_results;       // keeps results of norms and activations for backward, see pass_keeps_results
    bool is_again;            // recompute: operations that happen once per row are not repeated
    bool holds_attention;     // keeps results of attention for the recompute, see attention_hold
    bool is_first;            // first pass of a step: matmuls write their weight gradients instead of adding to them
    bool is_last;             // last pass of a step: after its backward the gradients are final
    struct reducer *reducer;  // learns when gradients are final and provides parameters; NULL for neither
    bool splits_rows;         // sequence parallelism, see pass_stream_rows
    bool leaves_sums;         // sublayers do not sum their outputs over the ranks that share them: the block does
    uint64_t seed;            // for the dropout masks
    const struct device_batch *batch;                   // see pass_input
    bool is_over_encoder;                               // the stack is a decoder over an encoder
    bool attends_memory;                                // keys of attention are the encoder's
    struct tensor relative_bias[CONTEXT_MOST_STRIPS];   // (H, Tq + Tk - 1) fp32 or none, for each strip of queries
    struct tensor drelative_bias[CONTEXT_MOST_STRIPS];  // (B, H, Tq + Tk - 1) fp32 or none
    // For generation: the flight has caches (model_take_cache), which hold this many earlier tokens.
    bool has_cache;
    int64_t cached;
    struct memory memory;  // for cross-attention
    // Collects the weight gradients of the blocks to be computed later, see deferred.h; NULL to compute them at once.
    struct deferred *deferred;
    struct input_offload
        *input_offload;  // where inputs of recomputed blocks go, see input_offload.h; NULL: they stay on the device
    // Shared with the pass of another micro-batch, which computes while this one's rows are sent to experts of other
    // ranks; NULL: none.
    struct coroutine *coroutine;
};

// The places where dropout is applied. Masks are keyed by layer and place, so all differ.
enum dropout_place { DROPOUT_EMBEDDING, DROPOUT_ATTENTION, DROPOUT_AFTER_ATTENTION, DROPOUT_AFTER_MLP, DROPOUT_PLACES };

// A field of the batch for the pass's stack: a decoder over an encoder has its own tokens.
struct tensor pass_input(const struct pass *pass, enum batch_field field);
struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place);
int64_t pass_rows(const struct pass *pass);
// Whether to keep results that backward could recompute on its way at the cost of a second store.
bool pass_keeps_results(const struct pass *pass);
// With splits_rows (sequence parallelism), the ranks that share layers also split the residual stream: through norms,
// dropout and residual additions each holds N / parts of its rows, and all rows are gathered only for the matmuls of a
// layer. These return the number of rows of the residual stream on this rank, and this rank's rows of a tensor with one
// row per token.
int64_t pass_stream_rows(const struct pass *pass);
struct tensor pass_own_rows(const struct pass *pass, struct tensor x);
// Gathers all rows of the residual stream from this rank's x (n, C), into memory from the arena. Returns x itself if
// it is not split.
struct tensor pass_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name);
// Sums `whole` (N, C) over the ranks that share each layer: in place if the residual stream is not split (`out` is
// `whole`), else `out` receives this rank's rows of the sum. Does nothing if this rank holds its layers alone.
void pass_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name);
// A pass whose saved activations are in scratch. With is_again it is the recompute of a forward pass, for the backward
// pass that follows.
struct pass pass_in_scratch(const struct pass *pass, bool is_again);
// Called before this parameter, or any parameter declared before it, is read: a distributed optimizer may still be
// sending their values. NULL is fine.
void pass_await_param(const struct pass *pass, const struct param *param);
// Reports that the backward of everything declared from this matrix on is done.
void pass_gradients_final(const struct pass *pass, const struct param *param);
// Number of ranks that share each layer.
int pass_parts(const struct pass *pass);

// A matrix that is not quantized.
static inline struct operand operand_of(struct tensor value) {
    return (struct operand){.value = value};
}

// LayerNorm or RMSNorm.
struct norm {
    enum norm_kind kind;
    struct param *gain, *bias;  // (C), or a row for each head; bias may be NULL
    float gain_offset;          // stored gains are the difference to this
    float epsilon;
};
struct norm_options {
    enum norm_kind kind;
    int64_t C;
    double epsilon;
    bool has_no_bias;    // of a LayerNorm
    bool is_centered;    // stored gains are the distance from 1, which is more precise in 16 bits
    bool sums_gradient;  // see struct param
    struct shard heads;  // shard of gains with a row of C per head; zeroed for one row
};
void norm_build(struct norm *norm, struct param_list *params, const char *name, const struct norm_options *options);

struct norm_saved {
    struct tensor mean, rstd;  // (N) fp32; no mean with RMS
    struct operand y;          // (N, C): the result; if not kept, backward recomputes it
};
// Takes memory for the saved activations of a norm of `rows` rows. The result goes to y; if y is none, it is kept too.
void norm_take(const struct norm *norm, const struct pass *pass, struct norm_saved *saved, int64_t rows,
               struct operand y);

// Addition to the residual stream before the norm; zeroed for none.
struct residual {
    struct tensor delta, bias;  // (N, C), (C) or none
    struct tensor sum;          // (N, C) out
    struct dropout dropout;
};
void norm_forward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved, struct tensor x,
                  const struct residual *residual);
// Gradients of that addition; zeroed for none.
struct residual_gradient {
    struct tensor ddelta, dbias;  // (N, C) out, (C) accumulated or none
    struct dropout dropout;
};
struct norm_gradient {
    struct tensor dx, dy;     // (N, C): out, in
    struct tensor x;          // (N, C): the input of the norm, after the addition
    struct tensor dresidual;  // (N, C) or none: added to dx
    struct tensor y;          // (N, C) out or none: the recomputed result; may be dy
    struct residual_gradient residual;
};
void norm_backward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved,
                   const struct norm_gradient *gradient);

#endif
