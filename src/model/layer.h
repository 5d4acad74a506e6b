// What a layer is: its parameters, a forward that keeps what the backward will need, and the backward itself, written
// by hand beside the forward it belongs to. All layers run against the table of operations and know no backend.
//
// A pass is one micro-batch on its way through a stack of layers. Tensors that the backward needs come from `saved` and
// stay until the micro-batch is done; temporaries come from `scratch` and are gone when the function that took them
// returns. Residual stream, activations and their gradients are (N, C) with N = B * T rows, in the pass's dtype.
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "model/fp8.h"
#include "ops/ops.h"
#include "parallel/context.h"
#include "parallel/param.h"
#include "parallel/reducer.h"
#include "tensor/arena.h"

// What a decoder attends across to: the encoder's output.
struct memory {
    struct tensor x;           // (B * T, C) with T of the memory
    struct tensor dx;          // the same: gradients are added to it
    int64_t T;                 // rows of a sample
    struct tensor key_counts;  // (B) i32 or none: rows of each sample that are no padding
};

struct pass {
    struct device *device;
    const struct mesh *mesh;
    struct arena *saved, *scratch;
    enum dtype dtype;
    int64_t B, T;              // sequences, tokens of each that this rank has
    bool is_training;          // dropout is on and a backward follows
    bool is_first;             // of a step: weight gradients of products are written, not added to
    bool is_last;              // of a step: after its backward the gradients are final
    struct reducer *reducer;   // told when gradients are final, asked for parameters; NULL: neither
    bool splits_rows;          // sequence parallelism, see below
    uint64_t seed;             // of the dropout masks
    struct tensor row_ids;     // (N) i64: global token numbers, see struct dropout
    struct tensor positions;   // (N) i32: places of the tokens, for rotary positions; else none
    struct tensor key_counts;  // (B) i32 or none, see struct attention_mask
    struct tensor first_keys;  // (N) i32 or none
    struct tensor relative_bias[CONTEXT_MOST_CHUNKS];   // (H, Tq + Tk - 1) fp32 or none, of each chunk of queries
    struct tensor drelative_bias[CONTEXT_MOST_CHUNKS];  // (B, H, Tq + Tk - 1) fp32 or none
    struct kv_cache *cache;  // generation: keys and values of the tokens before these; NULL otherwise
    struct memory memory;    // of cross-attention
    // Where the gradients of the blocks' weights are put off, see deferred.h; NULL: they are made at once.
    struct deferred *deferred;
};

// Where dropout is applied: keyed by layer, so that no two masks are the same.
enum dropout_place { DROPOUT_EMBEDDING, DROPOUT_ATTENTION, DROPOUT_AFTER_ATTENTION, DROPOUT_AFTER_MLP, DROPOUT_PLACES };

struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place);
int64_t pass_rows(const struct pass *pass);
// Ranks that share layers may also divide the stream between them: with splits_rows each holds N / parts of its rows,
// through norms, dropout and residual additions, and gathers all of them only for the products of a layer. What a rank
// holds of the stream: its number of rows, and its rows of a tensor with one per token.
int64_t pass_stream_rows(const struct pass *pass);
struct tensor pass_own_rows(const struct pass *pass, struct tensor x);
// All rows of a part of the stream (n, C), in memory of the arena; x itself where the stream is not divided.
struct tensor pass_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name);
// out = the sum of `whole` (N, C) over the ranks that share each layer, or this rank's rows of it. Where the stream is
// not divided, out is whole. No sum where a rank has its layers for itself, and on paper.
void pass_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name);
// Before a parameter is read, or one that is declared before it: a divided optimizer may still be sending them. NULL is
// fine.
void pass_needs(const struct pass *pass, const struct param *param);
// The backward of everything that is declared from this matrix on is done.
void pass_is_through(const struct pass *pass, const struct param *param);
// How many ranks share each layer, and which of them this is.
int pass_parts(const struct pass *pass);

// y = x W^T (+ bias): W (out, in). Where ranks share the layer, W is split along its rows (each rank makes some of y)
// or along its columns (each rank has some of x, and what it makes of them is summed over the ranks); the gradient of x
// is summed where W is split along its rows. The bias of a W split along its columns is whole: it is added once, after
// the sum. Of a stream that is divided, x and dx of the former and y of the latter are this rank's rows; the gradient
// of the latter's y must have been gathered, see linear_output_gradient.
struct linear {
    struct param *weight;  // (out, in)
    struct param *bias;    // (out) or NULL
    int64_t in, out;       // of this rank
    bool sums_output, sums_input;
    struct fp8 *fp8;  // NULL: its products are never in 8 bits
    int fp8_layer;
};
// name is the prefix: "…mlp.linear_fc1" gives "….weight" and, with a bias, "….bias".
struct linear_options {
    struct shard weight;
    bool has_bias;
    double standard_deviation;
    bool sums_gradient;  // of what is not split: see struct param
    struct fp8 *fp8;     // its products in training are in 8 bits; or NULL
};
void linear_build(struct linear *linear, struct param_list *params, const char *name,
                  const struct linear_options *options);
// A whole (rows, columns) matrix whose rows are segments of the given lengths, 0 at the end.
struct shard linear_segments(int64_t columns, const int64_t segments[SHARD_MAX_SEGMENTS]);

// Whether this pass multiplies in 8 bits here. Then x may come in 8 bits too, in memory that linear_take_input gave. So
// must dy, in memory of linear_take_gradient: there its transpose (out, N), which linear_turned shows, follows it.
bool linear_is_fp8(const struct linear *linear, const struct pass *pass);
struct tensor linear_take_input(const struct linear *linear, const struct pass *pass, int64_t rows);
struct tensor linear_take_gradient(const struct linear *linear, const struct pass *pass, int64_t rows);
struct tensor linear_turned(struct tensor dy);
// op_quantize to an input or a gradient of this layer.
void linear_quantize(const struct linear *linear, const struct pass *pass, struct op_quantize op);

// y (N, out) = x (N, in) W^T, and the bias where the epilogue asks for one and there is one.
void linear_forward(const struct linear *linear, const struct pass *pass, struct tensor y, struct tensor x,
                    enum epilogue epilogue, struct tensor aux);
// dx (N, in) = dy W. With aux the gradient of the tanh GELU before this layer is part of it.
void linear_backward_input(const struct linear *linear, const struct pass *pass, struct tensor dx, struct tensor dy,
                           struct tensor aux);
// dy (N, out) as the functions around take it, in scratch where it is not dy itself. The first one is from all rows; in
// 8 bits it adds to the bias's gradient, which then needs no linear_backward_bias. The second one is from those that
// this rank has of the stream, and leaves the bias to whoever added it.
struct tensor linear_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy);
struct tensor linear_output_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy);
// dx (N, in) += dy W.
void linear_backward_input_add(const struct linear *linear, const struct pass *pass, struct tensor dx,
                               struct tensor dy);
// dW += dy^T x; in the first pass of a step dW = dy^T x. Put off where the pass says so.
void linear_backward_weight(const struct linear *linear, const struct pass *pass, struct tensor dy, struct tensor x);
// The bias's gradient += column sums of dy; nothing where there is no bias, or where dy is in 8 bits.
void linear_backward_bias(const struct linear *linear, const struct pass *pass, struct tensor dy);
// The value and the gradient of the bias, none where there is none: for whoever adds it later.
struct tensor linear_bias(const struct linear *linear);
struct tensor linear_bias_gradient(const struct linear *linear);

// LayerNorm or RMSNorm.
struct norm {
    enum norm_kind kind;
    struct param *gain, *bias;  // (C); no bias with RMS
    float epsilon;
};
struct norm_options {
    enum norm_kind kind;
    int64_t C;
    double epsilon;
    bool sums_gradient;  // see struct param
};
void norm_build(struct norm *norm, struct param_list *params, const char *name, const struct norm_options *options);

struct norm_saved {
    struct tensor mean, rstd;  // (N) fp32; no mean with RMS
    struct tensor y;           // (N, C): the result, maybe in 8 bits; where it was not kept the backward makes it again
};
// Takes what the norm of so many rows keeps; y is where the result goes, none to keep that too.
void norm_take(const struct norm *norm, const struct pass *pass, struct norm_saved *saved, int64_t rows,
               struct tensor y);

// A delta to be added to the stream before the norm; zeroed for none.
struct residual {
    struct tensor delta, bias;  // (N, C), (C) or none
    struct tensor sum;          // (N, C) out
    struct dropout dropout;
};
void norm_forward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved, struct tensor x,
                  const struct residual *residual);
// The gradient of that delta; zeroed for none.
struct residual_gradient {
    struct tensor ddelta, dbias;  // (N, C) out, (C) accumulated or none
    struct dropout dropout;
};
struct norm_gradient {
    struct tensor dx, dy;     // (N, C): out, in
    struct tensor x;          // (N, C): what was normalised
    struct tensor dresidual;  // (N, C) or none: added to dx
    struct tensor y;          // (N, C) out or none: the result once more; may be dy
    struct residual_gradient residual;
};
void norm_backward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved,
                   const struct norm_gradient *gradient);

#endif
