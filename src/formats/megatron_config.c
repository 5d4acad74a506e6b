// The arguments of a Megatron run as our flags, and back. Most have the same name, with _ for -; a property of the
// model that we do not support is an error. The oldest files have no arguments: then everything but the number of heads
// follows from the tensors.
#include "formats/megatron_folder.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/flags.h"
#include "formats/hf_family.h"
#include "formats/torch_write.h"
#include "model/likeness.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_HEAD_SIZE = 64 };

// Arguments with the names of our flags: those of the flags that describe the model or its experts, and these.
static const char besides[] =
    "seq_length hidden_dropout attention_dropout init_method_std make_vocab_size_divisible_by apply_layernorm_1p "
    "vocab_extra_ids mtp_loss_scaling_factor tokenizer_type vocab_file merge_file tokenizer_model ";
// But for these, which are read otherwise, or have values even in models where they mean nothing.
static const char apart[] =
    "model padded_vocab_size softmax_type activation gated_linear_unit position_embedding_type softmax_scale "
    "window_attn_skip_freq sliding_window moe_layer_freq moe_router_dtype moe_upcycling_granularity "
    "expert_tensor_parallel_size encoder_num_layers decoder_num_layers relative_attention_num_buckets "
    "rope_type rotary_scaling_factor original_max_position_embeddings mscale mscale_all_dim yarn_beta_fast "
    "yarn_beta_slow yarn_attention_factor q_lora_rank kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim "
    "biencoder_projection_dim biencoder_shared_query_context_model retriever_score_scaling ";

// Arguments that give a model which we do not support, unless they are unset or have the value given here.
static const char unsupported[] =
    "moe_latent_size moe_apply_probs_on_input multi_latent_attention apply_residual_connection_post_layernorm "
    "softmax_type=vanilla qk_l2_norm embed_layernorm attention_output_gate experimental_attention_variant "
    "linear_attention_freq no_rope_freq use_mup enable_mhc_connections retro_add_retriever mtp_use_repeated_layer "
    "mtp_hybrid_override_pattern is_hybrid_model hybrid_layer_pattern hybrid_override_pattern "
    "heterogeneous_layers_config_path heterogeneous_layers_config_encoded_json ";

static bool is_true(const struct torch_value *value) {
    return value &&
           ((value->type == TORCH_BOOL && value->boolean) || (value->type == TORCH_INT && value->integer != 0));
}

// None, False, 0, "" and an empty list mean that an argument was not given.
static bool is_set(const struct torch_value *value) {
    if (!value || value->type == TORCH_NONE)
        return false;
    if (value->type == TORCH_FLOAT)
        return value->real != 0;
    if (value->type == TORCH_STRING)
        return value->length > 0;
    if (value->type == TORCH_LIST)
        return value->count > 0;
    return value->type == TORCH_BOOL || value->type == TORCH_INT ? is_true(value) : true;
}

static bool is_text(const struct torch_value *value, const char *text) {
    return value && value->type == TORCH_STRING && value->length == strlen(text) &&
           memcmp(value->text, text, value->length) == 0;
}

// Whether the value is the text, or a list that has it.
static bool has_text(const struct torch_value *value, const char *text) {
    bool found = is_text(value, text);
    for (size_t i = 0; value && value->type == TORCH_LIST && i < value->count; i++)
        found = found || is_text(value->items[i], text);
    return found;
}

// The flag of an argument, and the argument of a flag, to be freed.
static char *flag_of(const char *name) {
    char *flag = memory_printf("--%s", name);
    for (char *p = flag; *p; p++)
        *p = *p == '_' ? '-' : *p;
    return flag;
}

static char *argument_of(const char *flag) {
    char *name = memory_string(flag + strlen("--"));
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
    return name;
}

// The value as a flag's text, to be freed; NULL if no flag takes such a value.
static char *text_of(const struct torch_value *value) {
    if (value->type == TORCH_BOOL)
        return memory_string(value->boolean ? "true" : "false");
    if (value->type == TORCH_INT)
        return memory_printf("%" PRId64, value->integer);
    if (value->type == TORCH_FLOAT)
        return memory_printf("%.17g", value->real);
    if (value->type == TORCH_STRING && strlen(value->text) == value->length)
        return memory_string(value->text);
    return NULL;
}

// A list is for flags that take several values.
static int set_same(struct config *config, const char *flag, const struct torch_value *value) {
    OWNED_BY(buffer_free) struct buffer words = {0};
    bool is_list = value->type == TORCH_LIST;
    for (size_t i = 0; i < (is_list ? value->count : 1); i++) {
        OWNED char *text = text_of(is_list ? value->items[i] : value);
        if (text || is_list)
            buffer_printf(&words, "%s%s", i > 0 ? " " : "", text ? text : "None");
    }
    bool has_value = words.length > 0 || (value->type == TORCH_STRING && value->length == 0);
    return has_value ? config_take(config, flag, buffer_string(&words)) : 0;
}

// Before Megatron core, two arguments chose the GELU. Only releases from core 0.5 to 0.17 record in their arguments
// which models they had; earlier ones had no others, later ones only core's.
static bool is_legacy(const struct torch_value *args) {
    const struct torch_value *legacy = torch_get(args, "use_legacy_models"),
                             *core = torch_get(args, "use_mcore_models");
    if (legacy || core)
        return legacy ? is_true(legacy) : !is_true(core);
    return !torch_get(args, "deprecated_use_mcore_models");
}

// At first the tanh form was the only GELU, later it was the fused kernel's.
static int set_activation(struct config *config, const struct torch_value *args) {
    const struct torch_value *fusion = torch_get(args, "bias_gelu_fusion"), *bias = torch_get(args, "add_bias_linear");
    bool is_openai = is_true(torch_get(args, "openai_gelu")), is_onnx = is_true(torch_get(args, "onnx_safe"));
    bool is_gelu = !is_true(torch_get(args, "swiglu")) && !is_true(torch_get(args, "squared_relu")) &&
                   !is_true(torch_get(args, "quick_geglu"));
    if (is_gelu && is_legacy(args) && (is_openai || is_onnx))
        TRY(config_take(config, "--activation", is_openai ? "gelu_tanh" : "gelu"));
    else if (is_gelu && fusion && !is_true(fusion))
        TRY(config_take(config, "--no-bias-gelu-fusion", "true"));
    if (bias && !is_true(bias))
        TRY(config_take(config, "--disable-bias-linear", "true"));
    return 0;
}

static int check_supported(const struct torch_value *args) {
    int result = 0;
    for (const char *word = unsupported; *word && result == 0; word = strchr(word, ' ') + 1) {
        OWNED char *name = memory_printf("%.*s", (int)strcspn(word, "= "), word);
        OWNED char *harmless = memory_printf("%.*s", (int)strcspn(word, " "), word);
        const struct torch_value *value = torch_get(args, name);
        bool is_harmless = strlen(harmless) > strlen(name) && is_text(value, harmless + strlen(name) + 1);
        OWNED char *flag = flag_of(name);
        if (is_set(value) && !is_harmless)
            result = error_set("its model was made with %s, which is not supported", flag);
    }
    return result;
}

// A number, or a list with a 1 for each layer that has a window or experts.
static int set_layers(struct config *config, const struct torch_value *args, const char *name) {
    const struct torch_value *layers = torch_get(args, name);
    if (!is_set(layers))
        return 0;
    if (layers->type != TORCH_INT && layers->type != TORCH_LIST)
        return error_set("its argument \"%s\" is neither a number nor a list", name);
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (size_t i = 0; layers->type == TORCH_LIST && i < layers->count; i++)
        buffer_printf(&text, "%s%d", i > 0 ? "," : "[", is_true(layers->items[i]));
    if (layers->type == TORCH_INT)
        buffer_printf(&text, "%" PRId64, layers->integer);
    else
        buffer_append_string(&text, "]");
    OWNED char *flag = flag_of(name);
    return config_take(config, flag, buffer_string(&text));
}

// Megatron's window counts the tokens to the left and right of a token, ours also the token itself.
static int set_window(struct config *config, const struct torch_value *args) {
    const struct torch_value *window = torch_get(args, "window_size");
    if (!is_set(window))
        return 0;
    bool is_pair = window->type == TORCH_LIST && window->count == 2 && window->items[0]->type == TORCH_INT &&
                   window->items[1]->type == TORCH_INT && window->items[1]->integer <= 0 &&
                   window->items[0]->integer < INT32_MAX;
    if (!is_pair)
        return error_set("its argument \"window_size\" is not a pair of numbers with a second of 0 or less");
    int64_t before = window->items[0]->integer;
    if (before < 0)
        return 0;
    TRY(config_take_number(config, "--sliding-window", before + 1));
    return set_layers(config, args, "window_attn_skip_freq");
}

// Routers compute in fp32 here, which rounds fp64's results and changes no weight.
static int set_router_dtype(struct config *config, const struct torch_value *dtype) {
    if (!is_text(dtype, "fp64"))
        return dtype ? set_same(config, "--moe-router-dtype", dtype) : 0;
    log_info("note: its routers computed in fp64 (--moe-router-dtype); here they compute in fp32");
    return config_take(config, "--moe-router-dtype", "fp32");
}

static int set_experts(struct config *config, const struct torch_value *args) {
    if (!is_set(torch_get(args, "num_experts")))
        return 0;
    if (has_text(torch_get(args, "moe_router_load_balancing_type"), "quantile_balancing"))
        return error_set("its model was made with --moe-router-load-balancing-type quantile_balancing, which is not "
                         "supported");
    const struct torch_value *ranks = torch_get(args, "expert_tensor_parallel_size"),
                             *dense = torch_get(args, "tensor_model_parallel_size");
    if (is_set(ranks) && ranks->type == TORCH_INT && dense && dense->type == TORCH_INT &&
        ranks->integer != dense->integer)
        return error_set("its --expert-tensor-parallel-size is not its --tensor-model-parallel-size, which is not "
                         "supported; save it as torch_dist on ranks where they are the same");
    if (set_router_dtype(config, torch_get(args, "moe_router_dtype")) < 0)
        return error_context("its argument \"moe_router_dtype\"");
    return set_layers(config, args, "moe_layer_freq");
}

// Settings of training that we do not support are left to the flags of the run.
static int set_flag(struct config *config, const struct flag *flag, const struct torch_value *args) {
    OWNED char *name = argument_of(flag->name);
    const struct torch_value *value = torch_get(args, name);
    bool is_of_experts = flag->uses & USE_EXPERTS || strcmp(name, "num_experts") == 0,
         is_model = flag->uses & USE_MODEL;
    bool is_taken = is_of_experts ? is_set(torch_get(args, "num_experts")) : is_model || hf_has_word(besides, name);
    int result = 0;
    if (value && is_taken && !hf_has_word(apart, name) && !hf_has_word(unsupported, name))
        result = set_same(config, flag->name, value);
    if (result < 0 && is_of_experts && !is_model) {
        error_clear();
        result = 0;
    }
    if (result < 0)
        error_context("its argument \"%s\"", name);
    return result;
}

static int read_args(const struct torch_value *args, struct config *config) {
    TRY(check_supported(args));
    TRY(set_experts(config, args));
    TRY(set_window(config, args));
    struct flag_table table = config_flag_table(0);
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table.rows, i)); i++)
        TRY(set_flag(config, flag, args));
    const struct torch_value *epsilon = torch_get(args, "layernorm_epsilon");  // its name in some releases
    if (epsilon && set_same(config, "--norm-epsilon", epsilon) < 0)
        return error_context("its argument \"layernorm_epsilon\"");
    if (is_true(torch_get(args, "layernorm_zero_centered_gamma")))  // today's name of apply_layernorm_1p
        TRY(config_take(config, "--apply-layernorm-1p", "true"));
    // Other tokenizers have their own vocabulary size, which a checkpoint's argument must not override.
    const struct torch_value *vocabulary = torch_get(args, "vocab_size");
    if (is_text(torch_get(args, "tokenizer_type"), "NullTokenizer") && vocabulary && vocabulary->type == TORCH_INT &&
        vocabulary->integer > 0)
        TRY(config_take_number(config, "--vocab-size", vocabulary->integer));
    return set_activation(config, args);
}

static int read_shapes(const struct megatron_folder *folder, int64_t attention_heads, struct config *config) {
    const struct weight *words = megatron_find(folder, 0, "embedding.word_embeddings.weight");
    if (!words || words->rank != 2)
        return error_set("it has neither arguments nor an embedding, so the model's size is unknown");
    int64_t heads = attention_heads > 0 ? attention_heads : words->shape[1] / USUAL_HEAD_SIZE;
    if (heads == 0)
        return error_set("it does not say the number of attention heads; give --num-attention-heads");
    if (attention_heads == 0)
        log_info("note: the checkpoint does not say the number of attention heads; assuming %" PRId64
                 " of %d channels each (change it with --num-attention-heads)",
                 heads, USUAL_HEAD_SIZE);
    TRY(config_take_number(config, "--num-layers", folder->layers[MEGATRON_FIRST]));
    TRY(config_take_number(config, "--hidden-size", words->shape[1]));
    return config_take_number(config, "--num-attention-heads", heads);
}

static int set_bert(const struct megatron_folder *folder, struct config *config) {
    const struct weight *types = megatron_find(folder, 0, "embedding.tokentype_embeddings.weight");
    // BERT's head has the exact GELU whatever its blocks have, unless OpenAI's was requested for both.
    bool is_openai = folder->args && is_legacy(folder->args) && is_true(torch_get(folder->args, "openai_gelu"));
    TRY(config_take(config, "--model", "bert"));
    TRY(config_take(config, "--lm-head-activation", is_openai ? "gelu_tanh" : "gelu"));
    TRY(config_take_number(config, "--num-token-types", types && types->rank == 2 ? types->shape[0] : 0));
    if (!megatron_find(folder, 0, "binary_head.weight"))
        return config_take(config, "--bert-no-binary-head", "true");
    return 0;
}

// Both stacks are counted: releases disagree on which argument is which.
static int set_t5(const struct megatron_folder *folder, struct config *config) {
    const struct weight *bias = megatron_find(folder, 0, "output_layer.bias");
    TRY(config_take(config, "--model", "t5"));
    TRY(config_take_number(config, "--num-layers", folder->layers[MEGATRON_FIRST]));
    TRY(config_take_number(config, "--encoder-num-layers", folder->layers[MEGATRON_FIRST]));
    TRY(config_take_number(config, "--decoder-num-layers", folder->layers[MEGATRON_DECODER]));
    const struct weight *distances = megatron_find(folder, 0, "encoder.relative_attention_bias.weight");
    if (distances && distances->rank == 2)
        TRY(config_take_number(config, "--relative-attention-num-buckets", distances->shape[0]));
    const struct torch_value *length = folder->args ? torch_get(folder->args, "decoder_seq_length") : NULL;
    if (length && length->type == TORCH_INT)
        TRY(config_take_number(config, "--decoder-seq-length", length->integer));
    return bias ? config_take(config, "--add-output-bias", "true") : 0;
}

// For a model without a table of positions. All but relative and none is rope, for which early releases had another
// argument.
static int set_positions(const struct megatron_folder *folder, struct config *config) {
    const struct torch_value *type = folder->args ? torch_get(folder->args, "position_embedding_type") : NULL;
    if (megatron_find(folder, 0, "encoder.relative_attention_bias.weight"))
        return config_take(config, "--position-embedding-type", "relative");
    if (is_text(type, "yarn") || is_text(type, "mrope") || is_text(type, "alibi"))
        return error_set("its model was made with --position-embedding-type %s, which is not supported", type->text);
    return config_take(config, "--position-embedding-type", is_text(type, "none") ? "none" : "rope");
}

int megatron_read_config(const struct megatron_folder *folder, int64_t attention_heads, struct config *config) {
    TRY(folder->args ? read_args(folder->args, config) : read_shapes(folder, attention_heads, config));
    if (folder->form == CONFIG_BERT)
        TRY(set_bert(folder, config));
    if (folder->form == CONFIG_T5)
        TRY(set_t5(folder, config));
    // The tensors are more reliable than arguments, some of which are enumerations of Python.
    int64_t vocabulary = 0;
    for (int rank = 0; rank < folder->tensor_ranks; rank++) {
        const struct weight *words = megatron_find(folder, rank, "embedding.word_embeddings.weight");
        vocabulary += words && words->rank == 2 ? words->shape[0] : 0;
    }
    TRY(config_take_number(config, "--padded-vocab-size", vocabulary > 0 ? vocabulary : 1));
    const struct weight *positions = megatron_find(folder, 0, "embedding.position_embeddings.weight");
    if (positions && positions->rank == 2)
        return config_take_number(config, "--max-position-embeddings", positions->shape[0]);
    return set_positions(folder, config);
}

// ---- writing ----

// Written in this order, as put_argument says it.
static const char of_model[] =
    "num_layers hidden_size ffn_hidden_size num_attention_heads kv_channels group_query_attention num_query_groups "
    "seq_length max_position_embeddings position_embedding_type add_position_embedding rotary_base rotary_percent "
    "rotary_interleaved normalization norm_epsilon apply_layernorm_1p qk_layernorm swiglu squared_relu quick_geglu "
    "glu_linear_offset activation_func_clamp_value bias_gelu_fusion add_bias_linear add_qkv_bias "
    "untie_embeddings_and_output_weights hidden_dropout attention_dropout init_method_std "
    "make_vocab_size_divisible_by padded_vocab_size";
static const char of_experts[] =
    "num_experts moe_layer_freq moe_ffn_hidden_size moe_router_topk moe_router_score_function moe_router_pre_softmax "
    "moe_router_topk_scaling_factor moe_router_num_groups moe_router_group_topk moe_router_dtype "
    "moe_shared_expert_intermediate_size moe_shared_expert_gate expert_model_parallel_size";

// Most arguments have the value of the flag of their name, and a number that was not given is left out.
static void put_argument(struct buffer *out, const struct config *config, const char *name) {
    enum activation activation = config_activation(&config->model);
    bool is_gated = config_is_gated(&config->model);
    // Those that follow from several flags, or that are always the same.
    const struct {
        const char *name;
        bool is_number;
        int64_t value;
    } derived[] = {
        {"group_query_attention", false, config_query_groups(&config->model) != config->model.num_attention_heads},
        {"num_query_groups", true, config_query_groups(&config->model)},
        {"add_position_embedding", false, true},
        {"rotary_base", true, (int64_t)config->model.rotary_base},
        {"rotary_seq_len_interpolation_factor", true, (int64_t)config->model.rotary_seq_len_interpolation_factor},
        {"swiglu", false, is_gated && activation == ACTIVATION_SILU},
        {"squared_relu", false, activation == ACTIVATION_SQUARED_RELU},
        {"quick_geglu", false, is_gated && activation == ACTIVATION_QUICK_GELU},
        {"bias_gelu_fusion", false, activation == ACTIVATION_GELU_TANH},
        {"add_bias_linear", false, config_has_mlp_bias(&config->model)},
        {"add_qkv_bias", false, config_has_qkv_bias(&config->model)},
        {"moe_layer_freq", true, 1},
        {"moe_ffn_hidden_size", true, config_expert_width(&config->model)},
        {"expert_model_parallel_size", true, 1},
        {"use_mcore_models", false, true},
        {"tensor_model_parallel_size", true, 1},
        {"pipeline_model_parallel_size", true, 1},
    };
    for (size_t i = 0; i < sizeof derived / sizeof derived[0]; i++)
        if (strcmp(derived[i].name, name) == 0) {
            pickle_text(out, name);
            derived[i].is_number ? pickle_int(out, derived[i].value) : pickle_bool(out, derived[i].value);
            return;
        }
    struct flag_table table = config_flag_table(0);
    const struct flag *flag = flag_find(&table, name);
    CHECK(flag != NULL);
    bool is_unset = flag_is_unset(flag, config);
    if (is_unset && (flag->type == FLAG_INT || flag->type == FLAG_DOUBLE))
        return;
    OWNED_BY(buffer_free) struct buffer text = {0};
    flag_format(flag, config, &text);
    const char *value = buffer_string(&text);
    pickle_text(out, name);
    if (flag->type == FLAG_BOOL)
        pickle_bool(out, strcmp(value, "true") == 0);
    else if (flag->type == FLAG_INT)
        pickle_int(out, strtoll(value, NULL, 10));
    else if (flag->type == FLAG_DOUBLE)
        pickle_double(out, strtod(value, NULL));
    else
        pickle_text(out, is_unset ? NULL : value);
}

static void put_arguments(struct buffer *out, const struct config *config, const char *names) {
    char *words = memory_string(names), *rest = words;
    for (const char *name = strsep(&rest, " "); name; name = strsep(&rest, " "))
        put_argument(out, config, name);
    free(words);
}

// The inverse of set_window. A window that no layer has is none.
static void put_window(struct buffer *out, const struct config *config) {
    bool has_window = false;
    for (int64_t i = 0; i < config->model.num_layers; i++)
        has_window = has_window || config_layer_window(&config->model, i) > 0;
    if (!has_window)
        return;
    pickle_text(out, "window_size");
    pickle_begin_tuple(out);
    pickle_int(out, config->model.sliding_window - 1);
    pickle_int(out, 0);
    pickle_end_tuple(out);
    if (!config_mixes_windows(&config->model))
        return;
    pickle_text(out, "window_attn_skip_freq");
    pickle_begin_list(out);
    for (int64_t i = 0; i < config->model.num_layers; i++)
        pickle_int(out, config_layer_window(&config->model, i) > 0);
    pickle_end_list(out);
}

void megatron_put_arguments(struct buffer *out, const struct config *config) {
    put_arguments(out, config, of_model);
    if (config->model.rotary_seq_len_interpolation_factor != 1)
        put_arguments(out, config, "rotary_seq_len_interpolation_factor");
    if (config->model.use_rope_scaling && config->model.rope_scaling_type == ROPE_SCALING_LLAMA3)
        put_arguments(out, config, "use_rope_scaling rope_scaling_factor");
    put_window(out, config);
    if (config->model.mtp_num_layers > 0)
        put_arguments(out, config, "mtp_num_layers mtp_loss_scaling_factor");
    if (config->model.num_experts > 0)
        put_arguments(out, config, of_experts);
    put_arguments(out, config, "use_mcore_models tensor_model_parallel_size pipeline_model_parallel_size");
}

// Reads the arguments as those of a checkpoint; what its tensors would say is taken from the model.
static int read_back(const struct torch_value *args, const struct config *config, struct config *said) {
    const struct torch_value *type = torch_get(args, "position_embedding_type");
    const struct megatron_folder folder = {.args = args, .form = CONFIG_GPT};
    TRY(read_args(args, said));
    TRY(config_take_number(said, "--padded-vocab-size", config->model.padded_vocab_size));
    said->data.vocab_size = config->model.padded_vocab_size;
    if (!is_text(type, "learned_absolute"))
        TRY(set_positions(&folder, said));
    return config_validate_for(said, 1, CONFIG_GENERATE);
}

int megatron_check_arguments(const struct config *config) {
    OWNED_BY(buffer_free) struct buffer out = {0}, differences = {0};
    OWNED_BY(torch_pickle_free) struct torch_pickle pickle = {0};
    struct config said;
    config_defaults(&said);
    pickle_begin(&out);
    pickle_begin_dict(&out);
    megatron_put_arguments(&out, config);
    pickle_end_dict(&out);
    pickle_end(&out);
    CHECK(torch_pickle_parse(&pickle, (const unsigned char *)out.data, out.length) == 0);
    int result = read_back(pickle.root, config, &said);
    likeness_compare(&said, config, LIKENESS_WRITTEN, &differences);
    if (differences.length > 0)
        result = error_set("%s", buffer_string(&differences));
    if (result < 0)
        error_context("Megatron-LM's arguments cannot describe this model; give --to huggingface");
    config_free(&said);
    return result;
}
