// The choices that make a transformer a GPT, a Llama, a BERT or a T5, read once from the flags. Layers look here and
// never at the flags themselves.
#ifndef MODEL_CHOICES_H
#define MODEL_CHOICES_H

#include "config/config.h"
#include "model/linear.h"

// Rotary positions: how many pairs of channels are rotated, and how fast each of them.
struct rope {
    int64_t pairs;  // 0: no rotary positions
    bool is_interleaved;
    double frequencies[ROPE_MOST_PAIRS];
    float factor;          // of the rotated channels
    int64_t short_length;  // LongRoPE: longer sequences have other frequencies; else 0
    double long_frequencies[ROPE_MOST_PAIRS];
};

// Latent attention: widths of the latents of queries (0: none) and of keys and values, and the channels of a head's
// keys that are its own and that all heads share, which have positions. All zero: ordinary attention.
struct latent_choices {
    int64_t q_rank, kv_rank, own, shared;
    double epsilon;  // of the norms of latents
};

// Mixtures of experts.
struct expert_choices {
    int64_t E, K, F;    // experts (0: none), those that a token goes to, width of one
    int ranks, rank;    // how many ranks share them out, and which of them this is
    int slices, slice;  // the same for those that split each of them
    bool is_apart;      // other ranks hold them than hold the slices of other layers
    int64_t shared;     // width of the expert that every token goes to; 0: none
    bool has_shared_gate;
    struct router_rule rule;
    bool has_bias;                       // balances experts too, see op_route_forward; a step updates it
    float bias_rate;                     // how far in a step
    bool has_sinkhorn;                   // in training, rows choose as op_sinkhorn says
    float jitter;                        // of a router's input in training, see op_jitter
    double coefficients[BALANCE_COUNT];  // of the losses that balance experts; 0: no such loss
    double capacity_factor;              // 0: no token is dropped
    bool is_padded, keeps_first;         // with a capacity: pads to it; keeps the first tokens, not the best
};

struct choices {
    int64_t C, H, G, D, F;     // width, query heads, key/value heads, size of a head, width of the MLP
    int64_t V;                 // size of a head's values; D but for latent attention
    struct norm_options norm;  // of the residual stream, see set_multipliers
    double epsilon;            // of other norms
    bool has_head_norm;        // queries and keys of each head go through a norm
    bool norms_all_heads;      // one norm of all queries and one of all keys instead
    bool norms_each_head;      // or each head has gains of its own
    bool norms_rotated;        // norms of heads come after their rotation
    bool is_post_norm;         // norm after the residual addition instead of before the sublayer
    bool is_output_norm;       // norm of a sublayer's result, before the residual addition
    bool has_input_norm;       // with it: a norm before the sublayer too
    bool is_parallel;          // the sublayers of a block read the same residual stream and are added to it together
    bool has_one_norm;         // such sublayers share the norm of the first
    enum activation activation;
    struct glu_rule glu;
    bool is_gated;  // its result is multiplied with a second half of the MLP's first matmul
    bool has_qkv_bias, has_attention_bias, has_mlp_bias;  // of the linear layers
    float scale, unscaled_scale;                          // of attention scores; without rotary scaling
    float residual_scale;                                 // of the last matmul of sublayers
    float addition_scale;                                 // of what norms of outputs add to the residual stream
    float score_cap;                                      // of attention scores, 0 for none
    bool has_sinks;                                       // a score of each head that has no value
    struct rope rope, local_rope;                         // the second: of layers with has_local_rope
    bool has_alibi;                                       // biases of scores by distance, which are not learned
    float alibi_scale;                                    // of them
    bool has_relative_bias, has_layer_tables;  // a table of relative positions for the stack, or for each of its layers
    struct relative_rule relative;             // first_distance and the direction are set by each stack
    double standard_deviation;
    double hidden_dropout, attention_dropout;
    int parts, part;            // how many ranks share each layer, and which of them this is
    int kv_ranks;               // how many of them share a head of keys and values, see key_slices.h
    int head_ranks;             // the most of any layer, see struct layer_choices
    bool splits_rows;           // sequence parallelism: they split the residual stream, see pass_stream_rows
    bool recomputes_attention;  // selective recompute: of attention, and (next) of the activation of an MLP
    bool recomputes_activation;
    bool recomputes_up;  // of latent attention: queries, keys and values, from their latents
    bool recomputes_mlp, recomputes_experts, recomputes_shared_experts;  // the same for all but the input of these
    int64_t recomputed_layers;  // full recompute, 0: none; uniform: layers per group; else how many, one by one
    bool is_recompute_uniform;
    int64_t offloaded_layers;  // full recompute: inputs of so many layers behind the first go to host memory
    bool holds_attention;      // full recompute: of all but attention itself, whose results stay
    bool divides_inputs;       // full recompute: ranks that share layers each keep some rows of the layers' inputs
    struct latent_choices latent;
    struct expert_choices experts;
    struct fp8 *fp8;          // of the model, if the matmuls of its blocks are in fp8; else NULL
    struct fp8 *expert_fp8;   // the same of those of experts
    struct qk_clip *qk_clip;  // of the model, with --qk-clip; else NULL
};

// What may differ from layer to layer: its sublayers in order, the window of causal attention (0 for none), whether
// rotary positions are left out, and whether they are those of layers with a window; how ranks share sequences; and
// whether its matmuls are in fp8.
struct sublayer_kind;
enum { MOST_SUBLAYERS = 3 };
struct layer_choices {
    const struct sublayer_kind *sublayers[MOST_SUBLAYERS];  // NULL behind the last
    int64_t window;
    bool skips_rope, has_local_rope;
    int head_ranks;                // neighbouring context-parallel ranks that exchange heads, see heads.h; 1 or 0: none
    int64_t expert_layer;          // if it has experts: how many layers before it have some
    struct fp8 *fp8, *expert_fp8;  // as in struct choices; NULL in a layer that stays in bf16
};

void choices_set(struct choices *choices, const struct config *config, const struct mesh *mesh);
// The rotary positions of ordinary layers. False if the model has none, or more or fewer than layers may have, which
// choices_set takes for a broken invariant.
bool choices_set_rope(struct rope *rope, const struct config *config);
float choices_scale(const struct config *config);  // the factor of attention scores
// The choices of a dense layer without a window, of a stack that attends to a memory or not.
struct layer_choices choices_layer(const struct choices *choices, bool has_cross);
// Makes it a layer whose MLP is a mixture of experts, with so many such layers before it.
void choices_add_experts(struct layer_choices *layer, int64_t before);
// The activation that a flag names.
enum activation choices_activation(const char *name);
// Whether the ranks that share layers split the residual stream as well.
bool choices_splits_rows(const struct config *config, const struct mesh *mesh);
// The shape as this rank holds it, split along a dimension among the ranks that share the layer.
struct shard choices_split(const struct choices *choices, struct shard whole, int dimension);

#endif
