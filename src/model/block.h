// A transformer block, pre-norm: y = x + drop(attention(norm1(x)) + b), out = y + drop(mlp(norm2(y)) + b).
// The residual addition after attention is part of the second norm's operation.
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/layer.h"

// Keys and values of the tokens so far, for generation: (B, capacity, H, D) for each layer.
struct kv_cache {
    struct tensor *keys, *values;  // one per layer
    int64_t length;                // tokens already in it
};

struct attention {
    struct linear qkv;   // (3 H D, C): all queries, then all keys, then all values
    struct linear proj;  // (C, H D)
    int64_t H, D;
    double dropout;
};
struct attention_saved {
    struct tensor qkv;  // (N, 3 H D)
    struct tensor out;  // (N, H D)
    struct tensor lse;  // (B, H, T) fp32
};

struct mlp {
    struct linear fc1;  // (F, C)
    struct linear fc2;  // (C, F)
};
struct mlp_saved {
    struct tensor before;  // (N, F): input of the activation
    struct tensor after;   // (N, F)
};

struct block_sizes {
    int64_t layer, layers;  // which one, of how many
    int64_t C, H, D, F;
    double epsilon, standard_deviation;
    double hidden_dropout, attention_dropout;
};

struct block {
    struct block_sizes sizes;
    struct norm norm1, norm2;
    struct attention attention;
    struct mlp mlp;
};
struct block_saved {
    struct tensor x, y;  // (N, C): the residual stream before each half
    struct norm_saved norm1, norm2;
    struct attention_saved attention;
    struct mlp_saved mlp;
};

void block_build(struct block *block, struct param_list *params, const char *name, const struct block_sizes *sizes);
// Returns out (N, C), taken from pass->saved. x must stay until the backward.
struct tensor block_forward(const struct block *block, const struct pass *pass, struct block_saved *saved,
                            struct tensor x);
// dx (N, C) comes in as the gradient of the block's output and goes out as that of its input.
void block_backward(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                    struct tensor dx);

// The two halves, in attention.c and mlp.c. Both leave their last bias to whoever adds the result to the stream.
void attention_build(struct attention *attention, struct param_list *params, const char *name,
                     const struct block_sizes *sizes);
void attention_forward(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                       struct tensor delta, struct tensor x, int64_t layer);
void attention_backward(const struct attention *attention, const struct pass *pass, const struct attention_saved *saved,
                        struct tensor dx, struct tensor ddelta, struct tensor x, int64_t layer);
void mlp_build(struct mlp *mlp, struct param_list *params, const char *name, const struct block_sizes *sizes);
void mlp_forward(const struct mlp *mlp, const struct pass *pass, struct mlp_saved *saved, struct tensor delta,
                 struct tensor x);
void mlp_backward(const struct mlp *mlp, const struct pass *pass, const struct mlp_saved *saved, struct tensor dx,
                  struct tensor ddelta, struct tensor x);

#endif
