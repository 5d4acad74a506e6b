// A layer consists of its parameters, a forward pass that keeps what the backward pass will need, and the backward
// pass, written by hand beside the forward pass it belongs to. All layers are written against the table of operations
// and know no backend.
//
// A `struct pass` takes one micro-batch through a stack of layers. Tensors that the backward pass needs come from
// `activations` and live until the micro-batch is done; temporaries come from `scratch` and live until the function
// that took them returns. The residual stream, activations and their gradients are (N, C) with N = B * T rows, in the
// pass's dtype.
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "model/away.h"
#include "model/device_batch.h"
#include "ops/ops.h"
#include "parallel/context.h"
#include "parallel/param.h"
#include "parallel/reducer.h"
#include "tensor/arena.h"

// What a decoder cross-attends to: the encoder's output.
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
    bool keeps_results;       // results of norms and activations are kept, not computed again, see pass_keeps_results
    bool is_again;            // recompute: what happens once for each row has happened
    bool holds_attention;     // results of attention stay for the recompute, which reads them, see attention_hold
    bool is_first;            // first pass of a step: matmuls write their weight gradients instead of adding to them
    bool is_last;             // last pass of a step: after its backward the gradients are final
    struct reducer *reducer;  // learns when gradients are final and provides parameters; NULL for neither
    bool splits_rows;         // sequence parallelism, see pass_stream_rows
    bool leaves_sums;         // the outputs of sublayers are not summed over the ranks that share them: the block does
    uint64_t seed;            // for the dropout masks
    const struct device_batch *batch;                   // see pass_input
    bool is_over_encoder;                               // the stack is a decoder over an encoder
    bool attends_memory;                                // the keys of the attention are the encoder's
    struct tensor relative_bias[CONTEXT_MOST_STRIPS];   // (H, Tq + Tk - 1) fp32 or none, for each strip of queries
    struct tensor drelative_bias[CONTEXT_MOST_STRIPS];  // (B, H, Tq + Tk - 1) fp32 or none
    // For generation: the flight has caches (model_take_cache), which hold this many earlier tokens.
    bool has_cache;
    int64_t cached;
    struct memory memory;  // for cross-attention
    // Collects the weight gradients of the blocks to be computed later, see deferred.h; NULL to compute them at once.
    struct deferred *deferred;
    struct away *away;  // where inputs of recomputed blocks go, see away.h; NULL: they stay on the device
    // With the pass of another micro-batch, which computes while rows of this one go to experts of other ranks; NULL:
    // none goes beside this one.
    struct turns *turns;
};

// The places where dropout is applied. Masks are keyed by layer and place, so no two are the same.
enum dropout_place { DROPOUT_EMBEDDING, DROPOUT_ATTENTION, DROPOUT_AFTER_ATTENTION, DROPOUT_AFTER_MLP, DROPOUT_PLACES };

// A field of the batch for the stack that the pass goes through: a decoder over an encoder has tokens of its own.
struct tensor pass_input(const struct pass *pass, enum batch_field field);
struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place);
int64_t pass_rows(const struct pass *pass);
// Whether what the backward pass could compute again on its way, at the price of storing it twice, is kept for it.
bool pass_keeps_results(const struct pass *pass);
// With splits_rows (sequence parallelism), the ranks that share layers also split the residual stream: through norms,
// dropout and residual additions each holds N / parts of its rows, and all rows are gathered only for the matmuls of a
// layer. These return the number of rows that this rank holds of the residual stream, and this rank's rows of a tensor
// that has one row per token.
int64_t pass_stream_rows(const struct pass *pass);
struct tensor pass_own_rows(const struct pass *pass, struct tensor x);
// Gathers all rows of the residual stream from this rank's x (n, C), into memory from the arena. Returns x itself if
// it is not split.
struct tensor pass_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name);
// Sums `whole` (N, C) over the ranks that share each layer: in place if the residual stream is not split (`out` is
// `whole`), else `out` receives this rank's rows of the sum. Does nothing if this rank holds its layers alone.
void pass_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name);
// A pass that keeps nothing: what a layer would keep lies in scratch. With is_again, the forward pass whose results are
// computed again for the backward pass, which then finds them there.
struct pass pass_in_scratch(const struct pass *pass, bool is_again);
// Called before a parameter is read, or any parameter declared before it: a distributed optimizer may still be sending
// their values. NULL is fine.
void pass_await_param(const struct pass *pass, const struct param *param);
// Tells that the backward of everything declared from this matrix on is done.
void pass_gradients_final(const struct pass *pass, const struct param *param);
// How many ranks share each layer.
int pass_parts(const struct pass *pass);

// A matrix that is not quantized.
static inline struct operand operand_of(struct tensor value) {
    return (struct operand){.value = value};
}

// LayerNorm or RMSNorm.
struct norm {
    enum norm_kind kind;
    struct param *gain, *bias;  // (C), or a row for each head; bias may be NULL
    float gain_offset;          // gains are kept as what they are above this
    float epsilon;
};
struct norm_options {
    enum norm_kind kind;
    int64_t C;
    double epsilon;
    bool has_no_bias;    // of a LayerNorm
    bool is_centered;    // gains are kept as their distance from 1, which 16 bits hold more finely
    bool sums_gradient;  // see struct param
    struct shard heads;  // of gains with a row of C for each head; zeroed for one row
};
void norm_build(struct norm *norm, struct param_list *params, const char *name, const struct norm_options *options);

struct norm_saved {
    struct tensor mean, rstd;  // (N) fp32; no mean with RMS
    struct operand y;          // (N, C): the result; if it was not kept, backward computes it again
};
// Takes memory for what the norm of `rows` rows keeps. The result goes to y; if y is none, the result is kept too.
void norm_take(const struct norm *norm, const struct pass *pass, struct norm_saved *saved, int64_t rows,
               struct operand y);

// What is added to the residual stream before the norm; zeroed for nothing.
struct residual {
    struct tensor delta, bias;  // (N, C), (C) or none
    struct tensor sum;          // (N, C) out
    struct dropout dropout;
};
void norm_forward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved, struct tensor x,
                  const struct residual *residual);
// The gradient of what was added; zeroed for nothing.
struct residual_gradient {
    struct tensor ddelta, dbias;  // (N, C) out, (C) accumulated or none
    struct dropout dropout;
};
struct norm_gradient {
    struct tensor dx, dy;     // (N, C): out, in
    struct tensor x;          // (N, C): the input of the norm, after the addition
    struct tensor dresidual;  // (N, C) or none: added to dx
    struct tensor y;          // (N, C) out or none: the result, computed again; may be dy
    struct residual_gradient residual;
};
void norm_backward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved,
                   const struct norm_gradient *gradient);

#endif
