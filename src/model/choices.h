// The choices that make a transformer a GPT, a Llama, a BERT or a T5, read once from the flags. Layers look here and
// never at the flags themselves.
#ifndef MODEL_CHOICES_H
#define MODEL_CHOICES_H

#include "config/config.h"
#include "config/model_value.h"
#include "model/linear.h"

// The kinds of sublayers, see sublayer.h.
extern const struct sublayer_kind sublayer_self_attention, sublayer_latent_attention, sublayer_cross_attention,
    sublayer_mlp, sublayer_gated_mlp, sublayer_experts;

// Rotary positions: the number of rotated pairs of channels, and the frequency of each.
struct rope {
    int64_t pairs;  // 0: no rotary positions
    bool is_interleaved;
    double frequencies[ROPE_MOST_PAIRS];
    float factor;          // of the rotated channels
    int64_t short_length;  // LongRoPE: longer sequences use other frequencies; else 0
    double long_frequencies[ROPE_MOST_PAIRS];
};

// Latent attention: widths of the latents of queries (0: none) and of keys and values; channels of a head's keys that
// are its own, and those that all heads share, which have positions. All zero: ordinary attention.
struct latent_choices {
    int64_t q_rank, kv_rank, own, shared;
    double epsilon;  // of the norms of latents
};

// Mixtures of experts.
struct expert_choices {
    int64_t E, K, F;    // experts (0: none), experts per token, width of an expert
    int ranks, rank;    // expert-parallel ranks, and the number of this one
    int slices, slice;  // ranks that split each expert, and the number of this one
    bool is_apart;      // the ranks that hold experts are not those that hold the slices of other layers
    int64_t shared;     // width of the shared expert; 0: none
    bool has_shared_gate;
    struct router_rule rule;
    bool has_bias;                       // also balances experts, see op_route_forward; updated by each step
    float bias_rate;                     // its change per step
    bool has_sinkhorn;                   // in training, rows choose experts by op_sinkhorn
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
    enum norm_places norms;    // of blocks
    enum activation activation;
    struct glu_rule glu;
    bool is_gated;  // gated: the activation is multiplied by the other half of the MLP's first matmul
    bool has_qkv_bias, has_attention_bias, has_mlp_bias;  // of the linear layers
    float scale, unscaled_scale;                          // of attention scores; without rotary scaling
    float residual_scale;                                 // of the last matmul of sublayers
    float addition_scale;                                 // of the residual addition after output norms
    float score_cap;                                      // of attention scores, 0 for none
    bool has_sinks;                                       // one extra score per head, without a value
    struct rope rope, local_rope;                         // the second: of layers with has_local_rope
    bool has_alibi;                                       // biases of scores by distance, not learned
    float alibi_scale;                                    // of them
    bool has_relative_bias, has_layer_tables;  // a table of relative positions for the stack, or for each of its layers
    struct relative_rule relative;             // first_distance and the direction are set by each stack
    double standard_deviation;                 // of initial weights
    bool scales_outputs;                       // see choices_output_deviation
    double hidden_dropout, attention_dropout;
    int parts, part;            // ranks that share each layer, and the number of this one
    int kv_ranks;               // of them, those that share a head of keys and values, see attention.h
    int head_ranks;             // the most of any layer, see struct layer_choices
    bool splits_rows;           // sequence parallelism: these ranks split the residual stream, see pass_stream_rows
    bool recomputes_attention;  // selective recompute: of attention, and (next) of the activation of an MLP
    bool recomputes_activation;
    bool recomputes_up;  // latent attention: recomputes queries, keys and values from their latents
    bool recomputes_mlp, recomputes_experts, recomputes_shared_experts;  // recomputes all but the input of these
    int64_t recomputed_layers;  // full recompute, 0: none; uniform: layers per group; else layers, one by one
    bool is_recompute_uniform;
    int64_t offloaded_layers;  // full recompute: layers after the first whose inputs go to host memory
    bool holds_attention;      // full recompute: of all but attention itself, whose results are kept
    bool divides_inputs;       // full recompute: ranks that share layers each keep some rows of the layers' inputs
    struct latent_choices latent;
    struct expert_choices experts;
    struct fp8 *fp8;          // the model's, if the matmuls of its blocks are in fp8; else NULL
    struct fp8 *expert_fp8;   // the same for its experts
    struct qk_clip *qk_clip;  // the model's, with --qk-clip; else NULL
};

// Choices that may differ from layer to layer: its sublayers in order, the window of causal attention (0 for none),
// whether rotary positions are left out, and whether they are those of layers with a window; how ranks share sequences;
// and whether its matmuls are in fp8.
enum { MOST_SUBLAYERS = 3 };
struct layer_choices {
    const struct sublayer_kind *sublayers[MOST_SUBLAYERS];  // ends with NULL
    int64_t window;
    bool skips_rope, has_local_rope;
    int head_ranks;        // neighbouring context-parallel ranks that exchange heads (attention.h); 1 or 0: none
    int64_t expert_layer;  // if it has experts: number of layers with experts before it
    struct fp8 *fp8, *expert_fp8;  // as in struct choices; NULL in a layer that stays in bf16
};

void choices_set(struct choices *choices, const struct config *config, const struct mesh *mesh);
// The rotary positions of ordinary layers. False if the model has none, or has a number of pairs that layers do not
// support; choices_set treats the latter as a broken invariant.
bool choices_set_rope(struct rope *rope, const struct config_model *model);
float choices_scale(const struct config_model *model);  // the factor of attention scores
// Choices of a dense layer without a window; has_cross: its stack attends to a memory.
struct layer_choices choices_layer(const struct choices *choices, bool has_cross);
// Replaces the layer's MLP by a mixture of experts; `before` is the number of such layers before it.
void choices_add_experts(struct layer_choices *layer, int64_t before);
// The deviation of the last matrix of a sublayer in a model of so many layers: smaller than others, so that the
// residual stream does not grow with the depth.
double choices_output_deviation(const struct choices *choices, int64_t layers);
// Whether the ranks that share layers split the residual stream as well.
bool choices_splits_rows(const struct config *config, const struct mesh *mesh);
// This rank's shard: `whole` split along a dimension among the ranks that share the layer.
struct shard choices_split(const struct choices *choices, struct shard whole, int dimension);

#endif
