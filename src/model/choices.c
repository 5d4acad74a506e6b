// From flags to choices. See choices.h.
#include "model/choices.h"
#include "base/error.h"
#include "config/config.h"

#include <math.h>
#include <string.h>

static const double TWO_PI = 2 * 3.14159265358979323846;

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

// Llama 3.1 stretches low frequencies for longer contexts: wavelengths above (original length / low factor) by the full
// factor, those below (original length / high factor) not at all, those in between by an interpolation.
static double scaled_frequency(const struct config_model *model, double frequency) {
    double length = (double)model->rope_original_length, wavelength = TWO_PI / frequency;
    double low = model->rope_low_freq_factor, high = model->rope_high_freq_factor;
    if (wavelength > length / low)
        return frequency / model->rope_scaling_factor;
    if (wavelength < length / high)
        return frequency;
    double part = (length / wavelength - low) / (high - low);
    return (1 - part) * frequency / model->rope_scaling_factor + part * frequency;
}

// The channel, out of `channels`, that completes `turns` turns within the original length.
static double yarn_channel(const struct config_model *model, double channels, double turns) {
    return channels * log(config_yarn(model).length / (turns * TWO_PI)) / (2 * log(model->rotary_base));
}

// YaRN: pairs below the first of two bounds stay as they are, those above the second are stretched by the factor, with
// a ramp in between.
static double yarn_frequency(const struct config_model *model, int64_t pair, double frequency) {
    const struct config_yarn yarn = config_yarn(model);
    double channels = (double)config_rotary_channels(model);
    double low = yarn_channel(model, channels, yarn.fast);
    double high = yarn_channel(model, channels, yarn.slow);
    low = fmax(model->no_yarn_correction_range_round_to_int ? low : floor(low), 0);
    high = fmin(model->no_yarn_correction_range_round_to_int ? high : ceil(high), channels - 1);
    double ramp = ((double)pair - low) / (high == low ? 0.001 : high - low);
    ramp = fmin(fmax(ramp, 0), 1);
    return frequency / yarn.factor * ramp + frequency * (1 - ramp);
}

// Whether the rotary scaling factor multiplies only the rotated channels of queries and keys: there are other channels,
// or a norm follows the rotation.
static bool scales_channels(const struct config_model *model) {
    return model->multi_latent_attention || model->qk_layernorm_after_rope ||
           config_rotary_channels(model) < model->kv_channels;
}

// LongRoPE: two divisors for each pair, one for sequences up to the original length, one for longer ones.
static void set_longrope(struct rope *rope, const struct config_model *model) {
    double shorter[ROPE_MOST_PAIRS], longer[ROPE_MOST_PAIRS];
    for (int64_t j = 0; j < rope->pairs; j++)
        shorter[j] = longer[j] = 1;
    config_rope_factors(model->rope_short_factor, shorter, rope->pairs);
    config_rope_factors(model->rope_long_factor, longer, rope->pairs);
    rope->short_length = model->rope_original_length;
    for (int64_t j = 0; j < rope->pairs; j++) {
        double frequency = pow(model->rotary_base, -2.0 * (double)j / (2.0 * (double)rope->pairs)) /
                           model->rotary_seq_len_interpolation_factor;
        rope->frequencies[j] = frequency / shorter[j];
        rope->long_frequencies[j] = frequency / longer[j];
    }
}

// Without scaling if is_plain.
static void set_rope(struct rope *rope, const struct config_model *model, double base, bool is_plain) {
    if (model->position_embedding_type != POSITIONS_ROPE)
        return;
    bool is_scaled = model->use_rope_scaling && !is_plain;
    int64_t channels = config_rotary_channels(model);
    rope->pairs = channels / 2;
    rope->is_interleaved = model->multi_latent_attention ? !model->latent_rotary_halves : model->rotary_interleaved;
    rope->factor = !is_plain && scales_channels(model) ? (float)config_rope_attention_factor(model) : 1;
    CHECK(rope->pairs >= 1 && rope->pairs <= ROPE_MOST_PAIRS);
    for (int64_t j = 0; j < rope->pairs; j++) {
        double frequency = pow(base, -2.0 * (double)j / (double)channels);
        if (is_scaled && model->rope_scaling_type == ROPE_SCALING_LLAMA3)
            frequency = scaled_frequency(model, frequency);
        if (!is_plain && config_yarn(model).factor > 1)
            frequency = yarn_frequency(model, j, frequency);
        rope->frequencies[j] = frequency / (is_plain ? 1 : model->rotary_seq_len_interpolation_factor);
    }
    if (!is_plain && config_has_longrope(model))
        set_longrope(rope, model);
}

bool choices_set_rope(struct rope *rope, const struct config_model *model) {
    int64_t pairs = config_rotary_channels(model) / 2;
    bool is_possible = model->position_embedding_type == POSITIONS_ROPE && pairs >= 1 && pairs <= ROPE_MOST_PAIRS;
    *rope = (struct rope){0};
    if (is_possible)
        set_rope(rope, model, model->rotary_base, false);
    return is_possible;
}

// If rotary scaling multiplies whole queries and keys by a factor, scores grow by its square; if only some channels are
// rotated, the rotation multiplies them.
float choices_scale(const struct config_model *model) {
    double factor = scales_channels(model) ? 1 : config_rope_attention_factor(model);
    return config_softmax_scale(model) * (float)(factor * factor);
}

static void set_recompute(struct choices *choices, const struct config *config) {
    bool is_selective = is(config->machine.recompute_granularity, "selective");
    choices->recomputes_attention = is_selective && config->machine.recompute_modules.count == 0;
    for (int64_t i = 0; is_selective && i < config->machine.recompute_modules.count; i++) {
        choices->recomputes_attention |= is(config->machine.recompute_modules.items[i], "core_attn");
        choices->recomputes_activation |= is(config->machine.recompute_modules.items[i], "mlp_act");
        choices->recomputes_up |= is(config->machine.recompute_modules.items[i], "mla_up_proj");
        choices->recomputes_mlp |= is(config->machine.recompute_modules.items[i], "mlp");
        choices->recomputes_experts |= is(config->machine.recompute_modules.items[i], "moe");
        choices->recomputes_shared_experts |= is(config->machine.recompute_modules.items[i], "shared_experts");
    }
    choices->holds_attention = config->machine.recompute_keep_attention;
    choices->divides_inputs = config->machine.distribute_saved_activations && choices->parts > 1;
    choices->is_recompute_uniform = !is(config->machine.recompute_method, "block");
    if (is(config->machine.recompute_granularity, "full"))
        choices->recomputed_layers =
            config->machine.recompute_num_layers > 0 ? config->machine.recompute_num_layers : 1;
    if (config->machine.cpu_offloading && choices->recomputed_layers > 0)
        choices->offloaded_layers =
            config->machine.cpu_offloading_num_layers > 0 ? config->machine.cpu_offloading_num_layers : INT64_MAX;
}

struct shard choices_split(const struct choices *choices, struct shard whole, int dimension) {
    return choices->parts > 1 ? shard_split(whole, dimension, choices->parts, choices->part) : whole;
}

struct layer_choices choices_layer(const struct choices *choices, bool has_cross) {
    const struct sublayer_kind *mlp = choices->is_gated ? &sublayer_gated_mlp : &sublayer_mlp;
    return (struct layer_choices){
        .sublayers = {choices->latent.kv_rank > 0 ? &sublayer_latent_attention : &sublayer_self_attention,
                      has_cross ? &sublayer_cross_attention : mlp, has_cross ? mlp : NULL},
        .fp8 = choices->fp8,
        .expert_fp8 = choices->expert_fp8};
}

void choices_add_experts(struct layer_choices *layer, int64_t before) {
    int last = MOST_SUBLAYERS - 1;
    while (!layer->sublayers[last])
        last--;
    layer->sublayers[last] = &sublayer_experts;
    layer->expert_layer = before;
}

// The experts' weights include the factor of the residual addition.
static void set_experts(struct expert_choices *experts, const struct config_model *model, const struct mesh *mesh,
                        float residual_scale) {
    struct config_balance balance = config_balance(model);
    enum router_score score = model->moe_router_score_function;
    bool has_all = score == ROUTER_SOFTMAX && model->moe_router_pre_softmax;
    *experts = (struct expert_choices){.E = model->num_experts,
                                       .K = model->moe_router_topk,
                                       .F = config_expert_width(model),
                                       .ranks = mesh_count(mesh, MESH_EXPERTS),
                                       .rank = mesh_index(mesh, mesh->place, MESH_EXPERTS),
                                       .slices = mesh_count(mesh, MESH_EXPERT_SLICES),
                                       .slice = mesh_index(mesh, mesh->place, MESH_EXPERT_SLICES),
                                       .is_apart = mesh_deals_experts(mesh),
                                       .shared = model->moe_shared_expert_intermediate_size,
                                       .has_shared_gate = model->moe_shared_expert_gate,
                                       .rule = {.score = has_all ? ROUTER_SOFTMAX_ALL : score,
                                                .factor = (float)config_router_factor(model) * residual_scale,
                                                .groups = model->moe_router_num_groups,
                                                .chosen_groups = model->moe_router_group_topk,
                                                .group_best = model->moe_router_group_best},
                                       .has_bias = model->moe_router_enable_expert_bias,
                                       .bias_rate = (float)model->moe_router_bias_update_rate,
                                       .has_sinkhorn = config_has_sinkhorn(model),
                                       .jitter = (float)model->moe_input_jitter_eps,
                                       .coefficients = {[BALANCE_BATCH] = balance.batch,
                                                        [BALANCE_SEQUENCE] = balance.sequence,
                                                        [BALANCE_GLOBAL] = balance.global,
                                                        [BALANCE_Z] = balance.z},
                                       .capacity_factor = config_expert_capacity(model),
                                       .is_padded = model->moe_pad_expert_input_to_capacity,
                                       .keeps_first = model->moe_token_drop_policy == DROP_BY_POSITION};
}

double choices_output_deviation(const struct choices *choices, int64_t layers) {
    return choices->scales_outputs ? choices->standard_deviation / sqrt(2.0 * (double)layers)
                                   : choices->standard_deviation;
}

bool choices_splits_rows(const struct config *config, const struct mesh *mesh) {
    return config->machine.sequence_parallel && mesh->length[AXIS_TENSOR] > 1;
}

// The residual stream is kept divided by the factor of the embeddings, so that no operation has to multiply them: norms
// give the same results with an epsilon divided by its square, and sublayers add that much less. If a norm follows the
// sublayer's result, the addition has the factor.
static void set_multipliers(struct choices *choices, const struct config_model *model) {
    double factor = model->embedding_multiplier;
    choices->norm.epsilon = model->norm_epsilon / (factor * factor);
    choices->residual_scale = choices->addition_scale = 1;
    bool is_followed = choices->norms == NORMS_RESULTS || choices->norms == NORMS_BOTH;
    *(is_followed ? &choices->addition_scale : &choices->residual_scale) = (float)(model->residual_multiplier / factor);
}

static enum norm_places norm_places(const struct config_model *model) {
    if (model->parallel_residual)
        return model->parallel_residual_one_norm ? NORMS_SHARED : NORMS_PARALLEL;
    return model->norm_placement;
}

void choices_set(struct choices *choices, const struct config *config, const struct mesh *mesh) {
    *choices = (struct choices){
        .C = config->model.hidden_size,
        .H = config->model.num_attention_heads,
        .G = config_query_groups(&config->model),
        .D = config->model.kv_channels,
        .V = config_value_channels(&config->model),
        .F = config->model.ffn_hidden_size,
        .norm = {.kind = config->model.normalization,
                 .C = config->model.hidden_size,
                 .has_no_bias = config->model.no_norm_bias,
                 .is_centered = config->model.apply_layernorm_1p},
        .epsilon = config->model.norm_epsilon,
        .has_head_norm = config->model.qk_layernorm,
        .norms_all_heads = config->model.qk_layernorm_all_heads,
        .norms_each_head = config->model.qk_layernorm_per_head,
        .norms_rotated = config->model.qk_layernorm_after_rope,
        .norms = norm_places(&config->model),
        .activation = config_activation(&config->model),
        .is_gated = config_is_gated(&config->model),
        .glu = {(float)config->model.activation_func_clamp_value, (float)config->model.glu_linear_offset},
        .has_qkv_bias = config_has_qkv_bias(&config->model),
        .has_attention_bias = config_has_attention_bias(&config->model),
        .has_mlp_bias = config_has_mlp_bias(&config->model),
        .scale = choices_scale(&config->model),
        .unscaled_scale = config_softmax_scale(&config->model),
        .score_cap = (float)config->model.attn_logit_softcapping,
        .has_sinks = config->model.softmax_type == SOFTMAX_LEARNABLE,
        .has_alibi = config->model.position_embedding_type == POSITIONS_ALIBI,
        .alibi_scale = config->model.scale_alibi ? config_softmax_scale(&config->model) : 1,
        .has_relative_bias = config->model.position_embedding_type == POSITIONS_RELATIVE,
        .has_layer_tables =
            config->model.position_embedding_type == POSITIONS_RELATIVE && config->model.relative_attention_per_layer,
        .relative = {.buckets = config->model.relative_attention_num_buckets,
                     .max_distance = config->model.relative_attention_max_distance},
        .standard_deviation = config->model.init_method_std,
        .scales_outputs = !config->model.no_scaled_init,
        .hidden_dropout = config->model.hidden_dropout,
        .attention_dropout = config->model.attention_dropout,
        .parts = mesh->length[AXIS_TENSOR],
        .part = mesh->place[AXIS_TENSOR],
        .kv_ranks = mesh->kv_ranks,
        .head_ranks = (int)config_head_ranks(config),
        .splits_rows = choices_splits_rows(config, mesh),
    };
    choices->norm.sums_gradient = choices->splits_rows;
    if (config->model.multi_latent_attention)
        choices->latent = (struct latent_choices){.q_rank = config->model.q_lora_rank,
                                                  .kv_rank = config->model.kv_lora_rank,
                                                  .own = config->model.qk_head_dim,
                                                  .shared = config->model.qk_pos_emb_head_dim,
                                                  .epsilon = config_latent_epsilon(&config->model)};
    set_multipliers(choices, &config->model);
    if (config->model.num_experts > 0)
        set_experts(&choices->experts, &config->model, mesh, choices->residual_scale);
    set_rope(&choices->rope, &config->model, config->model.rotary_base, false);
    if (config->model.rotary_base_local > 0)
        set_rope(&choices->local_rope, &config->model, config->model.rotary_base_local, true);
    set_recompute(choices, config);
}
