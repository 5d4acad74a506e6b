// Compares the keys and tokens of a written GGUF file with the model and the vocabulary. See gguf_check.h.
#include "formats/gguf_check.h"

#include "base/error.h"
#include "base/memory.h"
#include "formats/gguf_config.h"
#include <stdlib.h>
#include <string.h>

static int complain(const struct gguf_check *check, const char *key) {
    return error_set("%s does not read back as it was written: the key %s has another value; it was removed",
                     check->path, key);
}

// ---- the model ----

static bool has_real(const struct gguf *file, const char *key, double wanted) {
    const struct gguf_value *value = gguf_find_value(file, key);
    float found = 0;
    if (!value || value->type != GGUF_F32)
        return false;
    memcpy(&found, value->data, sizeof found);
    return found == (float)wanted;
}

static bool has_number(const struct gguf *file, const char *key, int64_t wanted) {
    uint64_t found = 0;
    return gguf_get_number(file, key, &found) && found == (uint64_t)wanted;
}

static bool has_text(const struct gguf *file, const char *key, const char *wanted) {
    const struct gguf_value *value = gguf_find_value(file, key);
    return value && value->type == GGUF_STRING && value->count == strlen(wanted) &&
           memcmp(value->data, wanted, strlen(wanted)) == 0;
}

static int compare_model(const struct gguf_check *check, const struct gguf *file) {
    const struct config *config = &check->asked->source->config;
    const struct gguf_architecture *architecture = check->architecture;
    int64_t length = config->max_position_embeddings, window = architecture->has_windows ? 0 : config->sliding_window;
    int64_t shared = config->qk_pos_emb_head_dim;
    bool is_latent = architecture->has_latents;
    bool is_gpt = config_form(config) == CONFIG_GPT, is_t5 = config_form(config) == CONFIG_T5;
    const struct {
        const char *key;
        int64_t wanted;
        bool is_there;
    } numbers[] = {
        {"context_length", window > 0 && window < length ? window : length, true},
        {"embedding_length", config->hidden_size, true},
        {"block_count", is_gpt ? config_decoder_layers(config) : config_encoder_layers(config), true},
        {"decoder_block_count", config_decoder_layers(config), is_t5},
        {"feed_forward_length", gguf_mlp_width(architecture, config), true},
        {"expert_count", config->num_experts, architecture->has_experts},
        {"expert_used_count", config->moe_router_topk, architecture->has_experts},
        {"expert_feed_forward_length", config_expert_width(config), architecture->has_dense_width},
        {"expert_shared_feed_forward_length", config->moe_shared_expert_intermediate_size, architecture->has_shared},
        {"attention.sliding_window", config->sliding_window, architecture->has_windows},
        {"attention.head_count", config->num_attention_heads, true},
        {"attention.head_count_kv", is_latent ? 1 : config_query_groups(config), is_latent || architecture->has_groups},
        {"attention.key_length", is_latent ? config->kv_lora_rank + shared : config->kv_channels,
         architecture->has_wide_heads},
        {"attention.value_length", is_latent ? config->kv_lora_rank : config->kv_channels,
         architecture->has_wide_heads},
        {"attention.key_length_mla", config->qk_head_dim + shared, is_latent},
        {"attention.value_length_mla", config->v_head_dim, is_latent},
        {"attention.relative_buckets_count", config->relative_attention_num_buckets, is_t5},
        {"rope.dimension_count", config_rotary_channels(config), architecture->has_rope},
        {"vocab_size", check->rows, true},
    };
    const struct {
        const char *key;
        double wanted;
        bool is_there;
    } reals[] = {{"attention.layer_norm_rms_epsilon", config->norm_epsilon, architecture->has_rms_norm},
                 {"attention.layer_norm_epsilon", config->norm_epsilon, !architecture->has_rms_norm},
                 {"rope.freq_base", (double)config->rotary_base, architecture->has_rope}};
    int result =
        has_text(file, "general.architecture", architecture->name) ? 0 : complain(check, "general.architecture");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && result == 0; i++) {
        char *key = memory_printf("%s.%s", architecture->name, numbers[i].key);
        if (numbers[i].is_there ? !has_number(file, key, numbers[i].wanted) : gguf_find_value(file, key) != NULL)
            result = complain(check, key);
        free(key);
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0] && result == 0; i++) {
        char *key = memory_printf("%s.%s", architecture->name, reals[i].key);
        if (reals[i].is_there ? !has_real(file, key, reals[i].wanted) : gguf_find_value(file, key) != NULL)
            result = complain(check, key);
        free(key);
    }
    return result;
}

// ---- the vocabulary ----

static const struct gguf_value *find_array(const struct gguf *file, const char *key, enum gguf_type element,
                                           uint64_t count) {
    const struct gguf_value *value = gguf_find_value(file, key);
    bool is_it = value && value->type == GGUF_ARRAY && value->element == element && value->count == count;
    return is_it ? value : NULL;
}

static int compare_tokens(const struct gguf_check *check, const struct gguf *file) {
    const struct gguf_vocabulary *v = check->vocabulary;
    uint64_t size = (uint64_t)v->size;
    const struct gguf_value *texts = find_array(file, "tokenizer.ggml.tokens", GGUF_STRING, size);
    const struct gguf_value *types = find_array(file, "tokenizer.ggml.token_type", GGUF_I32, size);
    const struct gguf_value *scores = find_array(file, "tokenizer.ggml.scores", GGUF_F32, size);
    size_t cursor = 0;
    if (!texts || !types || (scores != NULL) != v->has_scores)
        return complain(check, !texts   ? "tokenizer.ggml.tokens"
                               : !types ? "tokenizer.ggml.token_type"
                                        : "tokenizer.ggml.scores");
    for (int64_t i = 0; i < v->size; i++) {
        const struct gguf_token *token = &v->tokens[i];
        uint64_t length = 0;
        int32_t type = 0;
        float score = token->score;
        const char *text = gguf_next_string(texts, &cursor, &length);
        memcpy(&type, types->data + (size_t)i * sizeof type, sizeof type);
        if (scores)
            memcpy(&score, scores->data + (size_t)i * sizeof score, sizeof score);
        if (length != token->length || memcmp(text, token->text, token->length) != 0)
            return complain(check, "tokenizer.ggml.tokens");
        if (type != (int32_t)token->type)
            return complain(check, "tokenizer.ggml.token_type");
        if (score != token->score)
            return complain(check, "tokenizer.ggml.scores");
    }
    return 0;
}

static int compare_merges(const struct gguf_check *check, const struct gguf *file) {
    static const char key[] = "tokenizer.ggml.merges";
    const struct gguf_pairs *merges = &check->vocabulary->merges;
    const struct gguf_value *found = gguf_find_value(file, key);
    bool is_same = merges->count == 0 ? !found
                                      : found && find_array(file, key, GGUF_STRING, merges->count) &&
                                            memcmp(found->data, merges->bytes.data, merges->bytes.length) == 0;
    return is_same ? 0 : complain(check, key);
}

static int compare_vocabulary(const struct gguf_check *check, const struct gguf *file) {
    const struct gguf_vocabulary *v = check->vocabulary;
    const struct {
        const char *key;
        int32_t id;
    } ids[] = {{"bos", v->bos},   {"eos", v->eos},     {"unknown", v->unk},
               {"mask", v->mask}, {"padding", v->pad}, {"seperator", v->sep}};
    if (!has_text(file, "tokenizer.ggml.model", v->model))
        return complain(check, "tokenizer.ggml.model");
    if (strcmp(v->model, "no_vocab") == 0)
        return 0;
    if (v->pre && !has_text(file, "tokenizer.ggml.pre", v->pre))
        return complain(check, "tokenizer.ggml.pre");
    TRY(compare_tokens(check, file));
    TRY(compare_merges(check, file));
    int result = 0;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0] && result == 0; i++) {
        char *key = memory_printf("tokenizer.ggml.%s_token_id", ids[i].key);
        if (ids[i].id >= 0 ? !has_number(file, key, ids[i].id) : gguf_find_value(file, key) != NULL)
            result = complain(check, key);
        free(key);
    }
    if (result == 0 && !has_number(file, "tokenizer.ggml.add_bos_token", v->adds_bos))
        result = complain(check, "tokenizer.ggml.add_bos_token");
    if (result == 0 && !has_number(file, "tokenizer.ggml.add_eos_token", v->adds_eos))
        result = complain(check, "tokenizer.ggml.add_eos_token");
    return result;
}

int gguf_check_keys(const struct gguf_check *check, const struct gguf *file) {
    TRY(compare_model(check, file));
    return compare_vocabulary(check, file);
}
