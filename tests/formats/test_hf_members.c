// Members of config.json that transformers reads, or that two of its releases read from different places: none of them
// is passed over, and none changes a model in silence. Each row was compared with transformers 5.23 by
// tests/peers/hf_config_peers.py.
#include "base/json.h"
#include "formats/families.h"
#include "formats/hf_config.h"

// The first row's model has rope_parameters {"rope_theta": 10000.0, "rope_type": "default"} and nothing beside them.
#define LLAMA "\"use_cache\": true"
#define ROPE "\"rope_parameters\": {\n    \"rope_theta\": 10000.0,\n    \"rope_type\": \"default\"\n  }"

TEST(refused_rope) {
    static const struct variant rows[] = {
        {"llama_fused", ROPE, "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 3.0, \"rope_theta\": 777.0}",
         "its \"rope_theta\" is 777 in one place and 10000 in another"},
        {"llama_fused", ROPE,
         "\"rope_theta\": 5000, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 3.0, \"rope_theta\": 777.0}",
         "its \"rope_theta\" is 777 in one place and 5000 in another"},
        {"llama_fused", ROPE, "\"rope_theta\": 5000, \"rope_parameters\": {\"rope_theta\": 777.0}",
         "its \"rope_theta\" is 777 in one place and 5000 in another"},
        {"llama_fused", ROPE,
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 3.0, \"partial_rotary_factor\": 0.5}",
         "its \"partial_rotary_factor\" is 0.5 in one place and 1 in another"},
        {"stablelm", "\"use_cache\"",
         "\"rope_scaling\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}, \"use_cache\"",
         "its \"partial_rotary_factor\" is 0.5 in one place and 0.25 in another"},
        {"llama_fused", ROPE,
         "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0}, "
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 3.0}",
         "its \"rope_scaling\" and \"rope_parameters\" say different values of \"factor\""},
        {"llama_fused", ROPE,
         "\"rope_parameters\": {\"rope_type\": \"default\"}, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": "
         "3.0}",
         "its \"rope_scaling\" and \"rope_parameters\" say different values of \"rope_type\""},
        {"llama_fused", ROPE, "\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"dynamic\", \"factor\": 3.0}",
         "has the \"rope_type\" \"dynamic\" and the \"type\" \"linear\""},
        {"llama_fused", ROPE, "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 3.0, \"fraction\": 2}",
         "its \"rope_scaling\" has a \"fraction\", which is not supported"},
        {"llama_fused", ROPE, "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 3.0, \"attention_factor\": 0.0}",
         "\"attention_factor\" of its rotary scaling is not a number above 0"},
        {"llama_fused", ROPE, "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 0}",
         "\"factor\" or \"attention_factor\" of its rotary scaling is not a number above 0"},
        {"llama_fused", ROPE, "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 3.0, \"beta_fast\": \"16\"}",
         "\"beta_fast\" of its rotary scaling is not a number"},
        {"llama_fused", ROPE,
         "\"original_max_position_embeddings\": 32, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 3.0}",
         "its \"original_max_position_embeddings\" is 64 in one place and 32 in another"},
        {"deepseek_v3", "\"use_cache\": true", "\"rope_scaling\": {\"type\": \"default\", \"rope_theta\": 777.0}",
         "its \"rope_theta\" is 777 in one place and 10000 in another"},
        {"qwen3", "\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"",
         "\"longrope\" is not supported for qwen3, only default linear dynamic llama3 yarn"},
        {"mellum", "\"use_cache\": true", "\"rope_theta\": 777.0, \"use_cache\": true",
         "it has a \"rope_theta\", which transformers does not read in this family"},
        {"cohere", "\"rope_theta\": 500.0,", "", "it has no \"rope_theta\", for which releases of transformers have"},
        {"gemma3_text", "\"rope_parameters\": {",
         "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 3.0}, \"prefix\": {",
         "its \"rope_scaling\" has a \"type\" and no \"rope_type\""},
        {"olmo3", "\"use_cache\": true", "\"rope_theta\": 777.0, \"use_cache\": true",
         "its \"rope_theta\" is 512 in one place and 777 in another"},
    };
    expect_all_refused(rows, sizeof rows / sizeof rows[0]);
}

TEST(refused_members) {
    static const struct variant rows[] = {
        {"llama_fused", LLAMA, "\"is_causal\": false", "its \"is_causal\" is false, which is not supported for llama"},
        {"llama_fused", LLAMA, "\"is_causal\": null", "its \"is_causal\" is null"},
        {"llama_fused", LLAMA, "\"is_encoder_decoder\": true", "its \"is_encoder_decoder\" is true"},
        {"llama_fused", LLAMA, "\"alibi\": true", "does not know the member \"alibi\" of llama"},
        {"llama_fused", LLAMA, "\"use_sliding_window\": true", "its \"use_sliding_window\" is true"},
        {"gpt2", LLAMA, "\"num_hidden_layers\": 1", "does not know the member \"num_hidden_layers\""},
        {"gpt_neox", LLAMA, "\"head_dim\": 6", "does not know the member \"head_dim\""},
        {"cohere2", LLAMA, "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\" is not 1"},
        {"deepseek_v3", "\"head_dim\": 4", "\"head_dim\": 3", "its \"head_dim\" is 3, which is not supported"},
        {"deepseek_v3", "\"head_dim\": 4", "\"head_dim\": 8", "its \"head_dim\" is 8, which is not supported"},
        {"gemma2", "\"final_logit_softcapping\": ", "\"final_logit_softcapping\": 0.0, \"prefix\": ",
         "its \"final_logit_softcapping\" is 0, which is not null to transformers"},
        {"gemma2", "\"attn_logit_softcapping\": ", "\"attn_logit_softcapping\": 0, \"prefix\": ",
         "its \"attn_logit_softcapping\" is 0, which is not null to transformers"},
        {"gemma3_text", "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 0",
         "its \"final_logit_softcapping\" is 0, which is not null to transformers"},
        {"granite", "\"embedding_multiplier\": ", "\"embedding_multiplier\": 0.0, \"prefix\": ",
         "its \"embedding_multiplier\" is 0"},
        {"mixtral", "\"sliding_window\": ", "\"sliding_window\": 0, \"prefix\": ", "its \"sliding_window\" is 0"},
        {"mistral", "\"sliding_window\": 4", "\"sliding_window\": 0", "its \"sliding_window\" is 0"},
        {"bloom", "\"slow_but_exact\": false", "\"slow_but_exact\": true",
         "\"slow_but_exact\": \"true\" is not supported"},
        {"deepseek_v3", "\"norm_topk_prob\": true", "\"norm_topk_prob\": null",
         "\"norm_topk_prob\": \"false\" is not supported"},
        {"t5", "\"dense_act_fn\": \"relu\"", "\"dense_act_fn\": \"gelu\"", "its \"dense_act_fn\" is not \"relu\""},
        {"t5_v1_1", "\"scale_decoder_outputs\": false", "\"scale_decoder_outputs\": true",
         "its output is scaled (\"scale_decoder_outputs\""},
        {"t5", "\"is_gated_act\": false", "\"is_gated_act\": true", "its \"is_gated_act\" is not what"},
        {"gpt2", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": null",
         "tensors are missing: lm_head.weight"},
        {"gpt2_untied", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true",
         "\"tie_word_embeddings\" is true, but it has an output matrix of its own (lm_head.weight)"},
        {"gpt2_untied", "\"tie_word_embeddings\": false,", "",
         "\"tie_word_embeddings\" is true by default, but it has an output matrix"},
        {"mpt", "\"alibi\": true", "\"alibi\": true, \"rope\": true", "its \"rope\" is true"},
        {"llama_fused", LLAMA, "\"activation\": \"gelu\"", "its \"activation\" is gelu, which is not supported"},
        {"starcoder2", LLAMA, "\"layer_norm_epsilon\": 0.5", "its \"layer_norm_epsilon\" is 0.5"},
        {"gpt_neox", LLAMA, "\"rotary_emb_base\": 10000, \"rope_theta\": 777", "\"rope_theta\" is 777"},
        {"granitemoe", LLAMA, "\"position_embedding_type\": \"nope\"", "its \"position_embedding_type\" is nope"},
        {"qwen3_moe", LLAMA, "\"qkv_bias\": true", "its \"qkv_bias\" is true"},
        {"llama_fused", LLAMA, "\"use_cache\": true, \"head_dim\": 8", "it has \"head_dim\" twice"},
        {"llama_fused", "\"rope_type\"", "\"rope_theta\": 5.0, \"rope_type\"", "it has \"rope_theta\" twice"},
    };
    expect_all_refused(rows, sizeof rows / sizeof rows[0]);
}

static void expect_read(const char *model, const char *from, const char *to, void (*check)(const struct config *)) {
    struct spoiled spoiled = copy_model(model);
    struct model_source source;
    replace(&spoiled, "config.json", from, to);
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = spoiled.path, .step = -1}));
    if (check)
        check(&source.config);
    model_source_close(&source);
    temporary_remove(&spoiled.folder);
}

static void expect_halves(const struct config *config) {
    EXPECT(config->model.latent_rotary_halves);
}

static void expect_whole_range(const struct config *config) {
    EXPECT(config->model.no_yarn_correction_range_round_to_int);
}

static void expect_base(const struct config *config) {
    EXPECT(config->model.rotary_base == 10000 && config->model.rotary_seq_len_interpolation_factor == 3);
}

// Null, absent and 0 as transformers reads them, and members that change nothing.
TEST(read_members) {
    expect_read("deepseek_v3", "\"rope_interleave\": true", "\"rope_interleave\": null", expect_halves);
    expect_read("llama_fused", ROPE, "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 3.0, \"truncate\": null}",
                expect_whole_range);
    expect_read("llama_fused", ROPE, "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 3.0, \"truncate\": 0}",
                expect_whole_range);
    expect_read(
        "llama_fused", ROPE,
        "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 3.0}, \"rope_parameters\": {\"type\": \"linear\", "
        "\"factor\": 3, \"rope_theta\": 10000}",
        expect_base);
    expect_read("llama_fused", ROPE, "\"rope_scaling\": {}, \"rope_parameters\": {\"type\": \"linear\", \"factor\": 3}",
                expect_base);
    expect_read("llama_fused", LLAMA, "\"top_k\": 50, \"unheard_of\": null", NULL);
    expect_read("gpt_neox", LLAMA, "\"num_beams\": 4", NULL);
}

// Members as config.json of released models has them, and unions of those that several releases of transformers and
// makers' own programs write. They were written down for this test and are no copies: sizes may differ from the
// models', and lists are as short as the layers or channels that they are of.
TEST(released_models) {
    struct json *all;
    EXPECT_OK(json_parse_file(&all, "tests/golden/released.json", 1 << 20));
    for (size_t i = 0; i < all->count; i++) {
        const struct json *root = &all->items[i];
        const struct hf_family *family = hf_family_find(json_member(root, "model_type")->string, root);
        EXPECT(family != NULL);
        // Without tensors all but mT5's outputs are tied, which must have a matrix.
        struct weight head = {.name = memory_string(family->head)};
        struct weights weights = {.items = &head, .count = family->tie == HF_TIED_NEVER};
        struct config config;
        config_defaults(&config);
        int result = hf_config_read(family, root, &weights, &config);
        if (result < 0)
            fprintf(stderr, "%s: %s\n", all->keys[i].string, error_message());
        EXPECT(result == 0);
        EXPECT(config.model.num_layers > 0);
        config_free(&config);
        free(head.name);
    }
    json_free(all);
}

TEST(two_sets_of_weights) {
    struct spoiled spoiled = copy_model("llama_fused");
    char *path = file_join(spoiled.path, "model.safetensors.index.json");
    static const char index[] = "{\"weight_map\": {\"model.norm.weight\": \"model-00001-of-00001.safetensors\"}}";
    write_whole(path, index, strlen(index));
    EXPECT_ERROR(open_model(spoiled.path), "an index of several files and a single file of the same name");
    temporary_remove(&spoiled.folder);
    free(path);
}

TEST(adapter) {
    struct spoiled spoiled = copy_model("llama_fused");
    char *path = file_join(spoiled.path, "adapter_config.json");
    write_whole(path, "{}", 2);
    EXPECT_ERROR(open_model(spoiled.path), "has an adapter (adapter_config.json), which is not supported: merge it");
    temporary_remove(&spoiled.folder);
    free(path);
}

// Copies of the output layer beside layers that predict further tokens are written back from the main one.
TEST(other_copies) {
    struct spoiled spoiled = copy_model("glm4_moe");
    replace(&spoiled, "config.json", "\"num_nextn_predict_layers\": 0", "\"num_nextn_predict_layers\": 1");
    rewrite(&spoiled, &(struct change){.tensor = "model.layers.0.self_attn.q_proj.weight",
                                       .renamed = "model.layers.2.eh_proj.weight"});
    EXPECT_ERROR(open_model(spoiled.path), "tensors are missing");
    rewrite(&spoiled, &(struct change){.tensor = "model.layers.0.self_attn.k_proj.weight",
                                       .renamed = "model.layers.2.shared_head.head.weight"});
    EXPECT_ERROR(open_model(spoiled.path), "model.layers.2.shared_head.head.weight differs from lm_head.weight");
    temporary_remove(&spoiled.folder);
}

TEST(repeated_keys) {
    static const struct {
        const char *text, *key;
    } rows[] = {{"{\"a\": 1, \"b\": {\"a\": 1}}", NULL},
                {"{\"a\": 1, \"b\": 2, \"a\": 3}", "a"},
                {"[{\"x\": [{\"c\": 1, \"c\": 1}]}]", "c"},
                {"{}", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json *root;
        EXPECT_OK(json_parse(&root, rows[i].text, strlen(rows[i].text), "test"));
        const char *key = json_repeated(root);
        EXPECT((key == NULL) == (rows[i].key == NULL) && (!key || strcmp(key, rows[i].key) == 0));
        json_free(root);
    }
}

TEST_MAIN(TEST_CASE(refused_rope), TEST_CASE(refused_members), TEST_CASE(read_members), TEST_CASE(released_models),
          TEST_CASE(two_sets_of_weights), TEST_CASE(adapter), TEST_CASE(other_copies), TEST_CASE(repeated_keys))
