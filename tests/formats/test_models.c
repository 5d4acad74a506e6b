// Folders with wrong content: missing, extra, misshapen and mistyped tensors, wrong indexes, configurations of
// unsupported models. Every error names the problem, and nothing is written halfway.
#include "base/memory.h"
#include "formats/model_bytes.h"
#include "formats/model_source.h"
#include "formats/names.h"
#include "formats/spoiled.h"
#include "formats/torch_file.h"
#include "formats/weights.h"
#include "model/likeness.h"
#include "store/safetensors.h"
#include "test.h"

// Replaces a text in the header of model.safetensors by one of the same length.
static void replace_header(const struct spoiled *spoiled, const char *from, const char *to) {
    char *path = file_join(spoiled->path, "model.safetensors");
    struct buffer content = read_whole(path);
    size_t length = strlen(from);
    EXPECT_INT(strlen(to), length);
    char *at = memmem(content.data, content.length, from, length);
    if (!at)
        test_fail("%s is not in the header", from);
    memcpy(at, to, length);
    write_whole(path, content.data, content.length);
    buffer_free(&content);
    free(path);
}

TEST(tensors) {
    static const struct {
        struct change change;
        const char *message;
    } rows[] = {
        {{.tensor = "h.1.ln_2.bias"}, "tensors are missing: transformer.h.1.ln_2.bias"},
        {{.tensor = "h.1.ln_2.bias", .renamed = "h.1.ln_3.bias"},
         "tensors are missing: transformer.h.1.ln_2.bias; tensors that this model does not have: "
         "h.1.ln_3.bias"},
        {{.tensor = "h.0.attn.c_attn.weight", .is_turned = true},
         "another shape than the configuration says: h.0.attn.c_attn.weight is fp32 (36, 12) and not (12, 36)"},
        {{.tensor = "wte.weight", .is_integer = true}, "neither fp32, bf16 nor fp16: wte.weight is int32 (37, 12)"},
        {{.tensor = "h.0.attn.bias", .renamed = "h.0.attn.mask"}, "tensors that this model does not have: h.0.attn"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spoiled spoiled = copy_model("gpt2");
        EXPECT_OK(open_model(spoiled.path));
        rewrite(&spoiled, &rows[i].change);
        EXPECT_ERROR(open_model(spoiled.path), rows[i].message);
        temporary_remove(&spoiled.folder);
    }
}

// Tensors that are joined must have one type; a separate tensor may have its own.
TEST(mixed_types) {
    struct spoiled spoiled = copy_model("opt_narrow");
    rewrite(&spoiled, &(struct change){.tensor = "model.decoder.layers.0.fc1.weight", .is_half = true});
    EXPECT_OK(open_model(spoiled.path));
    rewrite(&spoiled, &(struct change){.tensor = "model.decoder.layers.0.self_attn.k_proj.weight", .is_half = true});
    EXPECT_ERROR(open_model(spoiled.path), "another type than those they are joined with: "
                                           "model.decoder.layers.0.self_attn.k_proj.weight is bf16 and "
                                           "model.decoder.layers.0.self_attn.q_proj.weight fp32");
    EXPECT(!strstr(error_message(), "v_proj"));
    temporary_remove(&spoiled.folder);
}

// The written model is opened again and compared with its source: flags, then elements.
static int check_written(const char *from, const struct spoiled *written) {
    struct model_source source;
    TRY(model_source_open(&source, &(struct model_source_options){.path = from, .step = -1}));
    struct model_write write = {.source = &source, .folder = written->path};
    int result = model_check(&(struct model_check){.write = &write, .path = written->path});
    model_source_close(&source);
    return result;
}

TEST(read_back) {
    static const struct {
        const char *model, *from, *to, *message;
    } rows[] = {
        {"gpt2", "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-06",
         "--norm-epsilon is 1e-06 there and 1e-05 here"},
        {"gpt2", "gelu_new", "relu", "--activation is relu there and gelu_tanh here"},
        {"llama", "500.0", "400.0", "--rotary-base is 400 there and 500 here"},
        {"mistral", "\"sliding_window\": 4", "\"sliding_window\": 3", "--sliding-window is 3 there and 4 here"},
        {"t5", "\"relative_attention_max_distance\": 20", "\"relative_attention_max_distance\": 21",
         "--relative-attention-max-distance is 21 there and 20 here"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spoiled spoiled = copy_model(rows[i].model);
        char *from = file_join(golden, rows[i].model);
        EXPECT_OK(check_written(from, &spoiled));
        replace(&spoiled, "config.json", rows[i].from, rows[i].to);
        EXPECT_ERROR(check_written(from, &spoiled), rows[i].message);
        free(from);
        temporary_remove(&spoiled.folder);
    }
    struct spoiled spoiled = copy_model("opt_narrow");
    char *file = file_join(spoiled.path, "model.safetensors");
    struct buffer content = read_whole(file);
    content.data[content.length - 1] ^= 1;
    write_whole(file, content.data, content.length);
    EXPECT_ERROR(check_written("tests/golden/foreign/opt_narrow", &spoiled), "tensors have other elements: ");
    rewrite(&spoiled, &(struct change){.tensor = "model.decoder.layers.0.fc1.weight", .is_half = true});
    EXPECT_ERROR(check_written("tests/golden/foreign/opt_narrow", &spoiled),
                 "tensors have another type: decoder.layers.0.mlp.linear_fc1.weight");
    free(file);
    buffer_free(&content);
    temporary_remove(&spoiled.folder);
}

// Every flag that makes a different model of the same weights is noticed.
TEST(flags_of_a_model) {
    static const struct {
        const char *model, *flag, *value;
    } rows[] = {{"gpt2", "--model", "bert"},
                {"gpt2", "--num-layers", "3"},
                {"gpt2", "--hidden-size", "24"},
                {"gpt2", "--ffn-hidden-size", "24"},
                {"gpt2", "--num-attention-heads", "6"},
                {"gpt2", "--kv-channels", "8"},
                {"gpt2", "--max-position-embeddings", "99"},
                {"gpt2", "--padded-vocab-size", "99"},
                {"gpt2", "--norm-epsilon", "1e-4"},
                {"gpt2", "--normalization", "RMSNorm"},
                {"gpt2", "--qk-layernorm", "true"},
                {"gpt2", "--norm-placement", "post"},
                {"gpt2", "--position-embedding-type", "none"},
                {"gpt2", "--position-offset", "2"},
                {"gpt2", "--softmax-scale", "0.3"},
                {"gpt2", "--sliding-window", "3"},
                {"gpt2", "--activation", "gelu"},
                {"gpt2", "--gated-linear-unit", "true"},
                {"gpt2", "--disable-bias-linear", "true"},
                {"gpt2", "--untie-embeddings-and-output-weights", "true"},
                {"gpt2", "--add-output-bias", "true"},
                {"gpt2", "--scale-tied-output", "true"},
                {"opt_narrow", "--word-embedding-size", "12"},
                {"llama", "--rotary-base", "501"},
                {"llama", "--rotary-percent", "0.5"},
                {"llama", "--rotary-interleaved", "true"},
                {"llama", "--rotary-seq-len-interpolation-factor", "2"},
                {"llama", "--use-rope-scaling", "false"},
                {"llama", "--rope-scaling-type", "dynamic"},
                {"llama", "--rope-scaling-factor", "9"},
                {"llama", "--rope-low-freq-factor", "2"},
                {"llama", "--rope-high-freq-factor", "8"},
                {"llama", "--rope-original-length", "8"},
                {"llama", "--num-query-groups", "1"},
                {"llama", "--add-qkv-bias", "true"},
                {"llama", "--add-attention-bias", "true"},
                {"llama", "--add-mlp-bias", "true"},
                {"llama_dynamic", "--rope-scaling-factor", "9"},
                {"llama_yarn", "--yarn-attention-factor", "1.5"},
                {"bert", "--bert-no-binary-head", "true"},
                {"bert", "--num-token-types", "3"},
                {"bert", "--lm-head-activation", "relu"},
                {"t5", "--encoder-num-layers", "5"},
                {"t5", "--decoder-num-layers", "5"},
                {"t5", "--relative-attention-num-buckets", "16"},
                {"t5", "--relative-attention-max-distance", "99"}};
    struct flag_table table = config_flag_table(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *path = file_join(golden, rows[i].model);
        struct model_source source;
        EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = path, .step = -1}));
        struct config other;
        struct buffer text = {0};
        config_copy(&other, &source.config);
        likeness_compare(&other, &source.config, LIKENESS_WRITTEN, &text);
        EXPECT_INT(text.length, 0);
        EXPECT_OK(flag_set(&table, &other, rows[i].flag, rows[i].value, FLAG_FROM_COMMAND));
        likeness_compare(&other, &source.config, LIKENESS_WRITTEN, &text);
        if (text.length == 0)
            test_fail("%s %s of %s goes unnoticed", rows[i].flag, rows[i].value, rows[i].model);
        buffer_free(&text);
        config_free(&other);
        model_source_close(&source);
        free(path);
    }
}

static int write_as(const struct spoiled *spoiled, const char *to, const enum dtype *dtype) {
    struct model_source source;
    TRY(model_source_open(&source, &(struct model_source_options){.path = spoiled->path, .step = -1}));
    struct model_write write = {.source = &source,
                                .folder = to,
                                .has_dtype = dtype != NULL,
                                .dtype = dtype ? *dtype : DTYPE_F32,
                                .shard_bytes = 1 << 20};
    int result = model_write_huggingface(&write);
    model_source_close(&source);
    return result;
}

static void expect_text(const char *folder, const char *name, const char *text) {
    char *path = file_join(folder, name);
    struct buffer content = read_whole(path);
    if (!strstr(buffer_string(&content), text))
        test_fail("%s is not in %s", text, path);
    buffer_free(&content);
    free(path);
}

// from_pretrained converts every tensor to the type named in config.json: it must be one that can hold them all, or the
// one named in the model's own configuration.
TEST(type_of_mixed) {
    struct spoiled spoiled = copy_model("opt_narrow");
    char *to = file_join(spoiled.folder.path, "to"), *said = file_join(spoiled.folder.path, "said");
    static const char *const halves[] = {"model.decoder.layers.0.fc1.weight", "model.decoder.layers.0.fc2.weight",
                                         "model.decoder.embed_tokens.weight", "model.decoder.embed_positions.weight",
                                         "model.decoder.layers.1.fc1.weight", "model.decoder.layers.1.fc2.weight"};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        rewrite(&spoiled, &(struct change){.tensor = halves[i], .is_half = true});
    replace(&spoiled, "config.json", "\"dtype\": \"float32\"", "\"top_k\": 1");
    EXPECT_OK(write_as(&spoiled, to, NULL));
    expect_text(to, "config.json", "\"torch_dtype\": \"float32\"");
    replace(&spoiled, "config.json", "\"top_k\": 1", "\"dtype\": \"bfloat16\"");
    EXPECT_OK(write_as(&spoiled, said, NULL));
    expect_text(said, "config.json", "\"dtype\": \"bfloat16\"");
    free(to);
    free(said);
    temporary_remove(&spoiled.folder);
}

// The biases of experts keep the type of the source, and are not rounded by one that is asked for.
TEST(type_of_expert_biases) {
    static const char theirs[] = "model.layers.1.mlp.gate.e_score_correction_bias";
    const enum dtype brain = DTYPE_BF16, single = DTYPE_F32;
    const struct {
        bool is_half;
        const enum dtype *asked;
        enum dtype expected;
    } rows[] = {{true, NULL, brain}, {true, &brain, brain}, {true, &single, single}, {false, &brain, single}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spoiled spoiled = copy_model("glm4_moe");
        char *to = file_join(spoiled.folder.path, "to");
        struct weights weights;
        if (rows[i].is_half)
            rewrite(&spoiled, &(struct change){.tensor = theirs, .is_half = true});
        EXPECT_OK(write_as(&spoiled, to, rows[i].asked));
        EXPECT_OK(weights_open_folder(&weights, to));
        const struct weight *bias = weights_find(&weights, theirs);
        EXPECT(bias && bias->dtype == rows[i].expected);
        weights_close(&weights);
        free(to);
        temporary_remove(&spoiled.folder);
    }
}

// fp16 ends at 65504; values that round to more are reported before anything is written.
TEST(overflow) {
    const enum dtype half = DTYPE_F16, brain = DTYPE_BF16;
    const float large[] = {65519.0f, 65520.0f, -1e30f};
    struct spoiled spoiled = copy_model("opt_narrow");
    char *file = file_join(spoiled.path, "model.safetensors"), *to = file_join(spoiled.folder.path, "to");
    struct buffer content = read_whole(file);
    memcpy(content.data + content.length - sizeof large, large, sizeof large);
    write_whole(file, content.data, content.length);
    EXPECT_ERROR(write_as(&spoiled, to, &half), "2 values exceed the largest of fp16, 65504 (up to 1e+30; "
                                                "tensors: ");
    EXPECT(!file_exists(to));
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = spoiled.path, .step = -1}));
    struct model_write write = {.source = &source, .folder = to, .has_dtype = true, .dtype = half};
    EXPECT_ERROR(model_write_ours(&write), "2 values exceed the largest of fp16");
    EXPECT(!file_exists(to));
    model_source_close(&source);
    EXPECT_OK(write_as(&spoiled, to, &brain));
    buffer_free(&content);
    free(file);
    free(to);
    temporary_remove(&spoiled.folder);
}

TEST(configurations) {
    static const struct {
        const char *model, *from, *to, *message;
    } rows[] = {
        {"gpt2", "\"gpt2\"", "\"mamba\"",
         "the model_type \"mamba\" is not supported: it has state space layers; supported: gpt2, opt, gpt_bigcode"},
        {"gpt2", "\"n_layer\": 2", "\"n_layer\": 3", "tensors are missing: transformer.h.2.ln_1.weight"},
        {"gpt2", "\"n_layer\": 2", "\"n_layer\": 1", "tensors that this model does not have: h.1."},
        {"gpt2", "\"n_layer\": 2", "\"n_layer\": -2", "--num-layers"},
        {"gpt2", "\"n_layer\": 2", "\"n_layer\": \"many\"", "\"n_layer\": \"many\" is not a number"},
        {"gpt2", "\"n_layer\": 2", "\"n_layers\": 2", "it has no \"n_layer\""},
        {"gpt2", "\"n_head\": 3", "\"n_head\": 5", "is not a multiple of --num-attention-heads 5"},
        {"gpt2", "\"vocab_size\": 37", "\"vocab_size\": 38", "wte.weight is fp32 (37, 12) and not (38, 12)"},
        {"gpt2", "gelu_new", "mish", "\"activation_function\": \"mish\" is not supported"},
        {"gpt2", "\"scale_attn_by_inverse_layer_idx\": false", "\"scale_attn_by_inverse_layer_idx\": true",
         "\"scale_attn_by_inverse_layer_idx\": \"true\" is not supported"},
        {"gpt2", "gelu_new", "gelu_pytorch_tanh", NULL},
        {"gpt2", "gelu_new", "swish", NULL},
        {"gpt2", "\"n_layer\": 2", "\"n_layer\": 2,,", "config.json"},  // not JSON, and not "no model"
        {"opt", "\"word_embed_proj_dim\": 12", "\"word_embed_proj_dim\": 6",
         "missing: model.decoder.project_in.weight"},
        {"opt", "\"do_layer_norm_before\": true", "\"do_layer_norm_before\": false", "model.decoder.final_layer_norm"},
        {"llama_tied", "\"linear\"", "\"longrope\"", "rotary scaling \"longrope\" is not supported"},
        {"llama_tied", "\"linear\"", "7", "not an object with a \"rope_type\""},
        {"llama_tied", "\"linear\"", "\"dynamic\"", NULL},
        {"llama", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": false, \"partial_rotary_factor\": 0.5",
         "\"partial_rotary_factor\" is not 1"},
        {"llama_tied", "\"linear\"", "\"yarn\"", NULL},
        {"llama", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true",
         "it has an output matrix of its own (lm_head.weight), which transformers 5 uses and transformers 4 does not"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spoiled spoiled = copy_model(rows[i].model);
        EXPECT_OK(open_model(spoiled.path));
        replace(&spoiled, "config.json", rows[i].from, rows[i].to);
        if (rows[i].message)
            EXPECT_ERROR(open_model(spoiled.path), rows[i].message);
        else
            EXPECT_OK(open_model(spoiled.path));
        temporary_remove(&spoiled.folder);
    }
}

TEST(indexes) {
    static const struct {
        const char *from, *to, *message;
    } rows[] = {
        {"\"model.norm.weight\"", "\"model.norm.bias\"", "names tensors that no file has: model.norm.bias"},
        {"\"model.norm.weight\"", "\"model.norm.bias\"", "does not place tensors where they are: model.norm.weight"},
        {"\"model-00001-of", "\"../model-00001-of", "in something that is not a file of this folder"},
        {"\"model-00001-of", "\"model-00009-of", "model-00009-of-00003.safetensors"},
        {"weight_map", "weight_maps", "it has no \"weight_map\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spoiled spoiled = copy_model("llama");
        EXPECT_OK(open_model(spoiled.path));
        replace(&spoiled, "model.safetensors.index.json", rows[i].from, rows[i].to);
        EXPECT_ERROR(open_model(spoiled.path), rows[i].message);
        temporary_remove(&spoiled.folder);
    }
    // A tensor in two of the files.
    struct spoiled spoiled = copy_model("llama");
    char *from = file_join(spoiled.path, "model-00002-of-00003.safetensors"),
         *to = file_join(spoiled.path, "model-00003-of-00003.safetensors");
    struct buffer content = read_whole(from);
    write_whole(to, content.data, content.length);
    EXPECT_ERROR(open_model(spoiled.path), "occurs twice");
    buffer_free(&content);
    free(from);
    free(to);
    temporary_remove(&spoiled.folder);
}

// Types that are not computed with may be beside the parameters, but not in their place.
TEST(other_types) {
    static const struct {
        const char *name, *message;
    } rows[] = {{"h.1.attn.bias", NULL}, {"h.1.ln_3.bias", "tensors that this model does not have: h.1.ln_3.bias"}};
    for (size_t i = 0; i < 2; i++) {
        struct spoiled spoiled = copy_model("gpt2");
        rewrite(&spoiled, &(struct change){.tensor = "h.0.attn.bias", .renamed = rows[i].name});
        replace_header(&spoiled, "\"dtype\":\"F32\",\"shape\":[1,1,4,4]", "\"dtype\":\"F64\",\"shape\":[1,1,2,4]");
        if (rows[i].message)
            EXPECT_ERROR(open_model(spoiled.path), rows[i].message);
        else
            EXPECT_OK(open_model(spoiled.path));
        temporary_remove(&spoiled.folder);
    }
    struct spoiled spoiled = copy_model("gpt2");
    rewrite(&spoiled, &(struct change){.tensor = "h.0.ln_1.bias", .renamed = "h.0.ln_1.bias"});
    replace_header(&spoiled, "\"h.0.ln_1.bias\":{\"dtype\":\"F32\",\"shape\":[12]",
                   "\"h.0.ln_1.bias\":{\"dtype\":\"U64\",\"shape\":[06]");
    EXPECT(open_model(spoiled.path) < 0);  // a number with a leading 0 is not JSON
    temporary_remove(&spoiled.folder);
    spoiled = copy_model("gpt2");
    rewrite(&spoiled, &(struct change){.tensor = "h.0.ln_1.bias", .renamed = "h.0.ln_1.bias"});
    replace_header(&spoiled, "\"h.0.ln_1.bias\":{\"dtype\":\"F32\",\"shape\":[12]",
                   "\"h.0.ln_1.bias\":{\"dtype\":\"I16\",\"shape\":[24]");
    EXPECT_ERROR(open_model(spoiled.path), "neither fp32, bf16 nor fp16: h.0.ln_1.bias is I16 (24)");
    temporary_remove(&spoiled.folder);
}

// A pickle that would call something is refused here, as everywhere.
TEST(hostile_pickle) {
    struct spoiled spoiled = copy_model("opt");
    struct buffer evil = read_whole("tests/golden/torch/evil_system.pt");
    char *path = file_join(spoiled.path, "pytorch_model.bin");
    write_whole(path, evil.data, evil.length);
    EXPECT_ERROR(open_model(spoiled.path), "it refers to posix.system");
    EXPECT(!file_exists("/tmp/bevatron_was_here"));
    buffer_free(&evil);
    free(path);
    temporary_remove(&spoiled.folder);
}

TEST(nothing_there) {
    struct temporary folder = temporary_create();
    EXPECT_ERROR(open_model(folder.path), "is not a readable model");
    EXPECT_INT(error_exit_code(), EXIT_CODE_NO_CHECKPOINT);
    char *config = file_join(folder.path, "config.json");
    write_whole(config, "{\"model_type\": \"gpt2\"}", 22);
    EXPECT_ERROR(open_model(folder.path), "has neither model.safetensors nor pytorch_model.bin");
    free(config);
    temporary_remove(&folder);
}

static int open_megatron(const char *path) {
    struct model_source source;
    TRY(model_source_open(&source, &(struct model_source_options){.path = path, .step = -1}));
    model_source_close(&source);
    return 0;
}

TEST(megatron) {
    // Without arguments the number of heads must be given.
    EXPECT_ERROR(open_megatron("tests/golden/foreign/megatron_v0"), "give --num-attention-heads");
    EXPECT_ERROR(open_megatron("tests/golden/torch/dict_bomb"), "entries");
    EXPECT_ERROR(open_megatron("tests/golden/foreign/megatron_experts_claimed"),
                 "--num-experts takes a whole number, from 1 to 1024, not \"4611686018427387904\"");
    struct temporary folder = temporary_create();
    static const char *const ranks[] = {"mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000"};  // one is missing
    for (size_t i = 0; i < 3; i++) {
        char *from = memory_printf("%s/megatron_v2_tp2_pp2/iter_0000100/%s", golden, ranks[i]),
             *to = file_join(folder.path, ranks[i]);
        EXPECT_OK(file_make_folders(to));
        copy_file(from, to, "model_optim_rng.pt");
        free(from);
        free(to);
    }
    EXPECT_ERROR(open_megatron(folder.path), "lacks the file of tensor-parallel rank 1 of one of its pipeline stages");
    char *stage = file_join(folder.path, "mp_rank_00_001"), *other = file_join(folder.path, "mp_rank_01_000");
    EXPECT_OK(file_remove_tree(stage));
    EXPECT_ERROR(open_megatron(folder.path), "tensors are missing: decoder.layers.2.");
    EXPECT_OK(file_remove_tree(other));
    EXPECT_ERROR(open_megatron(folder.path), "another shape than the configuration says");
    free(stage);
    free(other);
    temporary_remove(&folder);
}

TEST(writing) {
    struct temporary folder = temporary_create();
    char *taken = file_join(folder.path, "taken"), *inside = file_join(taken, "x"), *hf = file_join(folder.path, "hf");
    EXPECT_OK(file_make_folders(taken));
    write_whole(inside, "x", 1);
    struct model_source source;
    struct model_source_options options = {.path = "tests/golden/foreign/llama", .step = -1};
    EXPECT_OK(model_source_open(&source, &options));
    struct model_write write = {.source = &source, .folder = taken, .shard_bytes = 1 << 30};
    EXPECT_ERROR(model_write_huggingface(&write), "exists and is not an empty folder");
    write.folder = hf;
    write.family = "gpt2";
    EXPECT_ERROR(model_write_huggingface(&write), "gpt2 has no --kv-channels 4");
    EXPECT(!file_exists(hf));
    write.family = "gpt17";
    EXPECT_ERROR(model_write_huggingface(&write), "unknown family gpt17; known families: gpt2, ");
    write.family = NULL;
    write.vocab_size = 38;
    EXPECT_ERROR(model_write_huggingface(&write), "vocabulary has 37 rows");
    // The padding of a vocabulary can be left out, and every type can be requested.
    write.vocab_size = 30;
    write.has_dtype = true;
    write.dtype = DTYPE_BF16;
    EXPECT_OK(model_write_huggingface(&write));
    model_source_close(&source);
    struct weights weights;
    EXPECT_OK(weights_open_folder(&weights, hf));
    const struct weight *head = weights_find(&weights, "lm_head.weight");
    EXPECT(head && head->shape[0] == 30 && head->dtype == DTYPE_BF16);
    EXPECT_INT(weights.count, 21);
    weights_close(&weights);
    options.path = hf;
    EXPECT_OK(model_source_open(&source, &options));
    EXPECT_INT(source.config.model.padded_vocab_size, 30);
    EXPECT(source.config.model.use_rope_scaling && source.config.model.rotary_base == 500 &&
           source.config.model.kv_channels == 4);
    model_source_close(&source);
    free(taken);
    free(inside);
    free(hf);
    temporary_remove(&folder);
}

// Opens a golden model, changes it if asked, and writes it for Megatron-LM.
static int write_megatron(const char *name, void (*change)(struct config *config), const char *to) {
    char *path = memory_printf("tests/golden/foreign/%s", name);
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = path, .step = -1}));
    if (change)
        change(&source.config);
    int status = model_write_megatron(&(struct model_write){.source = &source, .folder = to});
    model_source_close(&source);
    free(path);
    return status;
}

static void scale_as_megatron(struct config *config) {
    config->model.rope_original_length = 8192;
    config->model.rope_scaling_factor = 4;
}

// Models with other details than a plain GPT: the arguments say them, and a comparison proves what is written; those
// that no arguments say are refused before anything is written.
TEST(arguments_for_megatron) {
    struct temporary folder = temporary_create_fast();
    char *to = file_join(folder.path, "written");
    static const struct {
        const char *name, *message;
    } refused[] = {{"llama", "--rope-original-length is 8192 there and 16 here"},
                   {"llama_yarn", "--use-rope-scaling is false there and true here"},
                   {"granite", "--embedding-multiplier is 1 there and 12 here, --residual-multiplier is 1 there"},
                   {"gpt2_untied", "--activation is gelu there and relu here"},
                   {"gpt_neox_serial", "--add-qkv-bias is true there and false here"},
                   {"deepseek_v3", "--multi-latent-attention is false there and true here"},
                   {"bloom", "--embed-layernorm is false there and true here, --position-embedding-type is "
                             "learned_absolute there and alibi here"}};
    static const char *const written[] = {"mistral", "qwen2_windows", "llama_tied", "mellum_mtp"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        EXPECT_ERROR(write_megatron(refused[i].name, NULL, to), "Megatron-LM's arguments cannot describe this model");
        EXPECT_ERROR(write_megatron(refused[i].name, NULL, to), refused[i].message);
    }
    EXPECT(file_is_empty_folder(folder.path));
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        EXPECT_OK(write_megatron(written[i], NULL, to));
        EXPECT_OK(file_remove_tree(to));
    }
    EXPECT_OK(write_megatron("llama", scale_as_megatron, to));
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = to, .step = -1}));
    EXPECT(source.config.model.use_rope_scaling && source.config.model.rope_scaling_factor == 4);
    model_source_close(&source);
    free(to);
    temporary_remove(&folder);
}

TEST(names) {
    int64_t number = 0;
    EXPECT(name_match("a.*.b", "a.12.b", &number) && number == 12);
    EXPECT(!name_match("a.*.b", "a.x.b", &number) && !name_match("a.*.b", "a.12.c", &number));
    EXPECT(!name_match("a.*.b", "b.12.b", &number) && !name_match("a.*.b", "a.1234567890.b", &number));
    EXPECT(name_match("a.b", "a.b", &number) && number == -1 && !name_match("a.b", "a.bc", &number));
    EXPECT(name_match("a.…", "a.b.c", &number) && !name_match("a.…", "b.c", &number));
    char *filled = name_fill("a.*.b", 7);
    EXPECT_STRING(filled, "a.7.b");
    free(filled);
    struct name_list list = {0};
    for (int i = 0; i < 10; i++)
        name_list_add(&list, "x");
    struct buffer text = {0};
    name_list_describe(&list, "missing", &text);
    EXPECT_STRING(buffer_string(&text), "missing: x, x, x, x, x, x, x, x and 2 more");
    buffer_free(&text);
    name_list_free(&list);
}

// Damage that is found only when a tensor is read: the folder created for the result is removed again.
TEST(damage_found_late_leaves_nothing) {
    struct spoiled spoiled = copy_model("mistral");
    char *path = file_join(spoiled.path, "pytorch_model.bin"), *to = file_join(spoiled.folder.path, "converted");
    struct buffer content = read_whole(path);
    struct model_source source;
    struct torch_file file;
    EXPECT_OK(torch_parse(&file, content.data, content.length, path));
    size_t at = (size_t)(file.pickle.storages[0]->data - (const unsigned char *)content.data);
    torch_close(&file);
    content.data[at] ^= 1;
    write_whole(path, content.data, content.length);
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = spoiled.path, .step = -1}));
    EXPECT_ERROR(model_write_ours(&(struct model_write){.source = &source, .folder = to}), "its bytes have changed");
    EXPECT(!file_exists(to));
    EXPECT_OK(file_make_folders(to));
    EXPECT_ERROR(model_write_ours(&(struct model_write){.source = &source, .folder = to}), "its bytes have changed");
    EXPECT(file_is_folder(to));
    model_source_close(&source);
    buffer_free(&content);
    free(path);
    free(to);
    temporary_remove(&spoiled.folder);
}

TEST_MAIN(TEST_CASE(tensors), TEST_CASE(mixed_types), TEST_CASE(read_back), TEST_CASE(flags_of_a_model),
          TEST_CASE(type_of_mixed), TEST_CASE(type_of_expert_biases), TEST_CASE(overflow), TEST_CASE(configurations),
          TEST_CASE(indexes), TEST_CASE(other_types), TEST_CASE(hostile_pickle), TEST_CASE(nothing_there),
          TEST_CASE(megatron), TEST_CASE(writing), TEST_CASE(arguments_for_megatron), TEST_CASE(names),
          TEST_CASE(damage_found_late_leaves_nothing))
