// The configuration as text: Megatron's argument dump for the log, and JSON for checkpoints. Fields are walked
// through the rows of the flag table, so a new flag appears in both without further work.
#include "config/config.h"
#include "config/flag_internal.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/redact.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// What a checkpoint of a model and the run that loads it must agree on.
static const char *const model_fields[] = {"model",
                                           "num_layers",
                                           "hidden_size",
                                           "word_embedding_size",
                                           "ffn_hidden_size",
                                           "num_attention_heads",
                                           "kv_channels",
                                           "group_query_attention",
                                           "num_query_groups",
                                           "max_position_embeddings",
                                           "position_embedding_type",
                                           "position_offset",
                                           "rotary_base",
                                           "rotary_percent",
                                           "rotary_interleaved",
                                           "rotary_seq_len_interpolation_factor",
                                           "use_rope_scaling",
                                           "rope_scaling_type",
                                           "rope_scaling_factor",
                                           "rope_low_freq_factor",
                                           "rope_high_freq_factor",
                                           "rope_original_length",
                                           "yarn_beta_fast",
                                           "yarn_beta_slow",
                                           "no_yarn_correction_range_round_to_int",
                                           "yarn_attention_factor",
                                           "rope_short_factor",
                                           "rope_long_factor",
                                           "relative_attention_num_buckets",
                                           "relative_attention_max_distance",
                                           "relative_attention_per_layer",
                                           "scale_alibi",
                                           "sliding_window",
                                           "window_attn_skip_freq",
                                           "rotary_base_local",
                                           "attn_logit_softcapping",
                                           "final_logit_softcapping",
                                           "softmax_type",
                                           "softmax_scale",
                                           "multi_latent_attention",
                                           "q_lora_rank",
                                           "kv_lora_rank",
                                           "qk_head_dim",
                                           "qk_pos_emb_head_dim",
                                           "v_head_dim",
                                           "rope_type",
                                           "rotary_scaling_factor",
                                           "original_max_position_embeddings",
                                           "mscale",
                                           "mscale_all_dim",
                                           "latent_norm_epsilon",
                                           "latent_rotary_halves",
                                           "normalization",
                                           "norm_placement",
                                           "no_norm_bias",
                                           "embed_layernorm",
                                           "norm_epsilon",
                                           "qk_layernorm",
                                           "qk_layernorm_all_heads",
                                           "qk_layernorm_per_head",
                                           "qk_layernorm_after_rope",
                                           "parallel_residual",
                                           "parallel_residual_one_norm",
                                           "embedding_multiplier",
                                           "residual_multiplier",
                                           "logits_scaling",
                                           "no_rope_freq",
                                           "swiglu",
                                           "squared_relu",
                                           "quick_geglu",
                                           "glu_linear_offset",
                                           "activation_func_clamp_value",
                                           "activation",
                                           "lm_head_activation",
                                           "gated_linear_unit",
                                           "no_bias_gelu_fusion",
                                           "disable_bias_linear",
                                           "add_qkv_bias",
                                           "add_attention_bias",
                                           "add_mlp_bias",
                                           "untie_embeddings_and_output_weights",
                                           "add_output_bias",
                                           "scale_tied_output",
                                           "encoder_num_layers",
                                           "decoder_num_layers",
                                           "bert_no_binary_head",
                                           "num_token_types",
                                           "biencoder_projection_dim",
                                           "biencoder_shared_query_context_model",
                                           "retriever_score_scaling",
                                           "mtp_num_layers",
                                           "num_experts",
                                           "moe_layer_freq",
                                           "moe_ffn_hidden_size",
                                           "moe_router_topk",
                                           "moe_router_score_function",
                                           "moe_router_pre_softmax",
                                           "moe_router_topk_scaling_factor",
                                           "moe_router_num_groups",
                                           "moe_router_group_best",
                                           "moe_router_group_topk",
                                           "moe_shared_expert_intermediate_size",
                                           "moe_shared_expert_gate",
                                           "moe_router_enable_expert_bias",
                                           "padded_vocab_size"};

// How a checkpoint stores its model and which states it has; loading only the weights converts them.
static const char *const storage_fields[] = {"apply_layernorm_1p", "optimizer", "muon_scalar_optimizer",
                                             "adaptive_muon_moment2_method"};

// What else is taken over from a checkpoint if the user says nothing: how text becomes tokens.
static const char *const tokenizer_fields[] = {"seq_length",
                                               "make_vocab_size_divisible_by",
                                               "tokenizer_type",
                                               "tokenizer_model",
                                               "vocab_file",
                                               "merge_file",
                                               "vocab_size",
                                               "vocab_extra_ids",
                                               "no_legacy_tokenizer",
                                               "tokenizer_hf_no_include_special_tokens",
                                               "tiktoken_pattern",
                                               "tiktoken_num_special_tokens",
                                               "null_tokenizer_eod_id",
                                               "eod_token",
                                               "decoder_start_token"};

// And what acts in training alone: a model that was trained without dropout must not continue with some unnoticed.
static const char *const training_fields[] = {"hidden_dropout", "attention_dropout", "moe_expert_capacity_factor",
                                              "moe_pad_expert_input_to_capacity", "moe_token_drop_policy"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void append_field_name(const char *flag, struct buffer *out) {
    for (const char *p = flag + 2; *p; p++)
        buffer_append_byte(out, *p == '-' ? '_' : *p);
}

// A number without a default that is still 0 was never set.
static bool is_unset(const struct flag *flag, const void *base) {
    const void *slot = (const char *)base + flag->offset;
    switch (flag->type) {
    case FLAG_INT:
        return !flag->initial && *(const int64_t *)slot == 0;
    case FLAG_DOUBLE:
        return !flag->initial && *(const double *)slot == 0;
    case FLAG_STRING:
    case FLAG_CHOICE:
        return !*(char *const *)slot;
    case FLAG_STRING_LIST:
        return ((const struct string_list *)slot)->count == 0;
    default:
        return false;
    }
}

static void append_item(struct buffer *out, const char *before, char *text) {
    buffer_printf(out, "%s%s'", before, text);
    free(text);
}

// As Python prints it: True, None, 0.1, 1.0, ['a', 'b'].
static void append_python(const struct flag *flag, const void *base, struct buffer *out) {
    const void *slot = (const char *)base + flag->offset;
    if (is_unset(flag, base)) {
        buffer_append_string(out, "None");
    } else if (flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF) {
        buffer_append_string(out, *(const bool *)slot ? "True" : "False");
    } else if (flag->type == FLAG_STRING_LIST) {
        const struct string_list *list = slot;
        for (int64_t i = 0; i < list->count; i++)
            append_item(out, i ? ", '" : "['", flag_redact(flag, list->items[i]));
        buffer_append_byte(out, ']');
    } else {
        size_t start = out->length;
        flag_show(flag, base, out);
        if (flag->type == FLAG_DOUBLE && !strpbrk(out->data + start, ".e"))
            buffer_append_string(out, ".0");
    }
}

struct dump_line {
    char *name;
    char *value;
};

static int compare_lines(const void *a, const void *b) {
    return strcasecmp(((const struct dump_line *)a)->name, ((const struct dump_line *)b)->name);
}

struct dump {
    struct dump_line *lines;
    size_t count;
};

static void add_line(struct dump *dump, char *name, char *value) {
    dump->lines = memory_realloc(dump->lines, (dump->count + 1) * sizeof *dump->lines);
    dump->lines[dump->count++] = (struct dump_line){name, value};
}

static void add_row(struct dump *dump, const struct flag *flag, const struct config *config) {
    struct buffer name = {0}, value = {0};
    append_field_name(flag->name, &name);
    append_python(flag, config, &value);
    add_line(dump, memory_string(buffer_string(&name)), memory_string(buffer_string(&value)));
    buffer_free(&name);
    buffer_free(&value);
}

// Whether the flag was not given, and no other flag has changed its value.
static bool is_untouched(const struct flag *flag, const struct config *config, const struct config *defaults) {
    struct buffer value = {0}, initial = {0};
    flag_format(flag, config, &value);
    flag_format(flag, defaults, &initial);
    bool is_same = strcmp(buffer_string(&value), buffer_string(&initial)) == 0;
    buffer_free(&value);
    buffer_free(&initial);
    return is_same && flag_source(&config->given, flag->name) == FLAG_FROM_DEFAULT;
}

void config_dump(const struct config *config, bool is_folded, struct buffer *out) {
    struct dump dump = {0};
    struct config defaults;
    size_t left_out = 0;
    config_defaults(&defaults);
    for (size_t i = 0; i < config->given.count; i++) {
        const struct flag *flag = &config->given.flags[i];
        if (flag->type == FLAG_GROUP)
            continue;
        if (is_folded && is_untouched(flag, config, &defaults))
            left_out++;
        else
            add_row(&dump, flag, config);
    }
    config_free(&defaults);
    add_line(&dump, memory_string("world_size"), memory_printf("%" PRId64, config->world_size));
    add_line(&dump, memory_string("data_parallel_size"), memory_printf("%" PRId64, config->data_parallel_size));
    add_line(&dump, memory_string("params_dtype"), memory_string(config->params_dtype ? config->params_dtype : "None"));
    qsort(dump.lines, dump.count, sizeof *dump.lines, compare_lines);

    static const char dots[] = "................................................";  // 48
    buffer_append_string(out, "------------------------ arguments ------------------------\n");
    for (size_t i = 0; i < dump.count; i++) {
        struct dump_line *line = &dump.lines[i];
        size_t length = strlen(line->name), skipped = length < sizeof dots - 1 ? length : sizeof dots - 1;
        buffer_printf(out, "  %s %s %s\n", line->name, dots + skipped, line->value);
        free(line->name);
        free(line->value);
    }
    free(dump.lines);
    if (left_out > 0)
        buffer_printf(out, "  (%zu more have their defaults; --log-arguments lists them)\n", left_out);
    buffer_append_string(out, "-------------------- end of arguments ---------------------\n");
}

static void write_text(const struct flag *flag, const char *text, struct json_writer *writer) {
    char *shown = flag_redact(flag, text);
    json_cstring(writer, shown);
    free(shown);
}

static void write_value(const struct flag *flag, const void *base, struct json_writer *writer) {
    const void *slot = (const char *)base + flag->offset;
    switch (flag->type) {
    case FLAG_GROUP:
        break;
    case FLAG_BOOL:
    case FLAG_BOOL_OFF:
        json_bool(writer, *(const bool *)slot);
        break;
    case FLAG_INT:
        json_int(writer, *(const int64_t *)slot);
        break;
    case FLAG_DOUBLE:
        json_double(writer, *(const double *)slot);
        break;
    case FLAG_STRING:
    case FLAG_CHOICE:
        write_text(flag, *(char *const *)slot, writer);
        break;
    case FLAG_STRING_LIST:
        json_begin_array(writer);
        for (int64_t i = 0; i < ((const struct string_list *)slot)->count; i++)
            write_text(flag, ((const struct string_list *)slot)->items[i], writer);
        json_end_array(writer);
        break;
    }
}

void config_to_json(const struct config *config, struct json_writer *writer) {
    struct buffer name = {0};
    json_begin_object(writer);
    for (size_t i = 0; i < config->given.count; i++) {
        const struct flag *flag = &config->given.flags[i];
        if (flag->type == FLAG_GROUP)
            continue;
        buffer_clear(&name);
        append_field_name(flag->name, &name);
        json_key(writer, name.data);
        // A 0 that was given is one.
        if (is_unset(flag, config) && config->given.source[i] == FLAG_FROM_DEFAULT)
            json_null(writer);
        else
            write_value(flag, config, writer);
    }
    json_key(writer, "world_size");
    json_int(writer, config->world_size);
    json_key(writer, "data_parallel_size");
    json_int(writer, config->data_parallel_size);
    json_key(writer, "params_dtype");
    json_cstring(writer, config->params_dtype);
    json_key(writer, "schedule");
    config_schedule_to_json(config, writer);
    json_end_object(writer);
    buffer_free(&name);
}

// The text a scalar of a checkpoint would have on the command line; NULL if it is none.
static const char *json_text(const struct json *value) {
    if (value->type == JSON_TRUE || value->type == JSON_FALSE)
        return value->type == JSON_TRUE ? "true" : "false";
    bool is_text = value->type == JSON_NUMBER || value->type == JSON_STRING;
    return is_text && strlen(value->string) == value->length ? value->string : NULL;
}

static int take_field(struct config *config, const struct json *object, const char *field) {
    const struct json *value = json_member(object, field);
    if (!value || value->type == JSON_NULL || flag_is_given(&config->given, field))
        return 0;
    const char *text = json_text(value);
    if (!text)
        return error_set("the configuration's \"%s\" is neither a number nor a text", field);
    if (redact_is_marked(text))
        return 0;
    struct flag_table table = config_flag_table(0);
    return flag_set(&table, config, field, text, FLAG_FROM_PRESET);
}

// Whether the user gives another tokenizer than the object's.
static bool has_other_tokenizer(const struct config *config, const struct json *object) {
    const char *type = config->tokenizer_type;
    const struct {
        const char *field, *value;
    } rows[] = {{"tokenizer_type", type && strcmp(type, "PretrainedFromHF") == 0 ? "HuggingFaceTokenizer" : type},
                {"tokenizer_model", config->tokenizer_model},
                {"vocab_file", config->vocab_file},
                {"merge_file", config->merge_file}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct json *there = json_member(object, rows[i].field);
        const char *text = there && there->type == JSON_STRING ? there->string : "";
        if (rows[i].value && flag_is_given(&config->given, rows[i].field) && !file_is_same(rows[i].value, text))
            return true;
    }
    return false;
}

int config_from_json(struct config *config, const struct json *object) {
    if (object->type != JSON_OBJECT)
        return error_set("the configuration of a checkpoint is not a JSON object");
    for (size_t i = 0; i < COUNT(model_fields); i++)
        TRY(take_field(config, object, model_fields[i]));
    for (size_t i = 0; i < COUNT(storage_fields); i++)
        TRY(take_field(config, object, storage_fields[i]));
    // These two are tokens of the object's tokenizer; another one has its own.
    bool has_other = has_other_tokenizer(config, object);
    for (size_t i = 0; i < COUNT(tokenizer_fields); i++)
        if (!has_other ||
            (strcmp(tokenizer_fields[i], "eod_token") != 0 && strcmp(tokenizer_fields[i], "decoder_start_token") != 0))
            TRY(take_field(config, object, tokenizer_fields[i]));
    for (size_t i = 0; i < COUNT(training_fields); i++)
        TRY(take_field(config, object, training_fields[i]));
    return 0;
}

// Appends "num_layers is 12 there and 24 here" if the object's field has another value. A field the object lacks
// was added after it was written and had its default then.
static void compare_field(const struct config *config, const struct json *object, const char *field,
                          struct buffer *out) {
    struct flag_table table = config_flag_table(0);
    const struct flag *flag = flag_find(&table, field);
    CHECK(flag != NULL);
    const struct json *value = json_member(object, field);
    const char *there = value ? json_text(value) : flag->initial;
    if (!there && value && value->type != JSON_NULL)
        there = "no number or text";
    if (!there)
        there = flag->type == FLAG_BOOL ? "false" : "None";
    struct buffer here = {0};
    if (flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF)
        buffer_append_string(&here, *(const bool *)((const char *)config + flag->offset) ? "true" : "false");
    else
        append_python(flag, config, &here);
    bool same = strcasecmp(there, buffer_string(&here)) == 0;
    if (flag->type == FLAG_DOUBLE && !is_unset(flag, config))
        same = strtod(there, NULL) == *(const double *)((const char *)config + flag->offset);
    if (!same)
        buffer_printf(out, "%s%s is %s there and %s here", out->length ? ", " : "", field, there, buffer_string(&here));
    buffer_free(&here);
}

// Flags of which several together say one thing, so that a model has several spellings: --squared-relu is
// --activation squared_relu. Where what they say is the same here and there, their spelling is not compared.
enum meaning {
    MEANS_ACTIVATION,
    MEANS_BIASES,
    MEANS_GROUPS,
    MEANS_WINDOWS,
    MEANS_LAYERS,
    MEANS_TYPES,
    MEANS_NOTHING,  // about experts, and neither model has any
    MEANS_EXPERT_LAYERS,
    MEANS_EXPERT_WIDTH,
    MEANS_EXPERT_SCORES,
    MEANS_EXPERT_FACTOR,
    MEANING_COUNT
};
static const struct {
    const char *field;
    enum meaning meaning;
} spellings[] = {{"swiglu", MEANS_ACTIVATION},
                 {"squared_relu", MEANS_ACTIVATION},
                 {"quick_geglu", MEANS_ACTIVATION},
                 {"activation", MEANS_ACTIVATION},
                 {"lm_head_activation", MEANS_ACTIVATION},
                 {"gated_linear_unit", MEANS_ACTIVATION},
                 {"no_bias_gelu_fusion", MEANS_ACTIVATION},
                 {"disable_bias_linear", MEANS_BIASES},
                 {"add_qkv_bias", MEANS_BIASES},
                 {"add_attention_bias", MEANS_BIASES},
                 {"add_mlp_bias", MEANS_BIASES},
                 {"group_query_attention", MEANS_GROUPS},
                 {"num_query_groups", MEANS_GROUPS},
                 {"num_layers", MEANS_LAYERS},
                 {"encoder_num_layers", MEANS_LAYERS},
                 {"decoder_num_layers", MEANS_LAYERS},
                 {"num_token_types", MEANS_TYPES},
                 {"bert_no_binary_head", MEANS_TYPES},
                 {"sliding_window", MEANS_WINDOWS},
                 {"window_attn_skip_freq", MEANS_WINDOWS},
                 {"moe_router_topk", MEANS_NOTHING},
                 {"moe_router_num_groups", MEANS_NOTHING},
                 {"moe_router_group_topk", MEANS_NOTHING},
                 {"moe_router_group_best", MEANS_NOTHING},
                 {"moe_shared_expert_intermediate_size", MEANS_NOTHING},
                 {"moe_shared_expert_gate", MEANS_NOTHING},
                 {"moe_router_enable_expert_bias", MEANS_NOTHING},
                 {"moe_layer_freq", MEANS_EXPERT_LAYERS},
                 {"moe_ffn_hidden_size", MEANS_EXPERT_WIDTH},
                 {"moe_router_score_function", MEANS_EXPERT_SCORES},
                 {"moe_router_pre_softmax", MEANS_EXPERT_SCORES},
                 {"moe_router_topk_scaling_factor", MEANS_EXPERT_FACTOR}};

static void compare_experts(const struct config *a, const struct config *b, bool is_same[MEANING_COUNT]) {
    bool has_none = a->num_experts == 0 && b->num_experts == 0;
    const char *score = a->moe_router_score_function;
    is_same[MEANS_NOTHING] = has_none;
    is_same[MEANS_EXPERT_LAYERS] = has_none || config_same_expert_layers(a, b);
    is_same[MEANS_EXPERT_WIDTH] = has_none || config_expert_width(a) == config_expert_width(b);
    is_same[MEANS_EXPERT_SCORES] =
        has_none || (strcmp(score, b->moe_router_score_function) == 0 &&
                     (strcmp(score, "softmax") != 0 || a->moe_router_pre_softmax == b->moe_router_pre_softmax));
    is_same[MEANS_EXPERT_FACTOR] = has_none || config_router_factor(a) == config_router_factor(b);
}

// An activation may also follow from the absence of biases, so those are compared if it differs.
static void compare_meanings(const struct config *a, const struct config *b, bool is_same[MEANING_COUNT]) {
    is_same[MEANS_ACTIVATION] = strcmp(config_activation(a), config_activation(b)) == 0 &&
                                strcmp(config_head_activation(a), config_head_activation(b)) == 0 &&
                                config_is_gated(a) == config_is_gated(b);
    is_same[MEANS_BIASES] = is_same[MEANS_ACTIVATION] && config_has_qkv_bias(a) == config_has_qkv_bias(b) &&
                            config_has_attention_bias(a) == config_has_attention_bias(b) &&
                            config_has_mlp_bias(a) == config_has_mlp_bias(b);
    is_same[MEANS_GROUPS] = config_query_groups(a) == config_query_groups(b);
    is_same[MEANS_WINDOWS] = config_same_windows(a, b);
    is_same[MEANS_LAYERS] =
        config_encoder_layers(a) == config_encoder_layers(b) && config_decoder_layers(a) == config_decoder_layers(b);
    is_same[MEANS_TYPES] =
        config_token_types(a) == config_token_types(b) && config_has_binary_head(a) == config_has_binary_head(b);
    compare_experts(a, b, is_same);
}

// What the object's fields mean is the same here, for each meaning. Where a value cannot be read nothing is: then the
// comparison field by field says what is wrong.
static void find_meanings(const struct config *config, const struct json *object, bool is_same[MEANING_COUNT]) {
    struct config there;
    config_defaults(&there);
    int status = 0;
    for (size_t i = 0; i < COUNT(model_fields) && status == 0; i++)
        status = take_field(&there, object, model_fields[i]);
    if (status == 0)
        compare_meanings(config, &there, is_same);
    else
        error_clear();
    config_free(&there);
}

static bool is_spelling(const char *field, const bool is_same[MEANING_COUNT]) {
    for (size_t i = 0; i < COUNT(spellings); i++)
        if (strcmp(spellings[i].field, field) == 0)
            return is_same[spellings[i].meaning];
    return false;
}

int config_check_json(const struct config *config, const struct json *object, const char *name) {
    if (object->type != JSON_OBJECT)
        return error_set("%s: the configuration is not a JSON object", name);
    struct buffer differences = {0};
    bool is_same[MEANING_COUNT] = {false};
    find_meanings(config, object, is_same);
    for (size_t i = 0; i < COUNT(model_fields); i++)
        if (!is_spelling(model_fields[i], is_same))
            compare_field(config, object, model_fields[i], &differences);
    int status = 0;
    if (differences.length)
        status = error_set("%s holds another model: %s; give the checkpoint's values, or --use-checkpoint-args", name,
                           buffer_string(&differences));
    buffer_free(&differences);
    return status;
}

// Flags of one optimizer say nothing about the states of another.
static bool is_storage_of(const struct config *config, const char *field) {
    bool is_adaptive = strcmp(config->optimizer, "adaptive_muon") == 0;
    if (strcmp(field, "muon_scalar_optimizer") == 0)
        return is_adaptive || strcmp(config->optimizer, "muon") == 0;
    return is_adaptive || strcmp(field, "adaptive_muon_moment2_method") != 0;
}

int config_check_storage(const struct config *config, const struct json *object, const char *name) {
    if (object->type != JSON_OBJECT)
        return error_set("%s: the configuration is not a JSON object", name);
    struct buffer differences = {0};
    for (size_t i = 0; i < COUNT(storage_fields); i++)
        if (is_storage_of(config, storage_fields[i]))
            compare_field(config, object, storage_fields[i], &differences);
    int status = 0;
    if (differences.length)
        status = error_set("this run cannot resume from %s: %s; give the checkpoint's value or --use-checkpoint-args, "
                           "or start from its weights, converted, with --finetune",
                           name, buffer_string(&differences));
    buffer_free(&differences);
    return status;
}

bool config_json_is_centered(const struct json *object) {
    const struct json *value = object->type == JSON_OBJECT ? json_member(object, "apply_layernorm_1p") : NULL;
    const char *text = value ? json_text(value) : NULL;
    return text && strcasecmp(text, "true") == 0;
}
