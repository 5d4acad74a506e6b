// Families of Hugging Face: variants that would compute something else are refused by name, and a model can be written
// as every family that can express it, but not as any other.
#include "formats/families.h"
#include "formats/hf_family.h"
#include "formats/weights.h"

// The page for users names every family.
TEST(documented) {
    struct buffer page = {0};
    const struct hf_family *family;
    EXPECT_OK(file_read_own("docs/checkpoints.md", 1 << 20, &page));
    for (size_t i = 0; (family = hf_family_at(i)); i++) {
        char *name = memory_printf("`%s`", family->model_type);
        EXPECT(strstr(buffer_string(&page), name) != NULL);
        free(name);
    }
    buffer_free(&page);
}

TEST(refused_longrope) {
    static const struct variant rows[] = {
        {"phi3", "\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"",
         "rotary scaling \"longrope\" has no list \"short_factor\""},
        {"phi3", "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"",
         "rotary scaling \"yarn\" is not supported for phi3, only default longrope"},
        {"llama_fused", "\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"",
         "\"longrope\" is not supported for llama"},
        {"phi3_long", "1.05,", "\"1.05\",",
         "\"short_factor\" of its rotary scaling has something else than numbers above 0"},
        {"phi3_long", "1.05,", "-1.05,",
         "\"short_factor\" of its rotary scaling has something else than numbers above 0"},
        {"phi3_long", "1.05,", "1.05, 1.06,", "has 7 numbers; it needs 6"},
        {"phi3_long", "\"short_factor\"", "\"short_mscale\": 1.1, \"short_factor\"", "has a \"short_mscale\""},
        {"phi3_long", "\"short_factor\"", "\"factor\": \"4\", \"short_factor\"",
         "\"factor\" of its rotary scaling is not a number"},
        {"phi3_long", "\"original_max_position_embeddings\": 5,\n  \"",
         "\"original_max_position_embeddings\": 1,\n  \"", "\"original_max_position_embeddings\" is below 2"},
    };
    expect_all_refused(rows, sizeof rows / sizeof rows[0]);
}

TEST(refused_variants) {
    static const struct variant rows[] = {
        {"phi3", "\"silu\"", "\"gelu\"", "\"hidden_act\": \"gelu\" is not supported, only silu"},
        {"phi3", "\"sliding_window\"", "\"attention_bias\": true, \"sliding_window\"",
         "\"attention_bias\": \"true\" is not supported"},
        {"phi3", "\"sliding_window\"", "\"quantization_config\": {\"quant_method\": \"awq\"}, \"sliding_window\"",
         "it has a \"quantization_config\" (awq); quantized weights are not supported"},
        {"phi3", "\"sliding_window\"", "\"quantization_config\": 7, \"sliding_window\"", "(no method)"},
        {"starcoder2", "gelu_pytorch_tanh", "mish", "\"hidden_act\": \"mish\" is not supported, only gelu_pytorch"},
        {"starcoder2", "\"use_bias\": true", "\"use_bias\": false", "model.layers.0.self_attn.q_proj.bias"},
        {"starcoder2", "\"use_bias\"", "\"norm_type\": \"rms_norm\", \"use_bias\"", "\"norm_type\": \"rms_norm\""},
        {"starcoder2", "\"use_bias\"", "\"partial_rotary_factor\": 0.5, \"use_bias\"",
         "\"partial_rotary_factor\" is not 1"},
        {"stablelm", "\"use_parallel_residual\": false", "\"use_parallel_residual\": true",
         "tensors that this model does not have: model.layers.0.post_attention_layernorm"},
        {"stablelm", "\"qk_layernorm\": false", "\"qk_layernorm\": true",
         "tensors are missing: model.layers.0.self_attn.q_layernorm.norms.0.weight"},
        {"stablelm", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0.3", "rotation needs pairs"},
        {"stablelm", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": \"all\"",
         "\"partial_rotary_factor\" of its rotary scaling is not a number"},
        {"stablelm", "\"use_qkv_bias\": true", "\"use_qkv_bias\": false", "model.layers.0.self_attn.q_proj.bias"},
        {"nemotron", "\"rope_type\": \"default\"", "\"rope_type\": \"linear\", \"factor\": 2",
         "rotary scaling \"linear\" is not supported for nemotron, only default"},
        {"nemotron", "\"mlp_bias\": false", "\"mlp_bias\": true",
         "tensors are missing: model.layers.0.mlp.up_proj.bias"},
        {"gpt_neox", "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"",
         "rotary scaling \"yarn\" is not supported for gpt_neox, only default linear"},
        {"gpt_neox", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"mish\"",
         "\"hidden_act\": \"mish\" is not supported"},
        {"gpt_neox", "\"attention_bias\": true", "\"attention_bias\": false", "attention.query_key_value.bias"},
        {"phi", "\"qk_layernorm\": false", "\"qk_layernorm\": true", "\"qk_layernorm\": \"true\" is not supported"},
        {"gptj", "\"rotary_dim\": 6", "\"rotary_dim\": null", "\"rotary_dim\" is not a number of channels from 2 to 8"},
        {"gptj", "\"rotary_dim\": 6", "\"rotary_dim\": 16", "\"rotary_dim\" is not a number of channels from 2 to 8"},
        {"falcon", "\"new_decoder_architecture\": false", "\"new_decoder_architecture\": true",
         "tensors are missing: transformer.h.0.ln_attn.weight"},
        {"falcon_groups", "\"num_kv_heads\": 2", "\"num_kv_heads\": \"2\"", "its \"num_kv_heads\" is not a number"},
        {"falcon_groups", "\"num_ln_in_parallel_attn\": 2", "\"num_ln_in_parallel_attn\": 3",
         "\"num_ln_in_parallel_attn\": \"3\" is not supported, only 2"},
        {"falcon_one_norm", "\"num_ln_in_parallel_attn\": 1", "\"num_ln_in_parallel_attn\": null",
         "transformer.h.0.ln_attn.weight"},
        {"falcon_groups", "\"parallel_attn\": true", "\"parallel_attn\": false",
         "\"false\" is not supported, only true"},
        {"falcon_rw", "\"parallel_attn\": false", "\"parallel_attn\": true",
         "tensors that this model does not have: transformer.h.0.post_attention_layernorm"},
        {"granite", "\"mlp_bias\": false", "\"mlp_bias\": true", "\"mlp_bias\": \"true\" is not supported"},
        {"granite", "\"residual_multiplier\": 0.22", "\"residual_multiplier\": 0", "--residual-multiplier"},
        {"smollm3", "\"use_sliding_window\": false", "\"use_sliding_window\": true",
         "\"use_sliding_window\": \"true\""},
        {"smollm3", "    1,\n    0,\n    1", "0, 0, 1", "\"no_rope_layers\" are not every N-th layer"},
        {"smollm3", "    1,\n    0,\n    1", "1, 0", "has no number for each of the 3 layers"},
        {"smollm3", "\"no_rope_layer_interval\": 2", "\"no_rope_layer_interval\": \"all\"",
         "\"no_rope_layer_interval\" is not a number"},
        {"smollm3", "\"full_attention\",\n    \"full_attention\"", "\"full_attention\", \"sliding_attention\"",
         "its \"layer_types\" has \"sliding_attention\" for layer 1"},
        {"gemma", "gelu_pytorch_tanh", "relu", "\"hidden_act\": \"relu\" is not supported"},
        {"gemma2", "\"query_pre_attn_scalar\": 9", "\"query_pre_attn_scalar\": 0",
         "\"query_pre_attn_scalar\" is not a number above 0"},
        {"gemma2", "\"sliding_window\": 4", "\"sliding_window\": null", "but no \"sliding_window\""},
        {"cohere", "\"use_qk_norm\": false", "\"use_qk_norm\": true",
         "tensors are missing: model.layers.0.self_attn.q_norm.weight"},
        {"cohere", "\"logit_scale\": 0.8333333333333334", "\"logit_scale\": 0", "is not a number above 0"},
        {"cohere2", "\"sliding_attention\",\n    \"full_attention\",", "\"full_attention\", \"sliding_attention\",",
         "are not every N-th layer"},
        {"qwen2_windows", "\"sliding_window\": 4", "\"sliding_window\": null",
         "\"use_sliding_window\" is true, but its \"sliding_window\" is not a number"},
        {"qwen2_windows", "\"use_sliding_window\": true", "\"use_sliding_window\": false",
         "its \"layer_types\" has \"sliding_attention\" for layer 1"},
        {"gemma2", "\"full_attention\"", "\"chunked_attention\"", "has \"chunked_attention\" for layer 1"},
        {"gemma2", "\"full_attention\"", "\"full_attention\", \"full_attention\"", "is not a list of 2 layers"},
        {"gemma3_text", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 50.0",
         "\"attn_logit_softcapping\": \"50.0\" is not supported, only null"},
        {"gemma3_text", "\"rope_type\": \"default\"", "\"rope_type\": \"linear\", \"factor\": 2.0",
         "its layers with a window have rotary scaling"},
        {"gpt_bigcode", "\"multi_query\": true", "\"multi_query\": false", "another shape than the configuration says"},
        {"gpt_bigcode", "\"scale_attn_weights\": true", "\"scale_attn_weights\": false",
         "\"scale_attn_weights\": \"false\" is not supported"},
        {"gpt_bigcode", "\"add_cross_attention\": false", "\"add_cross_attention\": true", "\"add_cross_attention\""},
        {"xlm_roberta", "\"pad_token_id\": 1", "\"pad_token_id\": 0",
         "\"pad_token_id\": \"0\" is not supported, only 1"},
        {"distilbert", "\"gelu\"", "\"mish\"", "\"activation\": \"mish\" is not supported, only gelu"},
        {"distilbert", "\"hidden_dim\": 20", "\"hidden_dim\": 24", "another shape than the configuration says"},
        {"camembert", "\"is_decoder\": false", "\"is_decoder\": true", "\"is_decoder\": \"true\" is not supported"},
        {"mt5", "gated-gelu", "gated-mish", "\"feed_forward_proj\": \"gated-mish\" is not supported"},
    };
    expect_all_refused(rows, sizeof rows / sizeof rows[0]);
    struct spoiled spoiled = copy_model("umt5_untied");
    EXPECT_OK(open_model(spoiled.path));
    replace(&spoiled, "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    EXPECT_ERROR(open_model(spoiled.path),
                 "its \"tie_word_embeddings\" is true, but it has an output matrix of its own");
    temporary_remove(&spoiled.folder);
    spoiled = copy_model("mt5");
    rewrite(&spoiled, &(struct change){.tensor = "lm_head.weight"});
    EXPECT_ERROR(open_model(spoiled.path), "its output layer is tied (no lm_head.weight, whatever ");
    temporary_remove(&spoiled.folder);
}

TEST(refused_likes) {
    static const struct variant rows[] = {
        {"seed_oss", "\"attention_bias\": true", "\"attention_bias\": false", "model.layers.0.self_attn.q_proj.bias"},
        {"seed_oss_plain", "\"attention_out_bias\": false", "\"attention_out_bias\": true",
         "\"attention_out_bias\": \"true\" is not supported, only false"},
        {"seed_oss", "\"attention_out_bias\": false", "\"attention_out_bias\": true",
         "tensors are missing: model.layers.0.self_attn.o_proj.bias"},
        {"iquestcoder", "\"mlp_bias\"", "\"clip_qkv\": 8.0, \"mlp_bias\"", "\"clip_qkv\": \"8.0\" is not supported"},
        {"iquestcoder", "\"mlp_bias\"", "\"use_sliding_window\": true, \"mlp_bias\"",
         "\"use_sliding_window\": \"true\" is not supported, only false"},
        {"arcee", "\"relu2\"", "\"mish\"", "\"hidden_act\": \"mish\" is not supported, only relu2"},
        {"ernie4_5", "\"use_bias\": true", "\"use_bias\": false", "model.layers.0.self_attn.q_proj.bias"},
        {"helium", "\"head_dim\": 8", "\"head_dim\": 6", "another shape than the configuration says"},
        {"ministral", "\"sliding_window\": 4", "\"sliding_window\": null", "but no \"sliding_window\""},
        {"ministral", "\"full_attention\"", "\"chunked_attention\"", "has \"chunked_attention\" for layer 0"},
        {"jais2", "\"mlp_bias\": true", "\"mlp_bias\": false", "model.layers.0.mlp.down_proj.bias"},
        {"exaone4", "\"sliding_attention\",\n    \"full_attention\",", "\"full_attention\", \"sliding_attention\",",
         "are not every N-th layer"},
        {"exaone4_whole", "\"full_attention\"", "\"sliding_attention\"", "but no \"sliding_window\""},
        {"hunyuan_v1_dense", "\"alpha\": 50.0", "\"alpha\": -1.0", "has an \"alpha\" that gives no base"},
        {"hunyuan_v1_dense", "\"attention_bias\"", "\"use_qk_norm\": false, \"attention_bias\"",
         "\"use_qk_norm\": \"false\" is not supported, only true"},
        {"hunyuan_v1_dense", "\"attention_bias\"", "\"use_cla\": true, \"attention_bias\"", "\"use_cla\": \"true\""},
        {"vaultgemma", "\"attention_bias\": false", "\"attention_bias\": true",
         "\"attention_bias\": \"true\" is not supported"},
    };
    expect_all_refused(rows, sizeof rows / sizeof rows[0]);
}

// A model_type without a table: the message names the layers that are missing, if it is a known one.
TEST(unknown_families) {
    static const struct {
        const char *model_type, *message;
    } rows[] = {
        {"gemma3", "\"gemma3\" is not supported: it has a tower for images beside its text model"},
        {"granitemoehybrid", "\"granitemoehybrid\" is not supported: it has state space layers"},
        {"cohere2_moe", "\"cohere2_moe\" is not supported: it has experts beside attention"},
        {"axk1", "\"axk1\" is not supported: it has norms behind experts"},
        {"qwen3_next", "\"qwen3_next\" is not supported: it has linear attention"},
        {"falcon_h1", "\"falcon_h1\" is not supported: it has state space layers"},
        {"glm4v", "\"glm4v\" is not supported: it has a tower for images beside its text model"},
        {"llama4_text", "\"llama4_text\" is not supported: it has layers with attention in chunks"},
        {"deepseek_v32", "\"deepseek_v32\" is not supported: it has attention to the tokens that an indexer chooses"},
        {"phimoe", "\"phimoe\" is not supported: it has routers that drop close scores"},
        {"codegen", "\"codegen\" is not supported: it has queries, keys and values packed for four devices"},
        {"olmo", "\"olmo\" is not supported: it has norms without weights"},
        {"nanochat", "\"nanochat\" is not supported: it has norms without weights, and one behind the embedding"},
        {"ministral3", "\"ministral3\" is not supported: it has scores that are scaled by position"},
        {"apertus", "\"apertus\" is not supported: it has activations with numbers that are learned"},
        {"tomorrow", "the model_type \"tomorrow\" is not supported; supported: gpt2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spoiled spoiled = copy_model("gpt_neox");
        char *member = memory_printf("\"model_type\": \"%s\"", rows[i].model_type);
        replace(&spoiled, "config.json", "\"model_type\": \"gpt_neox\"", member);
        EXPECT_ERROR(open_model(spoiled.path), rows[i].message);
        free(member);
        temporary_remove(&spoiled.folder);
    }
}

TEST(dropouts) {
    static const struct {
        const char *model, *from, *to;
    } rows[] = {{"phi3", "\"resid_pdrop\": 0.0", "\"resid_pdrop\": 0.25"},
                {"starcoder2", "\"residual_dropout\": 0.0", "\"residual_dropout\": 0.25"},
                {"stablelm", "\"hidden_dropout\": 0.0", "\"hidden_dropout\": 0.25"},
                {"gpt_neox", "\"hidden_dropout\": 0.0", "\"hidden_dropout\": 0.25"},
                {"seed_oss", "\"residual_dropout\": 0.1", "\"residual_dropout\": 0.25"},
                {"mpt", "\"resid_pdrop\": 0.0", "\"resid_pdrop\": 0.25"},
                {"gpt_bigcode", "\"resid_pdrop\": 0.1", "\"resid_pdrop\": 0.25"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spoiled spoiled = copy_model(rows[i].model);
        replace(&spoiled, "config.json", rows[i].from, rows[i].to);
        struct model_source source;
        EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = spoiled.path, .step = -1}));
        EXPECT(source.config.model.hidden_dropout == 0.25);
        model_source_close(&source);
        temporary_remove(&spoiled.folder);
    }
}

static double real_in(const char *folder, const char *key) {
    char *path = file_join(folder, "config.json");
    struct json *root = NULL;
    EXPECT_OK(json_parse_file(&root, path, 1 << 20));
    const struct json *value = json_member(root, key);
    double number = value && value->type == JSON_NUMBER ? value->number : NAN;
    json_free(root);
    free(path);
    return number;
}

// A Gemma 2 without windows has no width of them.
TEST(no_windows) {
    struct spoiled spoiled = copy_model("gemma2");
    replace(&spoiled, "config.json", "\"sliding_window\": 4", "\"sliding_window\": null");
    replace(&spoiled, "config.json", "\"sliding_attention\"", "\"full_attention\"");
    EXPECT_OK(open_model(spoiled.path));
    temporary_remove(&spoiled.folder);
}

// Values that are the same in other words; what is written is exact.
TEST(other_words) {
    struct spoiled spoiled = copy_model("gemma");
    replace(&spoiled, "config.json", "\"hidden_act\": \"gelu_pytorch_tanh\"", "\"hidden_act\": \"gelu\"");
    EXPECT_OK(open_model(spoiled.path));
    temporary_remove(&spoiled.folder);
    spoiled = copy_model("granite");
    replace(&spoiled, "config.json", "\"attention_multiplier\": 0.2", "\"attention_multiplier\": 0.3");
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = spoiled.path, .step = -1}));
    char *hf = file_join(spoiled.folder.path, "out");
    EXPECT_OK(model_write_huggingface(&(struct model_write){.source = &source, .folder = hf, .shard_bytes = 1 << 30}));
    EXPECT(real_in(hf, "attention_multiplier") == 0.3);
    model_source_close(&source);
    free(hf);
    temporary_remove(&spoiled.folder);
}

// A stretched base is read from its number, and that number stays.
TEST(stretched_base) {
    struct spoiled spoiled = copy_model("hunyuan_v1_dense");
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = spoiled.path, .step = -1}));
    EXPECT(fabs(source.config.model.rotary_base / (512 * pow(50, 1.5)) - 1) < 1e-15 &&
           !source.config.model.use_rope_scaling);
    char *hf = file_join(spoiled.folder.path, "out");
    EXPECT_OK(model_write_huggingface(&(struct model_write){.source = &source, .folder = hf, .shard_bytes = 1 << 30}));
    EXPECT(real_in(hf, "rope_theta") == 512);
    model_source_close(&source);
    EXPECT_OK(open_model(hf));
    free(hf);
    temporary_remove(&spoiled.folder);
}

// The family that a model is written as, and why not as another.
TEST(other_families) {
    static const struct other_family rows[] = {
        {"stablelm", "llama", "llama has no --normalization LayerNorm"},
        {"gpt_neox", "gpt2", "gpt2 has no --parallel-residual true"},
        {"gpt_neox", "stablelm", "stablelm has no --swiglu false"},
        {"llama", "gpt_neox", "gpt_neox has no --disable-bias-linear/--add-mlp-bias"},
        {"granite", "llama", "llama has no --embedding-multiplier 12"},
        {"bloom", "mpt", "mpt has no --no-norm-bias false"},
        {"mpt", "bloom", "bloom has no --embed-layernorm false"},
        {"falcon_rw", "bloom", "bloom has no --embed-layernorm false"},
        {"mpt", "falcon", "falcon has no --position-embedding-type/--scale-alibi"},
        {"olmo2", "llama", "llama has no --qk-layernorm true"},
        {"olmo2", "qwen3", "qwen3 has no --qk-layernorm-all-heads true"},
        {"qwen3", "olmo2", "olmo2 has no --norm-placement pre"},
        {"smollm3", "llama", "llama has no --no-rope-freq 2"},
        {"gemma", "llama", "llama has no --swiglu false"},
        {"gemma2", "gemma", "gemma has no --norm-placement both"},
        {"gemma2", "gemma3_text", "gemma3_text has no --qk-layernorm false"},
        {"gemma3_text", "gemma2", "gemma2 has no --qk-layernorm true"},
        {"qwen2", "gemma", "gemma has no --activation silu"},
        {"llama_fused", "granite", NULL},
        {"cohere", "stablelm", "stablelm has no"},
        {"gpt_neox", "falcon", "falcon has no --rotary-percent 0.25"},
        {"cohere2", "cohere", "cohere has no"},
        {"cohere_heads", "cohere2", "cohere2 has no"},
        {"stablelm_heads", "cohere", "cohere has no --no-norm-bias false"},
        {"cohere_heads", "stablelm", "stablelm has no --no-norm-bias true"},
        {"olmo3", "olmo2", "olmo2 has no"},
        {"olmo2", "olmo3", "olmo3 has no models without a window"},
        {"llama_fused", "ministral", "ministral has no models without a window"},
        {"gemma", "vaultgemma", "vaultgemma has no models without a window"},
        {"glm", "glm4", "glm4 has no --norm-placement pre"},
        {"glm4", "glm", "glm has no --norm-placement both"},
        {"qwen2_windows", "llama", "llama has no"},
        {"seed_oss", "qwen2", NULL},
        {"qwen2", "seed_oss", NULL},
        {"hunyuan_v1_dense", "qwen3", "qwen3 has no --qk-layernorm-after-rope true"},
        {"qwen3", "hunyuan_v1_dense", "hunyuan_v1_dense has no --qk-layernorm-after-rope false"},
        {"jais2", "nemotron", NULL},
        {"mistral", "ministral", NULL},
        {"ministral", "mistral", "mistral has no --window-attn-skip-freq"},
        {"gemma2", "vaultgemma", "vaultgemma has no --norm-placement both"},
        {"vaultgemma", "gemma2", "gemma2 has no --norm-placement pre"},
        {"llama_fused", "mixtral", "mixtral has no MLPs without experts"},
        {"phi3_part", "llama", "llama has no --rotary-percent 0.5"},
        {"phi3_part", "stablelm", "stablelm has no --normalization RMSNorm"},
        {"phi3_long", "llama", "llama has no"},
        {"phi3", "mistral", NULL},
        {"phi3", "llama", "llama has no --sliding-window 4"},
        {"llama", "phi3", "phi3 has no --rope-scaling-type llama3"},
        {"llama_tied", "phi3", "phi3 has no --rotary-seq-len-interpolation-factor 2"},
        {"llama_fused", "phi3", NULL},
        {"qwen2", "phi3", "phi3 has no --add-qkv-bias true"},
        {"stablelm", "starcoder2", "starcoder2 has no --rotary-percent 0.5"},
        {"starcoder2", "stablelm", "stablelm has no --swiglu false"},
        {"gpt_bigcode", "gpt2", "gpt2 has no --num-query-groups 1"},
        {"gpt_bigcode_heads", "gpt2", NULL},
        {"gpt2_untied", "gpt_bigcode", NULL},
        {"roberta", "camembert", NULL},
        {"distilbert", "bert", NULL},
        {"distilbert", "roberta", "roberta has no --position-offset 0"},
        {"bert_mlm", "distilbert", "distilbert has no --num-token-types 2"},
        {"bert_mlm", "xlm-roberta", "xlm-roberta has no --position-offset 0"},
        {"t5", "mt5", "mt5 has no --untie-embeddings-and-output-weights false"},
        {"t5_v1_1", "mt5", NULL},
        {"t5_v1_1", "umt5", "umt5 has no --relative-attention-per-layer false"},
        {"umt5", "t5", "t5 has no --relative-attention-per-layer true"},
        {"umt5_untied", "mt5", "mt5 has no --relative-attention-per-layer true"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_family(&rows[i]);
}

// Nemotron stores gains as their distance from 1, whatever the run used.
TEST(centered_gains) {
    struct temporary folder = temporary_create();
    char *hf = file_join(folder.path, "hf");
    struct model_source source = open_golden("starcoder2_plain");
    source.config.model.rotary_seq_len_interpolation_factor = 1;  // Nemotron has no scaling
    EXPECT_OK(model_write_huggingface(
        &(struct model_write){.source = &source, .folder = hf, .shard_bytes = 1 << 30, .family = "nemotron"}));
    model_source_close(&source);
    struct weights before, after;
    char *original = file_join(golden, "starcoder2_plain");
    EXPECT_OK(weights_open_folder(&before, original));
    EXPECT_OK(weights_open_folder(&after, hf));
    const struct weight *whole = weights_find(&before, "model.norm.weight");
    const struct weight *centered = weights_find(&after, "model.norm.weight");
    float x[24], y[24];
    EXPECT(whole && centered && whole->bytes == sizeof x && centered->bytes == sizeof y);
    EXPECT_OK(weight_read(whole, x));
    EXPECT_OK(weight_read(centered, y));
    for (int i = 0; i < 24; i++)
        EXPECT(y[i] == x[i] - 1);
    weights_close(&before);
    weights_close(&after);
    free(original);
    free(hf);
    temporary_remove(&folder);
}

TEST_MAIN(TEST_CASE(documented), TEST_CASE(refused_longrope), TEST_CASE(refused_variants), TEST_CASE(refused_likes),
          TEST_CASE(unknown_families), TEST_CASE(dropouts), TEST_CASE(no_windows), TEST_CASE(other_words),
          TEST_CASE(stretched_base), TEST_CASE(other_families), TEST_CASE(centered_gains))
