// A transformer block: self-attention, in a decoder over an encoder also attention across to its output, and an MLP,
// each a sublayer with a norm and a residual addition.
//   pre-norm:   stream += drop(sublayer(norm(stream)) + bias), for each sublayer
//   post-norm:  stream = norm(stream + drop(sublayer(stream) + bias))
// The addition is part of the operation of the norm that follows it. What a norm before a sublayer gives is not kept:
// its backward makes it again, and then the gradient of the sublayer's first weight can be made from it.
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/choices.h"

// Keys and values of the tokens so far, for generation. Arrays have one entry per layer.
struct kv_cache {
    struct tensor *keys, *values;  // (B, capacity, G, D)
    struct tensor *across;         // (B * T of the memory, 2 G D): keys and values of the encoder's output; or NULL
    int64_t length;                // tokens already in it
};

struct block_options {
    const struct choices *choices;
    int64_t layer, layers;  // which one, of how many in its stack
    bool is_causal;
    bool has_cross;
    // Numbers of this block and of its cross-attention among all that drop: no two masks of a model are the same.
    int64_t dropout_layer, cross_dropout_layer;
};

struct attention {
    struct linear qkv;   // self: ((H + 2G) D, C), all queries, then all keys, then all values
    struct linear q;     // cross: (H D, C)
    struct linear kv;    // cross: (2G D, C), all keys, then all values
    struct linear proj;  // (C, H D)
    int64_t H, G, D;     // heads of this rank, and their width
    int first_head;      // of this rank, among those of the whole layer
    float scale;
    bool is_cross, is_causal, is_recomputed;
    int64_t window;
    struct rope rope;
    double dropout;
    int64_t layer, dropout_layer;
};
struct attention_saved {
    struct tensor q;    // (N, H D), cross
    struct tensor kv;   // (M, 2G D), cross: M rows of the memory
    struct tensor qkv;  // (N, (H + 2G) D), self
    struct tensor out;  // (N, H D); none where it is recomputed
    struct tensor lse;  // (B, H, T) fp32; the same
};

struct mlp {
    struct linear fc1;  // (F, C), gated (2F, C): gate, then what it multiplies
    struct linear fc2;  // (C, F)
    enum activation activation;
    bool is_gated, is_recomputed;  // the latter: a result that costs a step to be made again is not kept either
};
struct mlp_saved {
    struct tensor before;  // (N, F) or (N, 2F): input of the activation; the backward overwrites it
    struct tensor after;   // (N, F); where it was not kept the backward makes it again
};

enum sublayer_kind { SUBLAYER_SELF, SUBLAYER_CROSS, SUBLAYER_MLP };
enum { MOST_SUBLAYERS = 3 };
struct sublayer {
    enum sublayer_kind kind;
    struct norm norm;
    struct attention attention;
    struct mlp mlp;
    int64_t dropout_layer;
};
struct sublayer_saved {
    struct tensor x;      // (N, C): what the norm was given
    struct tensor input;  // (N, C): what the sublayer was given; only kept where the norm comes after, or in 8 bits
    struct norm_saved norm;
    struct attention_saved attention;
    struct mlp_saved mlp;
};

struct block {
    struct sublayer sublayers[MOST_SUBLAYERS];
    int count;
    bool is_post_norm;
    int64_t C;
    double dropout;
};
struct block_saved {
    struct sublayer_saved sublayers[MOST_SUBLAYERS];
};

// The stream between two blocks: what came before, and what the last sublayer is still to add to it, which the next
// norm does on its way. Without such a delta it is whole.
struct residual_stream {
    struct tensor x;           // (N, C)
    struct residual residual;  // its sum is not set
    struct tensor room;        // (N, C): for deltas
};
// The gradient of the stream on its way back.
struct stream_gradient {
    struct tensor dx;      // (N, C)
    struct tensor ddelta;  // (N, C): of what a sublayer added; may be dx where norms come first and nothing is dropped
    bool is_open;          // ddelta holds that of the last sublayer before already, and its bias has its gradient
};

void block_build(struct block *block, struct param_list *params, const char *name, const struct block_options *options);
// The matrices that are declared first and last.
const struct param *block_first_matrix(const struct block *block);
const struct param *block_last_matrix(const struct block *block);
// Moves the stream on: to out (N, C), or where there is none, which needs pre-norm, so that its last delta is still to
// be added. The stream's x must stay until the backward. What the block keeps comes from pass->saved.
void block_forward(const struct block *block, const struct pass *pass, struct block_saved *saved,
                   struct residual_stream *stream, struct tensor out);
// The gradient comes in as that of the block's output and goes out as that of its input; and, where norms come first,
// as that of what the block before it added, which need not have been left to this one's norm. NULL: there is none.
void block_backward(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                    struct stream_gradient *gradient, const struct block *before);

// The sublayers, in attention.c and mlp.c. All leave their last bias to whoever adds the result to
// the stream: delta (N, C) = sublayer(x) without it; dx (N, C) is written from ddelta. The gradient of the first
// product's weight is left to who has x: what the backward returns is the gradient of that product's result, in scratch
// that the caller gives back.
void attention_build(struct attention *attention, struct param_list *params, const char *name,
                     const struct block_options *options);
void attention_forward(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                       struct tensor delta, struct tensor x);
struct tensor attention_backward(const struct attention *attention, const struct pass *pass,
                                 const struct attention_saved *saved, struct tensor dx, struct tensor ddelta);
void mlp_build(struct mlp *mlp, struct param_list *params, const char *name, const struct block_options *options);
void mlp_forward(const struct mlp *mlp, const struct pass *pass, struct mlp_saved *saved, struct tensor delta,
                 struct tensor x);
struct tensor mlp_backward(const struct mlp *mlp, const struct pass *pass, const struct mlp_saved *saved,
                           struct tensor dx, struct tensor ddelta);

#endif
