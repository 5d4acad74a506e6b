// Which family can express a model, by its tables. See hf_config.h.
#include "formats/hf_config.h"

#include "base/error.h"
#include "base/memory.h"
#include "config/flags.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void append_bool(struct buffer *out, bool value) {
    buffer_append_string(out, value ? "true" : "false");
}

void hf_append_effective(const struct config *config, const char *flag, struct buffer *out) {
    struct flag_table table = config_flag_table(0);
    bool is_silu = config_activation(&config->model) == ACTIVATION_SILU;
    if (strcmp(flag, "--activation") == 0)
        buffer_append_string(out, CONFIG_NAME(model.activation, config_activation(&config->model)));
    else if (strcmp(flag, "--lm-head-activation") == 0)
        buffer_append_string(out, CONFIG_NAME(model.activation, config_head_activation(&config->model)));
    else if (strcmp(flag, "--word-embedding-size") == 0)
        buffer_printf(out, "%lld", (long long)config_word_embedding_size(&config->model));
    else if (strcmp(flag, "--gated-linear-unit") == 0)
        append_bool(out, config_is_gated(&config->model));
    else if (strcmp(flag, "--swiglu") == 0)
        append_bool(out, is_silu && config_is_gated(&config->model));
    else if (strcmp(flag, "--num-token-types") == 0)
        buffer_printf(out, "%lld", (long long)config_token_types(&config->model));
    else if (strcmp(flag, "--encoder-num-layers") == 0)
        buffer_printf(out, "%lld", (long long)config_encoder_layers(&config->model));
    else if (strcmp(flag, "--decoder-num-layers") == 0)
        buffer_printf(out, "%lld", (long long)config_decoder_layers(&config->model));
    else if (strcmp(flag, "--num-query-groups") == 0)
        buffer_printf(out, "%lld", (long long)config_query_groups(&config->model));
    else if (strcmp(flag, "--bert-no-binary-head") == 0)
        append_bool(out, !config_has_binary_head(&config->model));
    else if (strcmp(flag, "--moe-ffn-hidden-size") == 0)
        buffer_printf(out, "%lld", (long long)config_expert_width(&config->model));
    else if (strcmp(flag, "--moe-router-topk-scaling-factor") == 0)
        buffer_printf(out, "%.17g", config_router_factor(&config->model));
    else if (strcmp(flag, "--softmax-scale") == 0)
        buffer_printf(out, "%.17g",
                      config->model.softmax_scale > 0 ? config->model.softmax_scale
                                                      : 1 / sqrt((double)config->model.kv_channels));
    else
        flag_format(flag_find(&table, flag), config, out);
}

static bool is_value(const struct config *config, const char *flag, const char *value) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    hf_append_effective(config, flag, &text);
    char *end_a = NULL, *end_b = NULL;
    double a = strtod(buffer_string(&text), &end_a), b = strtod(value, &end_b);
    bool are_numbers = text.length > 0 && *end_a == '\0' && *end_b == '\0' && *value;
    return are_numbers ? a == b : strcmp(buffer_string(&text), value) == 0;
}

static char *find_word(const struct config *config, const struct hf_key *key, const char *map, const char *preferred) {
    char *found = NULL;
    for (const char *word = map; *word;) {
        size_t total = strcspn(word, " "), name = strcspn(word, "=");
        OWNED char *values = memory_printf("%.*s", (int)(total - name - 1), word + name + 1);
        char *flags = memory_string(key->flags ? key->flags : ""), *value_rest = values, *flag_rest = flags;
        bool is_found = true;
        for (const char *flag = strsep(&flag_rest, "/"); flag && *flag; flag = strsep(&flag_rest, "/")) {
            const char *value = strsep(&value_rest, "/");
            is_found = is_found && value && is_value(config, flag, value);
        }
        free(flags);
        bool is_preferred = preferred && strlen(preferred) == name && strncmp(preferred, word, name) == 0;
        if (is_found && (is_preferred || !found)) {
            free(found);
            found = memory_printf("%.*s", (int)name, word);
        }
        word += total + strspn(word + total, " ");
    }
    return found;
}

char *hf_find_theirs(const struct config *config, const struct hf_key *key, const char *preferred) {
    char *found = find_word(config, key, key->map, preferred);
    return found || !key->near ? found : find_word(config, key, key->near, preferred);
}

// Whether the family only has an approximation.
static bool is_near(const struct config *config, const struct hf_key *key) {
    OWNED char *exact = find_word(config, key, key->map, NULL);
    return exact == NULL;
}

static bool is_among(const char *flags, const char *flag) {
    size_t length = strlen(flag);
    for (const char *at = flags; at && (at = strstr(at, flag)); at += length)
        if (at[length] == '\0' || at[length] == '/')
            return true;
    return false;
}

static bool is_mentioned(const struct hf_family *family, const char *flag) {
    if (hf_has_flag(family, flag))
        return true;
    struct hf_key key;
    for (size_t i = 0; hf_key_at(family, i, &key); i++)
        if (is_among(key.flags, flag))
            return true;
    return hf_is_said(family, flag);
}

// Whether a flag that the family does not mention has no effect at its value.
static bool is_plain(const struct hf_family *family, const struct config *config, const char *flag) {
    if (strcmp(flag, "--kv-channels") == 0)
        return config->model.kv_channels * config->model.num_attention_heads == config->model.hidden_size;
    if (strcmp(flag, "--num-query-groups") == 0)
        return config_query_groups(&config->model) == config->model.num_attention_heads;
    if (strcmp(flag, "--num-token-types") == 0)
        return config_token_types(&config->model) == 0;
    if (strcmp(flag, "--bert-no-binary-head") == 0)
        return !config_has_binary_head(&config->model);
    if (strcmp(flag, "--lm-head-activation") == 0)
        return config->model.form != CONFIG_BERT;
    if (strcmp(flag, "--word-embedding-size") == 0)
        return config_word_embedding_size(&config->model) == config->model.hidden_size;
    if (strcmp(flag, "--ffn-hidden-size") == 0)
        return config->model.num_experts > 0 || config->model.ffn_hidden_size == 4 * config->model.hidden_size;
    if (strcmp(flag, "--softmax-scale") == 0)
        return config->model.multi_latent_attention
                   ? config->model.softmax_scale == 0
                   : config_softmax_scale(&config->model) == 1.0f / sqrtf((float)config->model.kv_channels);
    if (strcmp(flag, "--no-rope-freq") == 0)
        return config_no_rope_freq(&config->model) == 0;
    if (strcmp(flag, "--window-attn-skip-freq") == 0)
        return !config_mixes_windows(&config->model);
    if (strcmp(flag, "--rotary-base-local") == 0)
        return config->model.rotary_base_local == 0 || config->model.sliding_window == 0;
    if (strncmp(flag, "--moe-", 6) == 0 && config->model.num_experts == 0)
        return true;
    if (strcmp(flag, "--moe-layer-freq") == 0)
        return config_expert_layers(&config->model) == config->model.num_layers;
    if (strcmp(flag, "--embedding-multiplier") == 0 && family->scales_embedding)
        return fabs(config->model.embedding_multiplier / sqrt((double)config->model.hidden_size) - 1) < 1e-12;
    struct config defaults;
    config_defaults(&defaults);
    OWNED_BY(buffer_free) struct buffer text = {0};
    hf_append_effective(&defaults, flag, &text);
    bool is_same = is_value(config, flag, buffer_string(&text));
    config_free(&defaults);
    return is_same;
}

// A flag for rotary scaling that the family lacks; NULL if there is none.
static const char *find_rope_obstacle(const struct hf_family *family, const struct config *config) {
    if (!family->has_rope)
        return NULL;
    const char *scaling = CONFIG_NAME(model.rope_scaling_type, config->model.rope_scaling_type);
    if (config->model.use_rope_scaling && !hf_family_has_rope_kind(family, scaling))
        return "--rope-scaling-type";
    bool is_linear = config->model.rotary_seq_len_interpolation_factor != 1;
    if (hf_default(family, "rope_local_base_freq") && config->model.rotary_base_local == 0 &&
        (is_linear || config->model.use_rope_scaling))
        return "rotary scaling in layers with a window";
    if (is_linear && config->model.use_rope_scaling)
        return "--rotary-seq-len-interpolation-factor beside --use-rope-scaling";
    return is_linear && !hf_family_has_rope_kind(family, "linear") ? "--rotary-seq-len-interpolation-factor" : NULL;
}

// The flag of the first row from *at on whose value the family lacks; NULL after the last.
static const char *next_obstacle(const struct hf_family *family, const struct config *config, bool allows_near,
                                 size_t *at) {
    size_t flags = 0;
    const struct hf_flag *row;
    struct hf_key key;
    for (; (row = hf_flag_at(family, flags)); flags++)
        // Dropout is a property of training, not of the model.
        if (flags >= *at && !strstr(row->flag, "-dropout") && !is_value(config, row->flag, row->value)) {
            *at = flags + 1;
            return row->flag;
        }
    for (*at = *at < flags ? flags : *at; hf_key_at(family, *at - flags, &key); ++*at) {
        if (key.kind != HF_MAP || !key.flags)
            continue;
        OWNED char *theirs = hf_find_theirs(config, &key, NULL);
        bool is_there = theirs != NULL;
        if (!is_there || (!allows_near && is_near(config, &key))) {
            ++*at;
            return key.flags;
        }
    }
    return NULL;
}

// Like next_obstacle, for flags that the family does not mention.
static const char *next_unmentioned(const struct hf_family *family, const struct config *config, size_t *at) {
    struct flag_table table = config_flag_table(0);
    const struct flag *flag;
    while ((flag = flag_at(&table.rows, (*at)++)))
        if ((flag->uses & USE_FAMILY) && !is_mentioned(family, flag->name) && !is_plain(family, config, flag->name))
            return flag->name;
    return NULL;
}

// Distance between family and model. A defining property of the family (an activation) counts twice.
static int count_obstacles(const struct hf_family *family, const struct config *config, bool allows_near) {
    int count = 0;
    for (size_t at = 0; next_obstacle(family, config, allows_near, &at); count += 2)
        continue;
    for (size_t at = 0; next_unmentioned(family, config, &at); count++)
        continue;
    return count;
}

// The first flag that the family cannot express; NULL if it can express them all.
static const char *find_obstacle(const struct hf_family *family, const struct config *config, bool allows_near) {
    size_t first = 0, unmentioned = 0;
    const char *obstacle = next_obstacle(family, config, allows_near, &first);
    if (obstacle)
        return obstacle;
    if (config->model.num_experts == 0 && is_mentioned(family, "--num-experts"))
        return "MLPs without experts";
    if (hf_has_flag(family, "--moe-router-score-function") && config->model.moe_router_topk == 1)
        return "--moe-router-topk";
    int64_t groups = config_query_groups(&config->model);
    if (family->has_multi_query && groups != 1 && groups != config->model.num_attention_heads)
        return "--num-query-groups";
    double scalar = hf_query_scalar(config), scale = config->model.softmax_scale;
    if (hf_default(family, "query_pre_attn_scalar") && scale > 0 && fabs(scale * sqrt(scalar) - 1) > 1e-9)
        return "--softmax-scale";
    bool has_rope_everywhere = family->has_rope_without_windows && config->model.sliding_window == 0;
    int64_t skipped = has_rope_everywhere ? 0 : hf_whole_layers_every(config);
    if (family->has_whole_without_rope && skipped != config_no_rope_freq(&config->model))
        return "--no-rope-freq";
    if (family->needs_window && config->model.sliding_window == 0)
        return "models without a window (--sliding-window)";
    if (family->has_square_output &&
        config->model.kv_channels * config->model.num_attention_heads != config->model.hidden_size)
        return "--kv-channels";
    const char *own = family->has_latents ? hf_latent_obstacle(config) : find_rope_obstacle(family, config);
    if (!own && family->sparse != HF_SPARSE_ALL && !hf_sparse_is_possible(family, config))
        own = "--moe-layer-freq";
    if (!own && family->group_best > 0)
        own = hf_routed_obstacle(family, config);
    if (own)
        return own;
    return next_unmentioned(family, config, &unmentioned);
}

// Describes why the family cannot express the model, e.g. "llama has no --activation gelu".
static void describe_obstacle(const struct hf_family *family, const struct config *config, bool allows_near,
                              struct buffer *out) {
    const char *obstacle = find_obstacle(family, config, allows_near);
    bool is_flag = !strpbrk(obstacle, "/ ");
    buffer_printf(out, "%s has no %s%s", family->model_type, obstacle, is_flag ? " " : "");
    if (is_flag)
        hf_append_effective(config, obstacle, out);
}

// None of the families fits; `nearest` comes closest, or is NULL.
static void refuse_family(const struct config *config, const char *wanted, const struct hf_family *nearest,
                          bool allows_near) {
    OWNED_BY(buffer_free) struct buffer reason = {0};
    OWNED char *known = hf_family_list();
    if (nearest)
        describe_obstacle(nearest, config, allows_near, &reason);
    if (wanted && !nearest)
        error_set_code(EXIT_CODE_USAGE, "unknown family %s; known families: %s", wanted, known);
    else if (config->model.form == CONFIG_ICT)
        error_set_code(EXIT_CODE_USAGE,
                       "a bi-encoder (--model ict) has no model class in Hugging Face or llama.cpp; keep it in this "
                       "program's format, whose tensors are safetensors");
    else if (wanted)
        error_set("Hugging Face's %s cannot express this model: %s; without --family one that can is chosen, if "
                  "there is one",
                  wanted, buffer_string(&reason));
    else
        error_set("no Hugging Face family can express this model; nearest: %s; to export one, train it from a --preset "
                  "of that family",
                  buffer_string(&reason));
}

const struct hf_family *hf_config_family(const struct config *config, const char *wanted, bool allows_near) {
    const struct hf_family *family = NULL, *nearest = NULL;
    int fewest = INT_MAX;
    for (size_t i = 0; (family = hf_family_at(i)); i++) {
        if (wanted && strcmp(family->model_type, wanted) != 0)
            continue;
        const char *obstacle = find_obstacle(family, config, allows_near);
        if (!obstacle)
            return family;
        // A family of another form is not near, whatever else it shares with the model.
        if (!wanted && strcmp(obstacle, "--model") == 0)
            continue;
        int count = count_obstacles(family, config, allows_near);
        nearest = count < fewest ? family : nearest;
        fewest = count < fewest ? count : fewest;
    }
    refuse_family(config, wanted, nearest, allows_near);
    return NULL;
}
