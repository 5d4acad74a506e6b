// The description of a model, and how it is initialised: counts, switches, and kinds as enums, whose names stand in
// their flags' rows. The conventions are those of config.h, of which this is a part.
#ifndef CONFIG_MODEL_VALUE_H
#define CONFIG_MODEL_VALUE_H

#include "base/layer_kinds.h"
#include "config/flag.h"
#include <stdbool.h>
#include <stdint.h>

// Kinds of models. --model also takes the names of families, which config_apply_preset replaces by these.
enum config_form {
    CONFIG_GPT,
    CONFIG_BERT,
    CONFIG_T5,
    CONFIG_ICT,
    CONFIG_LLAMA,  // the families
    CONFIG_OPT,
    CONFIG_ROBERTA,
};

enum position_kind { POSITIONS_LEARNED, POSITIONS_ROPE, POSITIONS_RELATIVE, POSITIONS_ALIBI, POSITIONS_NONE };

enum rope_scaling { ROPE_SCALING_LLAMA3, ROPE_SCALING_YARN, ROPE_SCALING_DYNAMIC, ROPE_SCALING_LONGROPE };

enum latent_rope { LATENT_ROPE_UNSET, LATENT_ROPE_PLAIN, LATENT_ROPE_YARN };

enum softmax_kind { SOFTMAX_PLAIN, SOFTMAX_OFF_BY_ONE, SOFTMAX_LEARNABLE };

// Where the norms of a block are, see model/stack.h.
enum norm_places {
    NORMS_BEFORE,   // of each sublayer
    NORMS_AFTER,    // each residual addition
    NORMS_RESULTS,  // of sublayers, before the residual addition
    NORMS_BOTH,     // before sublayers, and of their results
    // The sublayers of a block read the same residual stream and are added to it together.
    NORMS_PARALLEL,  // before each of them
    NORMS_SHARED,    // the norm of the first is that of all
    NORMS_COUNT
};

enum router_dtype { ROUTER_DTYPE_UNSET, ROUTER_DTYPE_FP32, ROUTER_DTYPE_FP64 };

// Which tokens of an expert above its capacity are dropped: those with the smallest weights, or the last ones.
enum token_drop { DROP_BY_WEIGHT, DROP_BY_POSITION };

// H = hidden_size, L = num_layers.
struct config_model {
    char *preset;  // NULL for none
    enum config_form form;
    int64_t num_layers, hidden_size;
    int64_t word_embedding_size;  // 0: H
    int64_t ffn_hidden_size;      // 4H if not given
    int64_t num_attention_heads;
    int64_t kv_channels;  // H / heads if not given
    bool group_query_attention;
    int64_t num_query_groups;  // see config_query_groups
    int64_t max_position_embeddings;
    enum position_kind position_embedding_type;
    bool no_position_embedding;
    int64_t position_offset;  // rows of the position table before that of position 0
    double rotary_base;
    double rotary_percent;
    bool rotary_interleaved;
    double rotary_seq_len_interpolation_factor;  // positions are divided by it
    bool use_rope_scaling;                       // see rope_scaling_type and the fields after it
    enum rope_scaling rope_scaling_type;
    double rope_scaling_factor;
    double rope_low_freq_factor;
    double rope_high_freq_factor;
    int64_t rope_original_length;
    double yarn_beta_fast;
    double yarn_beta_slow;
    bool no_yarn_correction_range_round_to_int;
    double yarn_attention_factor;                // 0: see config_rope_attention_factor
    char *rope_short_factor, *rope_long_factor;  // see config_rope_factors
    int64_t relative_attention_num_buckets;
    int64_t relative_attention_max_distance;
    bool relative_attention_per_layer, scale_alibi;
    int64_t sliding_window;       // 0 for none
    char *window_size;            // config_validate turns it into sliding_window
    char *window_attn_skip_freq;  // layers with the window: "N", a list, or NULL for all; see config_layer_window
    double rotary_base_local;     // of layers with the window, without scaling; 0: the same base as in other layers
    double attn_logit_softcapping, final_logit_softcapping;  // 0 for none
    enum softmax_kind softmax_type;
    double softmax_scale;  // 0: 1 / sqrt(kv_channels)
    // Latent attention; see validate_model.c and config_yarn. kv_channels is qk_head_dim + qk_pos_emb_head_dim.
    bool multi_latent_attention, latent_rotary_halves;
    int64_t q_lora_rank, kv_lora_rank, qk_head_dim, qk_pos_emb_head_dim, v_head_dim;  // the first 0: no latent
    enum latent_rope rope_type;
    double rotary_scaling_factor, mscale, mscale_all_dim, latent_norm_epsilon;  // the last 0: norm_epsilon
    int64_t original_max_position_embeddings;
    enum norm_kind normalization;
    enum norm_places norm_placement;  // see config_norm_places
    double norm_epsilon;
    bool apply_layernorm_1p;
    bool no_norm_bias, embed_layernorm;
    bool qk_layernorm, qk_layernorm_all_heads, qk_layernorm_per_head, qk_layernorm_after_rope;
    bool parallel_residual, parallel_residual_one_norm;
    double embedding_multiplier, residual_multiplier, logits_scaling;  // 1 for none
    int64_t no_rope_freq;                // every N-th layer has no rotary positions; 0 for none
    enum activation activation;          // ACTIVATION_COUNT: not given, see config_activation
    enum activation lm_head_activation;  // the same, see config_head_activation
    bool gated_linear_unit;
    bool swiglu, squared_relu, quick_geglu;
    double glu_linear_offset, activation_func_clamp_value;  // 0 for none
    bool no_bias_gelu_fusion;                               // the exact GELU (erf) instead of the tanh form
    bool openai_gelu, onnx_safe, use_legacy_models;         // config_validate turns them into an activation
    bool disable_bias_linear;
    bool add_qkv_bias, add_attention_bias, add_mlp_bias;
    bool untie_embeddings_and_output_weights;
    bool add_output_bias;
    bool scale_tied_output;
    bool apply_query_key_layer_scaling;
    bool attention_softmax_in_fp32;
    int64_t make_vocab_size_divisible_by;
    int64_t padded_vocab_size;  // 0 until the tokenizer is known and config_pad_vocab sets it
    double hidden_dropout, attention_dropout, init_method_std;
    double embedding_init_method_std;  // 0: init_method_std
    double z_loss_strength;            // of the head's logits while training; 0: none
    bool no_scaled_init;
    int64_t encoder_num_layers;  // this and the next: see config_encoder_layers
    int64_t decoder_num_layers;
    bool bert_no_binary_head;
    int64_t num_token_types;           // -1: not given, see config_token_types
    int64_t biencoder_projection_dim;  // ICT: width of the embeddings; 0: H, without a projection
    bool biencoder_shared_query_context_model;
    bool retriever_score_scaling;
    char *hybrid_layer_pattern;  // config_validate turns it into the three above, and mtp_num_layers
    int64_t mtp_num_layers;      // multi-token prediction: number of tokens predicted beyond the next; 0: none
    double mtp_loss_scaling_factor;

    // Experts; see the functions below.
    int64_t num_experts;          // 0: every MLP is dense
    char *moe_layer_freq;         // "N", or a list with a 1 for each layer with experts
    int64_t moe_ffn_hidden_size;  // 0: ffn_hidden_size
    int64_t moe_router_topk;
    enum router_score moe_router_score_function;  // ROUTER_SOFTMAX: see the next
    bool moe_router_pre_softmax;
    double moe_router_topk_scaling_factor;  // 0: none
    int64_t moe_router_num_groups;          // 0: none; the next field, too
    int64_t moe_router_group_topk;
    int64_t moe_router_group_best;  // 0: moe_router_topk / moe_router_group_topk
    enum router_dtype moe_router_dtype;
    struct string_list moe_router_load_balancing_type;  // see config_balance
    struct string_list moe_aux_loss_coeff;
    double moe_z_loss_coeff;      // 0: none
    double moe_input_jitter_eps;  // 0: none
    bool moe_router_enable_expert_bias;
    double moe_router_bias_update_rate;
    double moe_expert_capacity_factor;  // 0 or less: none
    bool moe_pad_expert_input_to_capacity;
    enum token_drop moe_token_drop_policy;
    int64_t moe_shared_expert_intermediate_size;  // 0: none
    bool moe_shared_expert_gate;
};

// Combined meaning of the model's flags. The fields themselves stay as given, so that they can be compared with a
// checkpoint's.

// Whether its only stacks read whole texts in both directions: BERT, and each tower of ICT.
bool config_is_encoder(const struct config_model *model);
// Depths of multi-token prediction.
enum { CONFIG_MOST_DEPTHS = 8 };
int64_t config_query_groups(const struct config_model *model);  // heads of keys and values
// The activation of the MLP, and whether that is gated.
enum activation config_activation(const struct config_model *model);
bool config_is_gated(const struct config_model *model);
bool config_has_binary_head(const struct config_model *model);
bool config_has_output_bias(const struct config_model *model);
int64_t config_token_types(const struct config_model *model);  // 0: none
bool config_has_qkv_bias(const struct config_model *model);
bool config_has_attention_bias(const struct config_model *model);  // of the projection after attention
bool config_has_mlp_bias(const struct config_model *model);
// BERT's head: the activation of its transform.
enum activation config_head_activation(const struct config_model *model);
// A post-norm BERT normalises the sum of its embeddings; pre-norm stacks end with a norm.
bool config_has_embedding_norm(const struct config_model *model);
// The width of a row of the vocabulary. If it is not the hidden size, rows are projected to it and back.
int64_t config_word_embedding_size(const struct config_model *model);
// The channels of a head's values.
int64_t config_value_channels(const struct config_model *model);
double config_latent_epsilon(const struct config_model *model);  // of the norms of latents; 0: there are none
// The scale of attention scores without that of rotary scaling.
float config_softmax_scale(const struct config_model *model);
// Number of layers of each stack, 0 if the form does not have it: GPT is a decoder, BERT an encoder, T5 has both.
int64_t config_encoder_layers(const struct config_model *model);
int64_t config_decoder_layers(const struct config_model *model);
int64_t config_layers(const struct config_model *model);  // of both

// ---- layers ----

// Sliding windows: the width of a layer's window, 0 for none; whether some layers of a model with a window have none;
// and whether all layers of two models have the same.
int64_t config_layer_window(const struct config_model *model, int64_t layer);
bool config_mixes_windows(const struct config_model *model);
bool config_same_windows(const struct config_model *a, const struct config_model *b);
// Layers selected by --window-attn-skip-freq and --moe-layer-freq: sets layers[i] for i below `count`. -1 if the text
// is malformed, or has another number of layers.
int config_parse_window_freq(const char *text, bool *layers, int64_t count);
int config_parse_layer_freq(const char *text, bool *layers, int64_t count);

// ---- mixtures of experts ----

// The layers with experts, their number, the width of one expert, and the losses that balance experts. The list has a
// value for each layer of the decoder and is to be freed.
bool *config_list_expert_layers(const struct config_model *model);
int64_t config_expert_layers(const struct config_model *model);
// The number including the depths of multi-token prediction, which are like the last layer.
int64_t config_routed_layers(const struct config_model *model);
// Whether some layers have MLPs for all tokens: those without experts, and shared experts.
bool config_has_dense_mlps(const struct config_model *model);
int64_t config_expert_width(const struct config_model *model);
bool config_same_expert_layers(const struct config_model *a, const struct config_model *b);
int64_t config_group_best(const struct config_model *model);
double config_router_factor(const struct config_model *model);    // of the chosen experts' weights
double config_expert_capacity(const struct config_model *model);  // as a factor of the mean; 0: none
struct config_balance {
    double batch, sequence, global, z;  // coefficients; 0: no such loss
};
// Whether rows choose experts by Sinkhorn's algorithm.
bool config_has_sinkhorn(const struct config_model *model);
struct config_balance config_balance(const struct config_model *model);

// ---- rotary positions ----

// YaRN: the factor (1 for none), the context length before it, and the turns of the pairs at the ends of its ramp.
struct config_yarn {
    double factor, length, fast, slow;
};
struct config_yarn config_yarn(const struct config_model *model);
// Whether --use-rope-scaling changes anything. The dynamic kind changes the base, which two channels do not have: their
// one frequency is the base to the power of 0.
bool config_scales_rope(const struct config_model *model);
// LongRoPE: sequences of at most rope_original_length tokens have the frequencies of the short factors, longer ones
// those of the long factors.
bool config_has_longrope(const struct config_model *model);
// Reads numbers of at least 1e-6, separated by commas (NULL: none), the first `room` of them into `factors`. Returns
// their count, -1 if the text is not such a list.
int64_t config_rope_factors(const char *text, double *factors, int64_t room);
// Rotary scaling's factor for the rotated channels of queries and keys; 1 for none.
double config_rope_attention_factor(const struct config_model *model);
// --no-rope-freq, 0 if it is beyond the last layer; and whether it disables a layer's rotary positions.
int64_t config_no_rope_freq(const struct config_model *model);
bool config_layer_skips_rope(const struct config_model *model, int64_t layer);
// The number of rotated channels of a head: int(kv_channels × rotary_percent), or those of latent attention.
int64_t config_rotary_channels(const struct config_model *model);

#endif
