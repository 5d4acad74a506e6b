// Linear layers and their strategies. A strategy determines the form in which inputs, weights and gradients are stored
// and what is fused with storing them; code above this file does not know a linear's strategy. There are three: plain,
// in the pass's dtype; fp8 with a range for each tensor (linear_fp8.c); and fp8 by blocks (linear_blocks.c). The latter
// two apply while training. Evaluation is always plain.
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include "model/fp8.h"
#include "model/layer.h"

// y = x W^T (+ bias), with W (out, in). If ranks share the layer, W is split along its rows (each rank computes some
// columns of y) or along its columns (each rank holds some columns of x, and their contributions to y are summed over
// the ranks). With W split along its rows, the gradient of x is summed. With W split along its columns, the bias is
// whole and is added once, after the sum.
//
// If the residual stream is split (see pass_stream_rows), x and dx of a layer split along its rows, and y of one split
// along its columns, are this rank's rows; the gradient of the latter's y must be gathered before, see
// linear_output_gradient.
struct linear {
    struct param *weight;  // (out, in)
    struct param *bias;    // (out) or NULL
    int64_t in, out;       // as held by this rank
    bool sums_output, sums_input;
    float scale;                             // y = scale x W^T; a layer whose scale is not 1 has no bias
    const struct linear_strategy *strategy;  // while training
    struct fp8 *fp8;                         // for the fp8 strategy, like the next
    int fp8_layer;
    int fp8_input;  // the fp8 layer of its input's range: its own, or another linear's with the same input
};
// `name` is a prefix: "…mlp.linear_fc1" declares "….weight" and, with a bias, "….bias".
struct linear_options {
    struct shard weight;
    bool has_bias;
    double standard_deviation;
    bool sums_gradient;                 // if the weight is not split: see struct param
    float scale;                        // see struct linear; 0 for 1
    struct fp8 *fp8;                    // not NULL: matmuls are in fp8 while training
    const struct linear *shares_input;  // a linear with the same input, whose range this one uses; or NULL
};
void linear_build(struct linear *linear, struct param_list *params, const char *name,
                  const struct linear_options *options);
// The shard of a whole (rows, columns) matrix whose rows are made of segments of the given lengths, ended by a 0.
struct shard linear_segments(int64_t columns, const int64_t segments[SHARD_MAX_SEGMENTS]);

// y (N, out) = x (N, in) W^T, plus the bias if the epilogue asks for one and the layer has one. Takes x as it is, or as
// returned by linear_normalize or linear_activate.
void linear_forward(const struct linear *linear, const struct pass *pass, struct tensor y, struct operand x,
                    enum epilogue epilogue, struct tensor aux);
// Both convert dy (N, out) to the form that the backward functions take; new tensors are in scratch. linear_gradient
// takes all rows of dy and adds to the gradient of the bias. linear_output_gradient takes this rank's rows of the
// stream and leaves the bias to the code that added it.
struct operand linear_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy);
struct operand linear_output_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy);
// dx (N, in) = dy W. If aux is given, the gradient of the tanh GELU before this layer is applied as well.
void linear_backward_input(const struct linear *linear, const struct pass *pass, struct tensor dx, struct operand dy,
                           struct tensor aux);
// dx (N, in) += dy W.
void linear_backward_input_add(const struct linear *linear, const struct pass *pass, struct tensor dx,
                               struct operand dy);
// dW += dy^T x, or dW = dy^T x in the first pass of a step. Deferred if the pass says so.
void linear_backward_weight(const struct linear *linear, const struct pass *pass, struct operand dy, struct operand x);
// Converts x, the input of two linears, to the form that both take, so that it is quantized once; new tensors are in
// scratch. linear_shared_input is for linear_forward, linear_shared_rows for linear_backward_weight. If only one of the
// linears gathers rows, x is returned unchanged.
struct operand linear_shared_input(const struct linear *linear, const struct linear *other, const struct pass *pass,
                                   struct operand x);
struct operand linear_shared_rows(const struct linear *linear, const struct linear *other, const struct pass *pass,
                                  struct operand x);
// The value and the gradient of the bias, for a caller that adds it later; none without a bias.
struct tensor linear_bias(const struct linear *linear);
struct tensor linear_bias_gradient(const struct linear *linear);

// Applies a norm whose result is the input of a linear. Returns that input, kept for the backward pass if
// linear_keeps_norm, else in scratch: then the norm's backward pass stores it again.
struct operand linear_normalize(const struct linear *linear, const struct pass *pass, const struct norm *norm,
                                struct norm_saved *saved, struct tensor x, const struct residual *residual);
bool linear_keeps_norm(const struct linear *linear, const struct pass *pass);

// An activation between two linears. If gated, the activation of one half of `from`'s output is multiplied by the other
// half.
struct activation_step {
    const struct linear *from, *to;
    enum activation activation;
    struct glu_rule rule;          // if gated
    bool is_gated, is_recomputed;  // is_recomputed: keeps no results, not even expensive ones
};
struct activation_saved {
    struct tensor before;  // (N, F) or (N, 2F): input of the activation; backward overwrites it
    struct operand after;  // (N, F): its result; if not kept, backward recomputes it
};
// Takes x through `from` and the activation. The result may lie in scratch.
void linear_activate(const struct activation_step *between, const struct pass *pass, struct activation_saved *saved,
                     struct operand x);
// Computes from the gradient of `to`'s output the gradients of `from`'s output and bias. Also sets `after` to the input
// of `to`.
struct operand linear_activate_backward(const struct activation_step *between, const struct pass *pass,
                                        const struct activation_saved *saved, struct operand dy, struct operand *after);

struct linear_strategy {
    // Whether results of norms are kept if memory allows. In fp8 they are small, and quantizing them again would cost a
    // separate pass. In 16 bits, storing them again adds one write to the norm's backward pass.
    bool keeps_norms;
    // The weight for y = x W^T, or for dx = dy W; new tensors are in scratch.
    struct operand (*weight)(const struct linear *linear, const struct pass *pass, bool is_backward);
    // Convert x to the form of the forward matmul, and dy to that of the backward matmuls, adding to dbias if given.
    // Results are in scratch unless unchanged.
    struct operand (*input)(const struct linear *linear, const struct pass *pass, struct operand x);
    struct operand (*gradient)(const struct linear *linear, const struct pass *pass, struct tensor dy,
                               struct tensor dbias);
    // Converts both to the form that linear_weight_matmul takes.
    void (*prepare)(const struct linear *linear, const struct pass *pass, struct operand *dy, struct operand *x);
    // See the functions of the same names.
    struct operand (*normalize)(const struct linear *linear, const struct pass *pass, const struct norm *norm,
                                struct norm_saved *saved, struct tensor x, const struct residual *residual);
    void (*activate)(const struct activation_step *between, const struct pass *pass, struct activation_saved *saved,
                     struct operand x);
    struct operand (*activate_backward)(const struct activation_step *between, const struct pass *pass,
                                        const struct activation_saved *saved, struct operand dy, struct operand *after);
};
extern const struct linear_strategy linear_plain, linear_fp8, linear_blocks;

#endif
