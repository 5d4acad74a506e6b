// A transformer block: self-attention, cross-attention to the encoder's output if the block belongs to a decoder over
// an encoder, and an MLP. Each is a sublayer with a norm and a residual addition:
//   pre-norm:   stream += drop(sublayer(norm(stream)) + bias), for each sublayer
//   post-norm:  stream = norm(stream + drop(sublayer(stream) + bias))
// The addition is fused into the norm that follows it. The result of a norm before a sublayer is only kept if the
// pass keeps_results: otherwise the norm's backward computes it again, and the weight gradient of the sublayer's first
// product is computed from that.
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/choices.h"

// Keys and values of the tokens so far, for generation. The arrays have one entry per layer.
struct kv_cache {
    struct tensor *keys, *values;  // (B, capacity, G, D)
    struct tensor *across;         // (B * T of the memory, 2 G D): keys and values of the encoder's output, or NULL
    int64_t length;                // how many tokens it holds
};

struct block_options {
    const struct choices *choices;
    int64_t layer, layers;  // which layer this is, of how many in its stack
    bool is_causal;
    bool has_cross;
    // Numbers that key the dropout masks of this block and of its cross-attention, so that no two masks of a model are
    // equal.
    int64_t dropout_layer, cross_dropout_layer;
};

struct attention {
    struct linear qkv;   // self-attention: ((H + 2G) D, C), all queries, then all keys, then all values
    struct linear q;     // cross-attention: (H D, C)
    struct linear kv;    // cross-attention: (2G D, C), all keys, then all values
    struct linear proj;  // (C, H D)
    // Of each head of queries and of keys, over its D channels, before their rotation. No gain: there are none. Every
    // rank that shares the layer holds them whole and has the gradient of its own heads.
    struct norm q_norm, k_norm;
    int64_t H, G, D;  // heads of this rank, and the size of a head
    int first_head;   // the first head of this rank, among those of the whole layer
    float scale;
    bool is_cross, is_causal, is_recomputed;
    int64_t window;
    struct rope rope;
    double dropout;
    int64_t layer, dropout_layer;
};
// A norm of heads: what it was given, one row for each token and head, and what it keeps.
struct head_norm_saved {
    struct tensor x;  // (N heads, D)
    struct norm_saved norm;
};
struct attention_saved {
    struct tensor q;    // (N, H D), cross-attention
    struct tensor kv;   // (M, 2G D), cross-attention, M rows of the memory
    struct tensor qkv;  // (N, (H + 2G) D), self-attention
    struct tensor out;  // (N, H D); none if it is recomputed
    struct tensor lse;  // (B, H, T) fp32; none if it is recomputed
    struct head_norm_saved q_norm, k_norm;
};

struct mlp {
    struct linear fc1;  // (F, C); gated (2F, C), the gate first
    struct linear fc2;  // (C, F)
    enum activation activation;
    bool is_gated, is_recomputed;  // is_recomputed: not even a result that is expensive to recompute is kept
};
struct mlp_saved {
    struct tensor before;  // (N, F) or (N, 2F): input of the activation; backward overwrites it
    struct tensor after;   // (N, F); if it was not kept, backward computes it again
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
    struct tensor x;      // (N, C): input of the norm
    struct tensor input;  // (N, C): input of the sublayer; kept for post-norm, in 8 bits, or if the pass keeps_results
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

// The stream between two blocks: its value, and what the last sublayer has yet to add to it. The next norm makes that
// addition. Without such a delta the value is complete.
struct residual_stream {
    struct tensor x;           // (N, C)
    struct residual residual;  // its sum is not set
    struct tensor room;        // (N, C): memory for deltas
};
// The gradient of the stream in the backward pass.
struct stream_gradient {
    struct tensor dx;      // (N, C)
    struct tensor ddelta;  // (N, C): of what a sublayer added; may be dx with pre-norm and no dropout
    bool is_open;  // ddelta holds the gradient of the preceding sublayer's result, whose bias has been accounted for
};

void block_build(struct block *block, struct param_list *params, const char *name, const struct block_options *options);
// The matrices that are declared first and last.
const struct param *block_first_matrix(const struct block *block);
const struct param *block_last_matrix(const struct block *block);
// Moves the stream forward through the block. The result goes to out (N, C); if out is none, which requires pre-norm,
// the last delta remains to be added. The stream's x must stay until the backward. What the block keeps comes from
// pass->saved.
void block_forward(const struct block *block, const struct pass *pass, struct block_saved *saved,
                   struct residual_stream *stream, struct tensor out);
// On entry the gradient is that of the block's output, on return that of its input. With pre-norm it then also includes
// that of what `before`, the preceding block, added to the stream, even if that block made the addition itself.
// `before` is NULL for the first block.
void block_backward(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                    struct stream_gradient *gradient, const struct block *before);

// The sublayers, in attention.c and mlp.c. They leave their last bias to whoever adds the result to the stream: delta
// (N, C) = sublayer(x) without that bias, and dx (N, C) is computed from ddelta. They also leave the weight gradient of
// their first product to the caller, who has x: backward returns the gradient of that product's result, in scratch
// memory that the caller releases.
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
