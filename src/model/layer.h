// A layer consists of its parameters, a forward pass that keeps what the backward pass will need, and the backward
// pass, written by hand beside the forward pass it belongs to. All layers are written against the table of operations
// and know no backend.
//
// A `struct pass` takes one micro-batch through a stack of layers. Tensors that the backward pass needs come from
// `saved` and live until the micro-batch is done; temporaries come from `scratch` and live until the function that took
// them returns. The residual stream, activations and their gradients are (N, C) with N = B * T rows, in the pass's
// dtype.
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "model/fp8.h"
#include "ops/ops.h"
#include "parallel/context.h"
#include "parallel/param.h"
#include "parallel/reducer.h"
#include "tensor/arena.h"

// What a decoder cross-attends to: the encoder's output.
struct memory {
    struct tensor x;           // (B * T, C), with the encoder's T
    struct tensor dx;          // same shape: the gradients are accumulated here
    int64_t T;                 // rows per sample
    struct tensor key_counts;  // (B) i32 or none: how many rows of each sample are not padding
};

struct pass {
    struct device *device;
    const struct mesh *mesh;
    struct arena *saved, *scratch;
    enum dtype dtype;
    int64_t B, T;              // sequences, and how many tokens of each this rank holds
    bool is_training;          // dropout is on, and a backward pass follows
    bool keeps_results;        // results of norms and activations are kept, not computed again, see pass_keeps_results
    bool is_first;             // first pass of a step: products write their weight gradients instead of adding to them
    bool is_last;              // last pass of a step: after its backward the gradients are final
    struct reducer *reducer;   // learns when gradients are final and provides parameters; NULL for neither
    bool splits_rows;          // sequence parallelism, see pass_stream_rows
    uint64_t seed;             // for the dropout masks
    struct tensor row_ids;     // (N) i64: global numbers of the tokens, see struct dropout
    struct tensor positions;   // (N) i32: positions of the tokens if the model is rotary, else none
    struct tensor key_counts;  // (B) i32 or none, see struct attention_mask
    struct tensor first_keys;  // (N) i32 or none
    struct tensor relative_bias[CONTEXT_MOST_CHUNKS];   // (H, Tq + Tk - 1) fp32 or none, for each chunk of queries
    struct tensor drelative_bias[CONTEXT_MOST_CHUNKS];  // (B, H, Tq + Tk - 1) fp32 or none
    struct kv_cache *cache;  // for generation: keys and values of earlier tokens; NULL otherwise
    struct memory memory;    // for cross-attention
    // Collects the weight gradients of the blocks to be computed later, see deferred.h; NULL to compute them at once.
    struct deferred *deferred;
};

// The places where dropout is applied. Masks are keyed by layer and place, so no two are the same.
enum dropout_place { DROPOUT_EMBEDDING, DROPOUT_ATTENTION, DROPOUT_AFTER_ATTENTION, DROPOUT_AFTER_MLP, DROPOUT_PLACES };

struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place);
int64_t pass_rows(const struct pass *pass);
// Whether what the backward pass could compute again on its way, at the price of storing it twice, is kept for it.
bool pass_keeps_results(const struct pass *pass);
// With splits_rows (sequence parallelism), the ranks that share layers also divide the residual stream: through norms,
// dropout and residual additions each holds N / parts of its rows, and all rows are gathered only for the products of a
// layer. These return the number of rows that this rank holds of the stream, and this rank's rows of a tensor that has
// one row per token.
int64_t pass_stream_rows(const struct pass *pass);
struct tensor pass_own_rows(const struct pass *pass, struct tensor x);
// Gathers all rows of the stream from this rank's x (n, C), into memory from the arena. Returns x itself if the stream
// is not divided.
struct tensor pass_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name);
// Sums `whole` (N, C) over the ranks that share each layer: in place if the stream is not divided (`out` is `whole`),
// else `out` receives this rank's rows of the sum. Does nothing if this rank holds its layers alone, or on paper.
void pass_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name);
// Called before a parameter is read, or any parameter declared before it: a distributed optimizer may still be sending
// their values. NULL is fine.
void pass_await_param(const struct pass *pass, const struct param *param);
// Tells that the backward of everything declared from this matrix on is done.
void pass_gradients_final(const struct pass *pass, const struct param *param);
// How many ranks share each layer.
int pass_parts(const struct pass *pass);

// y = x W^T (+ bias), with W (out, in). If ranks share the layer, W is split along its rows (each rank computes some
// columns of y) or along its columns (each rank holds some columns of x, and their contributions to y are summed over
// the ranks). With W split along its rows, the gradient of x is summed. With W split along its columns, the bias is
// whole and is added once, after the sum.
//
// If the stream is divided (see pass_stream_rows), x and dx of a layer split along its rows, and y of one split along
// its columns, are this rank's rows; the gradient of the latter's y must have been gathered, see
// linear_output_gradient.
struct linear {
    struct param *weight;  // (out, in)
    struct param *bias;    // (out) or NULL
    int64_t in, out;       // as held by this rank
    bool sums_output, sums_input;
    struct fp8 *fp8;  // NULL: its products are never in 8 bits
    int fp8_layer;
};
// `name` is a prefix: "…mlp.linear_fc1" declares "….weight" and, with a bias, "….bias".
struct linear_options {
    struct shard weight;
    bool has_bias;
    double standard_deviation;
    bool sums_gradient;  // if the weight is not split: see struct param
    struct fp8 *fp8;     // not NULL: products are in 8 bits while training
};
void linear_build(struct linear *linear, struct param_list *params, const char *name,
                  const struct linear_options *options);
// The shard of a whole (rows, columns) matrix whose rows are made of segments of the given lengths, ended by a 0.
struct shard linear_segments(int64_t columns, const int64_t segments[SHARD_MAX_SEGMENTS]);

// Whether this pass multiplies in 8 bits here. If so, x may be in 8 bits, in memory from linear_take_input, and dy must
// be, in memory from linear_take_gradient. Behind dy that memory holds its transpose (out, N), which linear_transposed
// returns.
bool linear_is_fp8(const struct linear *linear, const struct pass *pass);
struct tensor linear_take_input(const struct linear *linear, const struct pass *pass, int64_t rows);
struct tensor linear_take_gradient(const struct linear *linear, const struct pass *pass, int64_t rows);
struct tensor linear_transposed(struct tensor dy);
// op_quantize to an input or a gradient of this layer.
void linear_quantize(const struct linear *linear, const struct pass *pass, struct op_quantize op);

// y (N, out) = x (N, in) W^T, plus the bias if the epilogue asks for one and the layer has one.
void linear_forward(const struct linear *linear, const struct pass *pass, struct tensor y, struct tensor x,
                    enum epilogue epilogue, struct tensor aux);
// dx (N, in) = dy W. If aux is given, the gradient of the tanh GELU before this layer is applied as well.
void linear_backward_input(const struct linear *linear, const struct pass *pass, struct tensor dx, struct tensor dy,
                           struct tensor aux);
// Both turn dy (N, out) into the form that the backward functions take; the result is in scratch unless it is dy
// itself. linear_gradient takes all rows of dy; in 8 bits it also adds to the gradient of the bias, so that
// linear_backward_bias is not needed. linear_output_gradient takes this rank's rows of the stream and leaves the bias
// to whoever added it.
struct tensor linear_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy);
struct tensor linear_output_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy);
// dx (N, in) += dy W.
void linear_backward_input_add(const struct linear *linear, const struct pass *pass, struct tensor dx,
                               struct tensor dy);
// dW += dy^T x, or dW = dy^T x in the first pass of a step. Deferred if the pass says so.
void linear_backward_weight(const struct linear *linear, const struct pass *pass, struct tensor dy, struct tensor x);
// The product itself, never deferred, of all rows; factors in 8 bits are transposed, (out, N) and (in, N).
void linear_weight_product(const struct linear *linear, const struct pass *pass, struct tensor dy, struct tensor x);
// Adds the column sums of dy to the gradient of the bias. Does nothing if there is no bias, or if dy is in 8 bits.
void linear_backward_bias(const struct linear *linear, const struct pass *pass, struct tensor dy);
// The value and the gradient of the bias for a caller that adds it later; no tensor if there is no bias.
struct tensor linear_bias(const struct linear *linear);
struct tensor linear_bias_gradient(const struct linear *linear);

// LayerNorm or RMSNorm.
struct norm {
    enum norm_kind kind;
    struct param *gain, *bias;  // (C); no bias with RMS
    float gain_offset;          // gains are kept as what they are above this
    float epsilon;
};
struct norm_options {
    enum norm_kind kind;
    int64_t C;
    double epsilon;
    bool is_centered;    // gains are kept as their distance from 1, which 16 bits hold more finely
    bool sums_gradient;  // see struct param
};
void norm_build(struct norm *norm, struct param_list *params, const char *name, const struct norm_options *options);

struct norm_saved {
    struct tensor mean, rstd;  // (N) fp32; no mean with RMS
    struct tensor y;           // (N, C): the result, possibly in 8 bits; if it was not kept, backward computes it again
};
// Takes memory for what the norm of `rows` rows keeps. The result goes to y; if y is none, the result is kept too.
void norm_take(const struct norm *norm, const struct pass *pass, struct norm_saved *saved, int64_t rows,
               struct tensor y);

// What is added to the stream before the norm; zeroed for nothing.
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
