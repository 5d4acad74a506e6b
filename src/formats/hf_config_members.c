// Members of config.json that this program does not read: one that is not known to be harmless is refused by name, so
// that no model is read as another one. See hf_config.h.
#include "formats/hf_config.h"

#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// "name" is a member that changes no logits, "name=value" one that must have this value (or another listed one), and
// "name=@other" one that must equal the member `other`. A word without "=" allows any value, and every member that no
// list gives a value may be null.
static const char everyones[] =
    // identity and origin
    "architectures model_type auto_map torch_dtype dtype transformers_version _name_or_path name_or_path _commit_hash "
    "model_name base_model is_llama_config transformers.js_config unsloth_version unsloth_fixed quantization_config "
    "license _num_labels language name num_steps custom_pipelines tokenizer_name tokenizer_type model_max_length "
    "max_sequence_length "
    // execution
    "use_cache use_flash_attn use_flash_attention use_flash_attention_2 _attn_implementation attn_implementation "
    "_attn_implementation_autoset _flash_attn_2_enabled _experts_implementation gradient_checkpointing use_kernels "
    "output_attentions output_hidden_states output_past output_router_logits return_dict return_dict_in_generate "
    "use_return_dict torchscript tf_legacy_loss use_bfloat16 chunk_size_feed_forward pruned_heads xla_device "
    "keys_to_ignore_at_inference fused_rms_norm use_fused_rms_norm tensor_parallel pretraining_tp ep_size device_map "
    "cache_implementation _output_attentions _output_hidden_states _attn_implementation_internal "
    "_experts_implementation_internal experts_implementation sequence_parallel_enabled selective_checkpoint_enabled "
    "move_model_to_device "
    // other tasks
    "finetuning_task id2label label2id num_labels problem_type classifier_dropout prefix task_specific_params "
    "summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout "
    // tokens and generation
    "tokenizer_class bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id "
    "eod_token_id eos_token_ids decoder_start_token_id forced_bos_token_id forced_eos_token_id suppress_tokens "
    "begin_suppress_tokens "
    "bad_words_ids max_length min_length max_new_tokens do_sample early_stopping num_beams num_beam_groups "
    "diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size "
    "encoder_no_repeat_ngram_size num_return_sequences output_scores remove_invalid_values "
    "exponential_decay_length_penalty "
    // training
    "initializer_range initializer_factor embedding_initializer_range init_std init_method attention_dropout "
    "hidden_dropout dropout activation_dropout residual_dropout embedding_dropout attn_pdrop resid_pdrop embd_pdrop "
    "emb_pdrop layerdrop router_aux_loss_coef aux_loss_alpha seq_aux router_z_loss_coef router_jitter_noise "
    "moe_aux_loss_coeff "
    // rounding
    "attention_softmax_in_fp32 scale_attention_softmax_in_fp32 reorder_and_upcast_attn "
    // would change the numbers
    "is_causal=true is_encoder_decoder=false is_encoder_decoder=null is_decoder rope_interleaved=false "
    "add_cross_attention=false "
    "cross_attention_hidden_size=null tie_encoder_decoder=false use_mrope=false use_sliding_window=false "
    "sliding_window=null use_qk_norm=false qk_layernorm=false clip_qkv=null attn_logit_softcapping=null "
    "final_logit_softcapping=null ";

// Whether a value matches a word's; `root` may be NULL if no word refers to another member.
static bool is_value(const struct json *root, const char *word, size_t length, const char *value) {
    if (*word == '@' && strcmp(value, "null") == 0)
        return true;
    if (*word != '@')
        return strlen(value) == length && strncmp(word, value, length) == 0;
    OWNED char *name = memory_printf("%.*s", (int)length - 1, word + 1);
    const struct json *other = root ? hf_member_of(root, name) : NULL;
    const char *text = other ? hf_text_of(other) : NULL;
    return text && (strcmp(text, value) == 0 || (other->type == JSON_NUMBER && strtod(value, NULL) == other->number));
}

// Whether a member is among the words: 1; 0 if not; -1 if only with other values.
static int find_word(const struct json *root, const char *words, const char *key, const char *value) {
    size_t length = strlen(key);
    int found = 0;
    for (; words && *words; words += strspn(words, " ")) {
        size_t total = strcspn(words, " ");
        bool has_name = strncmp(words, key, length) == 0 && length <= total;
        if (has_name && length == total)
            return 1;
        if (has_name && words[length] == '=') {
            if (is_value(root, words + length + 1, total - length - 1, value))
                return 1;
            found = -1;
        }
        words += total;
    }
    return found;
}

bool hf_members_is_harmless(const char *key) {
    return find_word(NULL, everyones, key, "") == 1;
}

static bool is_key(const struct hf_family *family, const char *object, const char *key) {
    struct hf_key row;
    for (size_t i = 0; hf_key_at(family, i, &row); i++) {
        const char *name = row.key, *dot = strchr(name, '.');
        size_t length = dot ? (size_t)(dot - name) : 0;
        bool is_inside = dot && object && strlen(object) == length && strncmp(name, object, length) == 0;
        if ((!object && strcmp(name, key) == 0) || (is_inside && strcmp(dot + 1, key) == 0))
            return true;
    }
    return object == NULL && family->object && strcmp(family->object, key) == 0;
}

// What is read and written by functions instead of keys: the members, and the flags that they say.
enum { MOST_FACTS = 32 };
struct fact {
    bool is_said;
    const char *words, *flags;
};

static size_t list_facts(const struct hf_family *family, struct fact facts[MOST_FACTS]) {
    bool is_t5 = strcmp(family->embedding, "shared.weight") == 0, has_rope = family->has_rope;
    bool has_part = hf_default(family, "partial_rotary_factor"), is_routed = family->group_best > 0;
    bool has_local = hf_default(family, "rope_local_base_freq"), has_switch = family->window_switch != HF_WINDOWS_NONE;
    bool is_swiglu = hf_has_flag(family, "--swiglu");
    const struct fact all[] = {
        {true, everyones, NULL},
        {true, family->harmless, NULL},
        {true, "tie_word_embeddings layer_types", NULL},
        {is_swiglu, NULL, "--activation --gated-linear-unit"},
        {is_t5, "is_encoder_decoder=true scale_decoder_outputs dense_act_fn is_gated_act", NULL},
        {family->tie == HF_TIED_SCALED, NULL, "--scale-tied-output"},
        {family->architecture_mlm, NULL, "--bert-no-binary-head"},
        {has_rope, "rope_scaling rope_parameters original_max_position_embeddings", NULL},
        {has_rope && !family->rotary_base_key, "rope_theta", NULL},
        {has_rope && !family->rotary_part_key, "partial_rotary_factor", NULL},
        {true, family->rotary_base_key, NULL},
        {true, family->rotary_part_key, NULL},
        {has_part || family->rotary_channels_key, family->rotary_channels_key, "--rotary-percent"},
        {has_rope && !family->has_no_groups, hf_groups_key(family), "--num-query-groups"},
        {family->has_multi_query, "multi_query", "--num-query-groups"},
        {family->has_no_rope_layers, "no_rope_layers no_rope_layer_interval", "--no-rope-freq"},
        {family->has_whole_without_rope, NULL, "--no-rope-freq"},
        {has_local, family->has_nested_rope ? NULL : "rope_local_base_freq", "--rotary-base-local"},
        {hf_default(family, "query_pre_attn_scalar"), "query_pre_attn_scalar", "--softmax-scale"},
        {family->window_freq, "sliding_window_pattern", "--window-attn-skip-freq"},
        {has_switch || hf_default(family, "max_window_layers"), "max_window_layers", NULL},
        {has_switch, "use_sliding_window sliding_window", "--sliding-window --window-attn-skip-freq"},
        {family->sparse != HF_SPARSE_ALL, NULL, "--moe-layer-freq"},
        {family->sparse == HF_SPARSE_STEP, "decoder_sparse_step mlp_only_layers", NULL},
        {family->sparse > HF_SPARSE_STEP, "first_k_dense_replace", NULL},
        {family->sparse == HF_SPARSE_TYPES, "mlp_layer_types", NULL},
        {family->experts, "num_experts num_local_experts", NULL},
        {is_routed, "n_group topk_group",
         "--moe-shared-expert-intermediate-size --moe-router-num-groups --moe-router-group-topk "
         "--moe-router-group-best"},
        {is_routed, family->shared_key ? family->shared_key : "n_shared_experts", NULL},
        {family->topk_method, "topk_method", NULL},
        {family->has_latents, "qk_head_dim head_dim=@qk_rope_head_dim", "--kv-channels"},
    };
    _Static_assert(sizeof all <= MOST_FACTS * sizeof all[0], "room for all");
    memcpy(facts, all, sizeof all);
    return sizeof all / sizeof all[0];
}

bool hf_is_said(const struct hf_family *family, const char *flag) {
    struct fact facts[MOST_FACTS];
    size_t count = list_facts(family, facts);
    for (size_t i = 0; i < count; i++)
        if (facts[i].is_said && hf_has_word(facts[i].flags, flag))
            return true;
    return false;
}

static int check_member(const struct hf_family *family, const struct json *root, const char *object, size_t i,
                        const char *words) {
    const struct json *all = object ? hf_member_of(root, object) : root, *value = &all->items[i];
    const struct json_key *name = &all->keys[i];
    const char *key = name->string, *text = hf_text_of(value);
    const char *shown = text ? text : value->type == JSON_NULL ? "null" : "a list or an object";
    int found = strlen(key) != name->length ? 0 : is_key(family, object, key) ? 1 : -2;
    if (found == -2)
        found = find_word(root, words, key, shown);
    if (found == 1 || (found == 0 && value->type == JSON_NULL))
        return 0;
    if (found < 0)
        return error_set("its \"%s\" is %.64s, which is not supported for %s", key, shown, family->model_type);
    return error_set(
        "bevatron does not know the member \"%.64s\" of %s; if it does not change the model, remove it from "
        "config.json",
        key, family->model_type);
}

// Some programs write the default head_dim into models of families that lack the member.
static bool is_plain_head(const struct json_key *key, const struct json *value, const struct config *config) {
    double heads = (double)config->model.num_attention_heads;
    return strcmp(key->string, "head_dim") == 0 && value->type == JSON_NUMBER && heads > 0 &&
           value->number == floor((double)config->model.hidden_size / heads);
}

int hf_members_check(const struct hf_family *family, const struct json *root, const struct config *config) {
    OWNED_BY(buffer_free) struct buffer words = {0};
    const struct json *object = family->object ? hf_member_of(root, family->object) : NULL;
    int result = 0;
    struct fact facts[MOST_FACTS];
    size_t count = list_facts(family, facts);
    for (size_t i = 0; i < count; i++)
        if (facts[i].is_said && facts[i].words)
            buffer_printf(&words, "%s ", facts[i].words);
    for (size_t i = 0; i < root->count && result == 0; i++)
        if (family->has_latents || !is_plain_head(&root->keys[i], &root->items[i], config))
            result = check_member(family, root, NULL, i, buffer_string(&words));
    for (size_t i = 0; object && object->type == JSON_OBJECT && i < object->count && result == 0; i++)
        result = check_member(family, root, family->object, i, buffer_string(&words));
    return result;
}
