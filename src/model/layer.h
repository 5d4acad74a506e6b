// What a layer is: its parameters, a forward that keeps what the backward will need, and the backward itself, written
// by hand beside the forward it belongs to. All layers run against the table of operations and know no backend.
//
// A pass is one micro-batch on its way through the model. Tensors that the backward needs come from `saved` and stay
// until the micro-batch is done; temporaries come from `scratch` and are gone when the function that took them
// returns. Residual stream, activations and their gradients are (N, C) with N = B * T rows, in the pass's dtype.
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "ops/ops.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "tensor/arena.h"

struct pass {
    struct device *device;
    const struct mesh *mesh;
    struct arena *saved, *scratch;
    enum dtype dtype;
    int64_t B, T;            // sequences, tokens of each
    bool is_training;        // dropout is on and a backward follows
    bool is_first;           // of a step: weight gradients of products are written, not added to
    uint64_t seed;           // of the dropout masks
    struct tensor row_ids;   // (N) i64: global token numbers, see struct dropout
    struct kv_cache *cache;  // generation: keys and values of the tokens before these; NULL otherwise
};

// Where dropout is applied: keyed by layer, so that no two masks are the same.
enum dropout_place { DROPOUT_EMBEDDING, DROPOUT_ATTENTION, DROPOUT_AFTER_ATTENTION, DROPOUT_AFTER_MLP, DROPOUT_PLACES };

struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place);
int64_t pass_rows(const struct pass *pass);

// y = x W^T (+ bias): W (out, in).
struct linear {
    struct param *weight;  // (out, in)
    struct param *bias;    // (out) or NULL
    int64_t in, out;
};
// name is the prefix: "…mlp.linear_fc1" gives "….weight" and "….bias".
void linear_build(struct linear *linear, struct param_list *params, const char *name, struct shard weight,
                  double standard_deviation);
// y (N, out) = x (N, in) W^T, and the bias where the epilogue asks for it.
void linear_forward(const struct linear *linear, const struct pass *pass, struct tensor y, struct tensor x,
                    enum epilogue epilogue, struct tensor aux);
// dx (N, in) = dy W. With aux the gradient of the activation before this layer is part of it.
void linear_backward_input(const struct linear *linear, const struct pass *pass, struct tensor dx, struct tensor dy,
                           struct tensor aux);
// dW += dy^T x; in the first pass of a step dW = dy^T x.
void linear_backward_weight(const struct linear *linear, const struct pass *pass, struct tensor dy, struct tensor x);

// LayerNorm.
struct norm {
    struct param *gain, *bias;  // (C)
    float epsilon;
};
void norm_build(struct norm *norm, struct param_list *params, const char *name, int64_t C, double epsilon);

struct norm_saved {
    struct tensor mean, rstd;  // (N) fp32
    struct tensor y;           // (N, C): what the next product's weight gradient needs
};

#endif
