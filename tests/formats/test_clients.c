// What programs other than transformers require of a Hugging Face folder, checked on exports of every family: the rules
// of vLLM, MLX and llama.cpp's converter, which docs/internals/clients.md lists with their sources.
#include "base/json.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "store/safetensors.h"
#include "store/temporary.h"
#include "test.h"

struct client_rule {
    const char *model;         // of tests/golden/foreign
    const char *architecture;  // the name in vLLM's registry and llama.cpp's converter
    const char
        *members[18];      // of config.json, present and not null: fields of MLX's ModelArgs, the converter's hparams
    const char *names[3];  // some tensors under the names of MLX's modules
};

#define LLAMA_MEMBERS                                                                                                  \
    "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "num_key_value_heads",             \
        "vocab_size", "max_position_embeddings", "rope_theta", "tie_word_embeddings"
static const char *const llama_names[] = {"model.embed_tokens.weight", "model.layers.1.self_attn.q_proj.weight",
                                          "model.norm.weight"};

static const struct client_rule rules[] = {
    {"gpt2",
     "GPT2LMHeadModel",
     {"n_ctx", "n_embd", "n_head", "n_layer", "n_positions", "layer_norm_epsilon", "vocab_size"},
     {"transformer.wte.weight", "transformer.h.1.ln_1.weight", "transformer.h.0.attn.c_attn.weight"}},
    {"gpt_bigcode",
     "GPTBigCodeForCausalLM",
     {"n_embd", "n_head", "n_layer", "n_positions", "n_inner", "layer_norm_epsilon", "vocab_size", "multi_query"},
     {"transformer.wte.weight", "transformer.h.1.ln_1.weight", "transformer.h.0.attn.c_attn.weight"}},
    {"opt",
     "OPTForCausalLM",
     {"hidden_size", "num_hidden_layers", "ffn_dim", "num_attention_heads", "max_position_embeddings"},
     {"model.decoder.embed_tokens.weight", "model.decoder.layers.1.fc1.weight", NULL}},
    {"llama", "LlamaForCausalLM", {LLAMA_MEMBERS, "rms_norm_eps", "head_dim"}, {NULL}},
    {"llama_tied", "LlamaForCausalLM", {LLAMA_MEMBERS, "rms_norm_eps"}, {NULL}},
    {"mistral", "MistralForCausalLM", {LLAMA_MEMBERS, "rms_norm_eps"}, {NULL}},
    {"qwen2", "Qwen2ForCausalLM", {LLAMA_MEMBERS, "rms_norm_eps"}, {NULL}},
    {"qwen3", "Qwen3ForCausalLM", {LLAMA_MEMBERS, "rms_norm_eps", "head_dim"}, {NULL}},
    {"phi3",
     "Phi3ForCausalLM",
     {LLAMA_MEMBERS, "rms_norm_eps", "original_max_position_embeddings"},
     {"model.layers.0.self_attn.qkv_proj.weight", "model.layers.0.mlp.gate_up_proj.weight", NULL}},
    {"starcoder2", "Starcoder2ForCausalLM", {LLAMA_MEMBERS, "norm_epsilon"}, {NULL}},
    {"stablelm",
     "StableLmForCausalLM",
     {LLAMA_MEMBERS, "layer_norm_eps", "use_qkv_bias", "partial_rotary_factor"},
     {NULL}},
    {"nemotron", "NemotronForCausalLM", {LLAMA_MEMBERS, "norm_eps", "partial_rotary_factor", "hidden_act"}, {NULL}},
    {"gpt_neox",
     "GPTNeoXForCausalLM",
     {"hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "max_position_embeddings",
      "layer_norm_eps", "vocab_size", "rotary_pct", "rotary_emb_base", "use_parallel_residual", "hidden_act"},
     {"gpt_neox.embed_in.weight", "embed_out.weight", "gpt_neox.layers.1.attention.query_key_value.weight"}},
    {"mixtral",
     "MixtralForCausalLM",
     {LLAMA_MEMBERS, "rms_norm_eps", "num_local_experts", "num_experts_per_tok"},
     {"model.layers.0.block_sparse_moe.gate.weight", "model.layers.1.block_sparse_moe.experts.3.w2.weight", NULL}},
    {"qwen3_moe",
     "Qwen3MoeForCausalLM",
     {LLAMA_MEMBERS, "rms_norm_eps", "head_dim", "num_experts", "num_experts_per_tok", "decoder_sparse_step",
      "mlp_only_layers", "moe_intermediate_size"},
     {"model.layers.0.mlp.gate.weight", "model.layers.2.mlp.experts.3.down_proj.weight",
      "model.layers.1.mlp.up_proj.weight"}},
    {"bert_mlm",
     "BertForMaskedLM",
     {"hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "max_position_embeddings",
      "layer_norm_eps", "type_vocab_size", "vocab_size"},
     {"bert.embeddings.word_embeddings.weight", NULL, NULL}},
    {"t5",
     "T5ForConditionalGeneration",
     {"d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads", "relative_attention_num_buckets",
      "layer_norm_epsilon", "decoder_start_token_id", "n_positions"},
     {"shared.weight", NULL, NULL}},
};

struct export {
    struct temporary folder;
    char path[128];
    struct json *config;
};

static struct json *read_json(const char *folder, const char *name) {
    char *path = file_join(folder, name);
    struct json *root = NULL;
    if (json_parse_file(&root, path, 1 << 20) < 0)
        test_fail("%s: %s", path, error_message());
    free(path);
    return root;
}

static struct export export_model(const char *model, uint64_t shard_bytes) {
    struct export export = {.folder = temporary_create_fast()};
    snprintf(export.path, sizeof export.path, "%s/export", export.folder.path);
    char *path = memory_printf("tests/golden/foreign/%s", model);
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = path, .step = -1}));
    // As if it were ours: of the source's configuration, only its family is kept.
    struct json *foreign = source.foreign_config;
    source.foreign_config = NULL;
    struct model_write write = {.source = &source, .folder = export.path, .shard_bytes = shard_bytes};
    EXPECT_OK(json_get_string(foreign, "model_type", &write.family));
    EXPECT_OK(model_write_huggingface(&write));
    json_free(foreign);
    model_source_close(&source);
    free(path);
    export.config = read_json(export.path, "config.json");
    return export;
}

static void forget(struct export *export) {
    json_free(export->config);
    temporary_remove(&export->folder);
}

static void expect_text(const struct json *object, const char *key, const char *wanted, const char *model) {
    const struct json *value = json_member(object, key);
    if (!value || value->type != JSON_STRING || strcmp(value->string, wanted) != 0)
        test_fail("%s: %s is not \"%s\"", model, key, wanted);
}

static void expect_config(const struct json *config, const struct client_rule *rule) {
    const struct json *architectures = json_member(config, "architectures");
    EXPECT(architectures && architectures->type == JSON_ARRAY && architectures->count == 1);
    EXPECT_STRING(architectures->items[0].string, rule->architecture);
    EXPECT(json_member(config, "model_type") != NULL);
    for (size_t i = 0; i < sizeof rule->members / sizeof rule->members[0] && rule->members[i]; i++) {
        const struct json *member = json_member(config, rule->members[i]);
        if (!member || member->type == JSON_NULL)
            test_fail("%s: config.json has no %s", rule->model, rule->members[i]);
    }
    // MLX and older transformers read the rotary settings at the top level.
    EXPECT(!json_member(config, "rope_parameters"));
}

// The element type is named, so that vLLM and transformers load the type of the files.
static void expect_dtype(const struct json *config, const struct safetensors *file, const char *model) {
    static const char *const names[] = {[DTYPE_F32] = "float32", [DTYPE_BF16] = "bfloat16", [DTYPE_F16] = "float16"};
    const struct safetensors_tensor *largest = &file->tensors[0];
    for (size_t i = 0; i < file->count; i++)
        largest = file->tensors[i].bytes > largest->bytes ? &file->tensors[i] : largest;
    const struct json *dtype = json_member(config, "dtype") ? json_member(config, "dtype") : NULL;
    expect_text(config, dtype ? "dtype" : "torch_dtype", names[largest->dtype], model);
}

TEST(whole) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct client_rule *rule = &rules[i];
        struct export export = export_model(rule->model, UINT64_MAX);
        expect_config(export.config, rule);
        char *path = file_join(export.path, "model.safetensors");
        struct safetensors file;
        EXPECT_OK(safetensors_open(&file, path));
        expect_dtype(export.config, &file, rule->model);
        EXPECT_STRING(safetensors_metadata(&file, "format"), "pt");
        bool is_llama = !rule->names[0];
        for (size_t k = 0; k < 3; k++) {
            const char *name = is_llama ? llama_names[k] : rule->names[k];
            if (name && !safetensors_find(&file, name) && !(strcmp(rule->model, "nemotron") == 0))
                test_fail("%s: there is no tensor %s", rule->model, name);
        }
        // A tied output is not in the file: MLX drops it, vLLM would have to compare it.
        const struct json *tie = json_member(export.config, "tie_word_embeddings");
        EXPECT(tie && (tie->type == JSON_TRUE || tie->type == JSON_FALSE));
        EXPECT(tie->type == JSON_FALSE || !safetensors_find(&file, "lm_head.weight"));
        safetensors_close(&file);
        free(path);
        forget(&export);
    }
}

// In several files: names that both programs search for (model*.safetensors), each in the index, each tensor once.
TEST(parts) {
    struct export export = export_model("llama", 2000);
    struct json *index = read_json(export.path, "model.safetensors.index.json");
    const struct json *map = json_member(index, "weight_map"), *metadata = json_member(index, "metadata");
    int64_t total = 0, found = 0, count = 0, files = 0;
    EXPECT_OK(json_get_int(metadata, "total_size", &total));
    DIR *folder = opendir(export.path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!strstr(entry->d_name, ".safetensors") || strstr(entry->d_name, ".json"))
            continue;
        EXPECT(strncmp(entry->d_name, "model-", 6) == 0);
        char *path = file_join(export.path, entry->d_name);
        struct safetensors file;
        EXPECT_OK(safetensors_open(&file, path));
        for (size_t i = 0; i < file.count; i++) {
            const struct json *place = json_member(map, file.tensors[i].name);
            EXPECT(place && strcmp(place->string, entry->d_name) == 0);
            found += (int64_t)file.tensors[i].bytes;
            count++;
        }
        safetensors_close(&file);
        free(path);
        files++;
    }
    closedir(folder);
    EXPECT(files > 2);
    EXPECT_INT(found, total);
    EXPECT_INT(count, map->count);
    json_free(index);
    forget(&export);
}

TEST_MAIN(TEST_CASE(whole), TEST_CASE(parts))
