// The meanings of a model's flags, and whether those of two models are equal. See likeness.h.
#include "model/likeness.h"

#include "base/error.h"
#include "base/log.h"
#include "config/flags.h"
#include "model/choices.h"
#include <inttypes.h>
#include <string.h>

static bool never(const struct config_model *model) {
    (void)model;
    return false;
}

static bool is_bert(const struct config_model *model) {
    return model->form == CONFIG_BERT;
}

static bool is_ict(const struct config_model *model) {
    return model->form == CONFIG_ICT;
}

static bool is_t5(const struct config_model *model) {
    return model->form == CONFIG_T5;
}

static bool is_no_t5(const struct config_model *model) {
    return !is_t5(model);
}

static bool is_decoder(const struct config_model *model) {
    return !config_is_encoder(model);
}

static bool has_positions(const struct config_model *model, enum position_kind type) {
    return model->position_embedding_type == type;
}

static bool has_rope(const struct config_model *model) {
    return has_positions(model, POSITIONS_ROPE);
}

static bool has_scaled_rope(const struct config_model *model) {
    return has_rope(model) && (config_scales_rope(model) || model->multi_latent_attention);
}

static bool has_relative(const struct config_model *model) {
    return has_positions(model, POSITIONS_RELATIVE);
}

static bool has_alibi(const struct config_model *model) {
    return has_positions(model, POSITIONS_ALIBI);
}

static bool has_windows(const struct config_model *model) {
    return model->sliding_window > 0;
}

static bool has_latents(const struct config_model *model) {
    return model->multi_latent_attention;
}

static bool has_no_binary_head(const struct config_model *model) {
    return !config_has_binary_head(model);
}

static bool has_dense_layers(const struct config_model *model) {
    return model->num_experts == 0 || config_expert_layers(model) < model->num_layers;
}

static bool has_softmax_router(const struct config_model *model) {
    return model->moe_router_score_function == ROUTER_SOFTMAX;
}

static bool has_router_groups(const struct config_model *model) {
    return model->moe_router_num_groups > 0;
}

// 0: word embeddings have the width of the model.
static int64_t projected_width(const struct config_model *model) {
    int64_t width = config_word_embedding_size(model);
    return width != model->hidden_size ? width : 0;
}

// Without a flag the scale follows from the channels, which are compared separately, and possibly from rotary scaling.
static bool has_same_scale(const struct config_model *there, const struct config_model *here) {
    return there->kv_channels != here->kv_channels || choices_scale(there) == choices_scale(here) ||
           config_softmax_scale(there) == config_softmax_scale(here);
}

// Compares the frequencies in the precision of layers. Dynamic scaling changes none that a run can reach, but is
// another model to other programs. A differing scale of scores due to scaling is reported as such.
static bool has_same_rope(const struct config_model *there, const struct config_model *here) {
    struct rope a, b;
    bool scales = config_scales_rope(here);
    if (scales != config_scales_rope(there) || !choices_set_rope(&a, there) || !choices_set_rope(&b, here))
        return false;
    if (scales && (there->rope_scaling_type != here->rope_scaling_type ||
                   there->rope_scaling_factor != here->rope_scaling_factor))
        return false;
    return (choices_scale(there) == choices_scale(here) ||
            config_rope_attention_factor(there) == config_rope_attention_factor(here)) &&
           a.pairs == b.pairs && a.is_interleaved == b.is_interleaved && a.factor == b.factor &&
           a.short_length == b.short_length &&
           memcmp(a.frequencies, b.frequencies, (size_t)a.pairs * sizeof a.frequencies[0]) == 0 &&
           memcmp(a.long_frequencies, b.long_frequencies, (size_t)a.pairs * sizeof a.frequencies[0]) == 0;
}

// The effective value of a flag; without a function, its given value. If several flags together mean something that is
// not one value, is_same compares that, and the flags are compared only if it differs.
static const struct meaning {
    bool (*is_said)(const struct config_model *model);  // NULL: in every model
    bool (*is_same)(const struct config_model *there, const struct config_model *here);
    int64_t (*count)(const struct config_model *model);
    double (*real)(const struct config_model *model);
    float (*single)(const struct config_model *model);
    bool (*is)(const struct config_model *model);
    enum activation (*activation)(const struct config_model *model);
} meanings[] = {
    [MEANS_ITSELF] = {0},
    [MEANS_NOTHING] = {.is_said = never},
    [MEANS_FORM] = {0},
    [MEANS_OF_ICT] = {.is_said = is_ict},
    [MEANS_LAYERS] = {.is_said = is_no_t5},
    [MEANS_ENCODER_LAYERS] = {.is_said = is_t5, .count = config_encoder_layers},
    [MEANS_DECODER_LAYERS] = {.is_said = is_t5, .count = config_decoder_layers},
    [MEANS_WORD_WIDTH] = {.count = projected_width},
    [MEANS_DENSE_WIDTH] = {.is_said = has_dense_layers},
    [MEANS_HEADS] = {0},
    [MEANS_GROUPS] = {.count = config_query_groups},
    [MEANS_LENGTH] = {0},
    [MEANS_ROPE] = {.is_said = has_rope, .is_same = has_same_rope},
    [MEANS_SCALED_ROPE] = {.is_said = has_scaled_rope, .is_same = has_same_rope},
    [MEANS_LOCAL_ROPE] = {.is_said = has_windows},
    [MEANS_NO_ROPE] = {.count = config_no_rope_freq},
    [MEANS_RELATIVE] = {.is_said = has_relative},
    [MEANS_ALIBI] = {.is_said = has_alibi},
    [MEANS_WINDOWS] = {.is_same = config_same_windows},
    [MEANS_SCALE] = {.is_same = has_same_scale, .single = config_softmax_scale},
    [MEANS_LATENT] = {.is_said = has_latents},
    [MEANS_LATENT_EPSILON] = {.is_said = has_latents, .real = config_latent_epsilon},
    [MEANS_ACTIVATION] = {.activation = config_activation},
    [MEANS_HEAD_ACTIVATION] = {.is_said = is_bert, .activation = config_head_activation},
    [MEANS_GATE] = {.is = config_is_gated},
    [MEANS_GATED] = {.is_said = config_is_gated},
    [MEANS_QKV_BIAS] = {.is = config_has_qkv_bias},
    [MEANS_ATTENTION_BIAS] = {.is = config_has_attention_bias},
    [MEANS_MLP_BIAS] = {.is = config_has_mlp_bias},
    [MEANS_OUTPUT_BIAS] = {.is_said = is_decoder, .is = config_has_output_bias},
    [MEANS_NO_BINARY_HEAD] = {.is_said = is_bert, .is = has_no_binary_head},
    [MEANS_TYPES] = {.count = config_token_types},
    [MEANS_EXPERT_LAYERS] = {.is_same = config_same_expert_layers},
    [MEANS_EXPERT_WIDTH] = {.count = config_expert_width},
    [MEANS_SOFTMAX_ROUTER] = {.is_said = has_softmax_router},
    [MEANS_ROUTER_FACTOR] = {.real = config_router_factor},
    [MEANS_ROUTER_GROUPS] = {.is_said = has_router_groups},
    [MEANS_GROUP_BEST] = {.is_said = has_router_groups, .count = config_group_best},
};

static bool is_said(const struct flag *flag, const struct config_model *model) {
    const struct meaning *meaning = &meanings[flag->meaning];
    if ((flag->uses & USE_EXPERTS) && model->num_experts == 0)
        return false;
    return !meaning->is_said || meaning->is_said(model);
}

static bool is_asked(const struct flag *flag, const struct config_model *there, const struct config_model *here,
                     enum likeness kind) {
    enum flag_meaning meaning = (enum flag_meaning)flag->meaning;
    if (!(flag->uses & USE_MODEL) || !is_said(flag, there) || !is_said(flag, here))
        return false;
    if (kind == LIKENESS_HEADS)
        return meaning == MEANS_HEADS || meaning == MEANS_GROUPS;
    if (meaning == MEANS_HEAD_ACTIVATION)
        return kind != LIKENESS_NEAR;
    if (meaning == MEANS_TYPES)
        return kind == LIKENESS_SAME || (kind != LIKENESS_WEIGHTS && config_token_types(here) > 0);
    if (meaning == MEANS_LENGTH)
        return kind != LIKENESS_WEIGHTS || has_positions(here, POSITIONS_LEARNED);
    // A BERT is a tower of ICT.
    return meaning != MEANS_FORM || kind != LIKENESS_WEIGHTS || !is_bert(there) || !is_ict(here);
}

static void append_value(const struct flag *flag, const struct config *config, struct buffer *out) {
    const struct meaning *meaning = &meanings[flag->meaning];
    if (meaning->count)
        buffer_printf(out, "%" PRId64, meaning->count(&config->model));
    else if (meaning->real)
        buffer_printf(out, "%.15g", meaning->real(&config->model));
    else if (meaning->single)
        buffer_printf(out, "%.9g", (double)meaning->single(&config->model));
    else if (meaning->is)
        buffer_append_string(out, meaning->is(&config->model) ? "true" : "false");
    else if (meaning->activation)
        buffer_append_string(out, flag_value_text(flag, (int)meaning->activation(&config->model)));
    else if (flag_is_unset(flag, config))
        buffer_append_string(out, "None");
    else
        flag_format(flag, config, out);
}

void likeness_compare(const struct config *there, const struct config *here, enum likeness kind, struct buffer *out) {
    struct flag_table table = config_flag_table(0);
    struct buffer theirs = {0}, ours = {0};
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table.rows, i)); i++) {
        const struct meaning *meaning = &meanings[flag->meaning];
        if (!is_asked(flag, &there->model, &here->model, kind) ||
            (meaning->is_same && meaning->is_same(&there->model, &here->model)))
            continue;
        buffer_clear(&theirs);
        buffer_clear(&ours);
        append_value(flag, there, &theirs);
        append_value(flag, here, &ours);
        if (strcmp(buffer_string(&theirs), buffer_string(&ours)) != 0)
            buffer_printf(out, "%s%s is %s there and %s here", out->length > 0 ? ", " : "", flag->name,
                          buffer_string(&theirs), buffer_string(&ours));
    }
    buffer_free(&theirs);
    buffer_free(&ours);
}

int likeness_check_weights(const struct config *there, const struct config *here, const char *name) {
    struct buffer differences = {0};
    int status = 0;
    likeness_compare(there, here, LIKENESS_HEADS, &differences);
    if (differences.length > 0)
        status = error_set("%s holds another model: %s; give its values, or --use-checkpoint-args instead", name,
                           buffer_string(&differences));
    else
        likeness_compare(there, here, LIKENESS_WEIGHTS, &differences);
    if (status == 0 && differences.length > 0)
        log_warn_once("flags differ from the model in %s: %s; ignore this if intended, else give --use-checkpoint-args "
                      "instead of them",
                      name, buffer_string(&differences));
    buffer_free(&differences);
    return status;
}

int likeness_check_json(const struct json *there, const struct config *here, bool of_weights, const char *name) {
    struct config config;
    struct buffer differences = {0};
    config_defaults(&config);
    int status = config_from_json(&config, there);
    if (status < 0)
        error_context("%s", name);
    else if (of_weights)
        status = likeness_check_weights(&config, here, name);
    else
        likeness_compare(&config, here, LIKENESS_SAME, &differences);
    if (differences.length > 0)
        status = error_set("%s holds another model: %s; give the checkpoint's values, or --use-checkpoint-args", name,
                           buffer_string(&differences));
    buffer_free(&differences);
    config_free(&config);
    return status;
}
