// Families with experts: variants that would compute something else are refused by name, a model is written as the
// families that can express it, and 4-bit matrices become bf16 to the bit.
#include "formats/families.h"
#include "formats/hf_names.h"
#include "formats/weights.h"

TEST(refused_experts) {
    static const struct variant rows[] = {
        {"mixtral", "\"num_local_experts\": 4", "\"num_local_experts\": 5",
         "model.layers.0.block_sparse_moe.experts.4.w1.weight"},
        {"mixtral", "\"num_local_experts\": 4", "\"num_local_experts\": 3",
         "block_sparse_moe.gate.weight is fp32 (4, 24)"},
        {"mixtral", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 1", "--moe-router-topk 1"},
        {"mixtral", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5", "--moe-router-topk 5"},
        {"mixtral", "\"silu\"", "\"gelu\"", "\"hidden_act\": \"gelu\" is not supported, only silu"},
        {"mixtral", "\"sliding_window\"", "\"quantization_config\": {\"quant_method\": \"fp8\"}, \"sliding_window\"",
         "it has a \"quantization_config\" (fp8); quantized weights are not supported"},
        {"qwen3_moe", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 0", "\"decoder_sparse_step\" is not a"},
        {"qwen3_moe", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 4", "gives no layer experts"},
        {"qwen3_moe_sparse", "\"decoder_sparse_step\": 2", "\"decoder_sparse_step\": 1",
         "tensors are missing: model.layers.0.mlp.gate.weight"},
        {"qwen3_moe", "\"mlp_only_layers\": [\n    1\n  ]", "\"mlp_only_layers\": 1",
         "\"mlp_only_layers\" is not a list"},
        {"qwen3_moe", "\"mlp_only_layers\": [\n    1\n  ]", "\"mlp_only_layers\": [\"1\"]",
         "\"mlp_only_layers\" is not a list"},
        {"qwen3_moe", "\"num_local_experts\": 4", "\"num_local_experts\": 4, \"num_experts\": 8",
         "different values of --num-experts, 8 and 4"},
        {"qwen3_moe", "\"num_local_experts\": 4,", "",
         "model.layers.0.mlp.gate.weight is fp32 (4, 24) and not (128, 24)"},
        {"olmoe", "\"clip_qkv\": null", "\"clip_qkv\": 8.0", "\"clip_qkv\": \"8.0\" is not supported, only null"},
        {"gpt_oss", "\"swiglu_alpha\": 1.702", "\"swiglu_alpha\": 1.5",
         "\"swiglu_alpha\": \"1.5\" is not supported, only 1.702"},
        {"gpt_oss", "\"rope_type\": \"yarn\",", "", "it does not say its rotary scaling"},
        {"gpt_oss", "\"attention_bias\": true", "\"attention_bias\": false", "model.layers.0.self_attn.k_proj.bias"},
        {"gpt_oss", "\"num_local_experts\": 4", "\"num_local_experts\": 3",
         "mlp.experts.gate_up_proj is fp32 (4, 24, 40) and not (3, 24, 40)"},
        {"gpt_oss_mxfp4", "\"mxfp4\"", "\"fp8\"", "it has a \"quantization_config\" (fp8)"},
        {"gpt_oss_mxfp4", "\"num_local_experts\": 2", "\"num_local_experts\": 3",
         "mlp.experts.gate_up_proj_blocks is uint8 (2, 128, 1, 16) and not (3, 128, 1, 16)"},
        {"glm4_moe", "\"norm_topk_prob\": true", "\"norm_topk_prob\": false",
         "\"norm_topk_prob\": \"false\" is not supported, only true"},
        {"glm4_moe", "\"use_qk_norm\": true", "\"use_qk_norm\": false", "tensors that this model does not have"},
        {"glm4_moe", "\"n_shared_experts\": 1", "\"n_shared_experts\": 0", "is not a number of experts from 1 to 1024"},
        {"glm4_moe", "\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 2", "leaves none of 2 layers"},
        {"glm4_moe", "\"n_group\": 2", "\"n_group\": 0", "are not numbers of groups"},
        {"dots1", "\"norm_topk_prob\": true", "\"norm_topk_prob\": false", "\"false\" is not supported, only true"},
        {"dots1", "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 1", "its \"num_experts_per_tok\" is 1"},
        {"dots1", "\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 2", "leaves none of 2 layers"},
        {"solar_open", "\"rope_type\"", "\"partial_rotary_factor\": 0.5, \"rope_type\"", "is not 1, which this family"},
        {"minimax_m2", "\"rms_norm_eps\"", "\"scoring_func\": \"softmax\", \"rms_norm_eps\"",
         "\"softmax\" is not supported, only sigmoid"},
        {"flex_olmo", "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "\"gelu\" is not supported, only silu"},
        {"mellum", "\"dense\"", "\"thick\"", "its \"mlp_layer_types\" has \"thick\" for layer 0"},
        {"mellum", "\"full_attention\": {", "\"half_attention\": {",
         "its \"rope_parameters\" have a \"half_attention\""},
        {"mellum", "\"rope_theta\": 64.0", "\"rope_theta\": 64.0, \"partial_rotary_factor\": 0.5",
         "its \"partial_rotary_factor\" of sliding_attention layers is not 1"},
        {"deepseek_v3_halves", "\"attention_bias\": false", "\"attention_bias\": true",
         "\"true\" is not supported, only false"},
        {"glm4_moe_lite", "\"rope_type\"", "\"partial_rotary_factor\": 0.5, \"rope_type\"",
         "is not 1, which is not supported"},
        {"youtu", "\"attention_bias\": false", "\"attention_bias\": true", "\"true\" is not supported, only false"},
        {"exaone_moe", "\"num_shared_experts\": 2", "\"num_shared_experts\": 0",
         "its \"num_shared_experts\" is not a number of experts from 1 to 1024"},
        {"kimi_k2", "\"n_group\": 1", "\"n_group\": 1, \"scoring_func\": \"softmax\"", "only sigmoid"},
        {"qwen2_moe", "\"qkv_bias\": true", "\"qkv_bias\": false", "tensors that this model does not have"},
        {"qwen2_moe", "\"shared_expert_intermediate_size\": 16", "\"shared_expert_intermediate_size\": 20",
         "mlp.shared_expert.gate_proj.weight is fp32 (16, 24) and not (20, 24)"},
    };
    expect_all_refused(rows, sizeof rows / sizeof rows[0]);
}

// transformers can store the experts of a layer as one tensor, which one sentence says.
TEST(fused_experts) {
    struct spoiled spoiled = copy_model("mixtral");
    rewrite(&spoiled, &(struct change){.tensor = "model.layers.0.block_sparse_moe.experts.0.w1.weight",
                                       .renamed = "model.layers.0.mlp.experts.gate_up_proj"});
    EXPECT_ERROR(open_model(spoiled.path), "has fused experts (model.layers.0.mlp.experts.gate_up_proj), which are not "
                                           "supported for mixtral; save it again with "
                                           "save_pretrained(save_original_format=True)");
    EXPECT(!strstr(error_message(), "w3.weight"));
    temporary_remove(&spoiled.folder);
}

TEST(other_families_of_experts) {
    static const struct other_family rows[] = {
        {"mixtral", "llama", "llama has no --num-experts 4"},
        {"mixtral", "qwen3_moe", "qwen3_moe has no --qk-layernorm false"},
        {"qwen3_moe", "qwen3", "qwen3 has no --num-experts 4"},
        {"qwen3_moe", "mixtral", "mixtral has no --qk-layernorm true"},
        {"olmoe", "qwen3_moe", "qwen3_moe has no --qk-layernorm-all-heads true"},
        {"qwen2_moe", "mixtral", "mixtral has no"},
        {"gpt_oss", "mixtral", "mixtral has no"},
        {"mixtral", "gpt_oss", "gpt_oss has no"},
        {"granitemoe", "mixtral", "mixtral has no --embedding-multiplier 12"},
        {"granitemoe", "granitemoeshared", NULL},
        {"granitemoeshared", "granitemoe", "granitemoe has no --moe-shared-expert-intermediate-size 14"},
        {"glm4_moe", "deepseek_v3", "deepseek_v3 has no --multi-latent-attention false"},
        {"deepseek_v3", "glm4_moe", "glm4_moe has no --multi-latent-attention true"},
        {"kimi_k2", "deepseek_v3", NULL},
        {"deepseek_v3", "kimi_k2", NULL},
        {"dots1", "glm4_moe", "glm4_moe has no"},
        {"deepseek_v3_halves", "glm4_moe_lite", NULL},
        {"glm4_moe_lite", "deepseek_v3", "deepseek_v3 has no --moe-layer-freq"},
        {"deepseek_v3_halves", "deepseek_v2", "deepseek_v2 has no"},
        {"youtu", "llama", "llama has no"},
        {"exaone_moe", "dots1", "dots1 has no --no-rope-freq 2"},
        {"solar_open", "glm4_moe", NULL},
        {"glm4_moe", "solar_open", "solar_open has no"},
        {"flex_olmo", "olmoe", "olmoe has no --norm-placement output"},
        {"minimax_m2", "mixtral", "mixtral has no"},
        {"mellum", "qwen3_moe", "qwen3_moe has no"},
        {"qwen3_moe", "mellum", "mellum has no models without a window"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_family(&rows[i]);
}

// Matrices in MXFP4 are written in bf16, with the bits that transformers gives them.
TEST(mxfp4) {
    struct temporary folder = temporary_create();
    char *hf = file_join(folder.path, "hf"), *expected_path = file_join(golden, "gpt_oss_mxfp4.safetensors");
    struct model_source source = open_golden("gpt_oss_mxfp4");
    EXPECT_OK(model_write_huggingface(&(struct model_write){.source = &source, .folder = hf, .shard_bytes = 1 << 30}));
    model_source_close(&source);
    struct safetensors expected;
    EXPECT_OK(safetensors_open(&expected, expected_path));
    struct weights written = {0};
    EXPECT_OK(weights_open_folder(&written, hf));
    size_t compared = 0;
    for (size_t i = 0; i < expected.count; i++) {
        const struct safetensors_tensor *tensor = &expected.tensors[i];
        const struct weight *found = weights_find(&written, tensor->name);
        if (strncmp(tensor->name, "model.", 6) != 0)
            continue;
        EXPECT(found && found->dtype == DTYPE_BF16 && found->bytes == tensor->bytes);
        EXPECT(found && memcmp(found->data, tensor->data, tensor->bytes) == 0);
        compared++;
    }
    EXPECT_INT(compared, 2);
    struct json *root = NULL;
    char *path = file_join(hf, "config.json");
    EXPECT_OK(json_parse_file(&root, path, 1 << 20));
    EXPECT(json_member(root, "quantization_config") == NULL);
    json_free(root);
    safetensors_close(&expected);
    weights_close(&written);
    free(path);
    free(expected_path);
    free(hf);
    temporary_remove(&folder);
}

// Every 4-bit number with every scale, beside the exact product; the largest scale gives infinities.
TEST(mxfp4_numbers) {
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    unsigned char blocks[MXFP4_BLOCK / 2];
    for (int i = 0; i < MXFP4_BLOCK / 2; i++)
        blocks[i] = (unsigned char)(i | (15 - i) << 4);
    for (int scale = 0; scale < 256; scale++) {
        unsigned char byte = (unsigned char)scale;
        uint16_t bits[MXFP4_BLOCK];
        hf_dequantize_mxfp4(bits, blocks, &byte, MXFP4_BLOCK);
        for (int i = 0; i < MXFP4_BLOCK; i++) {
            int code = i % 2 ? 15 - i / 2 : i / 2;
            uint32_t wide = (uint32_t)bits[i] << 16;
            float found;
            memcpy(&found, &wide, sizeof found);
            double exact =
                (code & 8 ? -1 : 1) * values[code & 7] * (scale == 255 ? (double)INFINITY : exp2(scale - 127));
            EXPECT(isnan(exact) ? isnan(found) : found == (float)exact);
        }
    }
}

// Megatron-LM's checkpoints say which losses balance experts, one or a list of them.
TEST(losses_of_megatron) {
    struct model_source source = open_golden("megatron_experts_grouped");
    struct config_balance balance = config_balance(&source.config.model);
    EXPECT(balance.batch == 0.01 && balance.sequence == 1e-4 && balance.global == 0);
    EXPECT(source.config.model.moe_router_dtype == ROUTER_DTYPE_FP32);  // it says fp64
    model_source_close(&source);
    source = open_golden("megatron_experts_packed");
    balance = config_balance(&source.config.model);
    EXPECT(balance.batch == 0 && balance.sequence == 0);
    model_source_close(&source);
}

// Models with experts that no family can express; each flag is set on a model that one can.
TEST(inexpressible_experts) {
    static const struct {
        const char *model, *flag, *value, *message;  // NULL: it can be written
    } rows[] = {
        {"mixtral", "--moe-router-score-function", "sigmoid", "mixtral has no --moe-router-score-function sigmoid"},
        {"mixtral", "--moe-router-pre-softmax", "true", "mixtral has no --moe-router-pre-softmax true"},
        {"mixtral", "--moe-router-topk-scaling-factor", "2.5", "mixtral has no --moe-router-topk-scaling-factor 2.5"},
        {"mixtral", "--moe-router-num-groups", "2", "mixtral has no --moe-router-num-groups 2"},
        {"mixtral", "--moe-router-group-topk", "2", "mixtral has no --moe-router-group-topk 2"},
        {"mixtral", "--moe-expert-capacity-factor", "1.5", NULL},  // only training drops tokens
        {"mixtral", "--moe-layer-freq", "[0,1]", "mixtral has no --moe-layer-freq [0,1]"},
        {"mixtral", "--moe-layer-freq", "[1]*2", NULL},
        {"mixtral", "--ffn-hidden-size", "99", NULL},  // no layer has that width
        {"qwen3_moe", "--moe-layer-freq", "2", NULL},
        {"qwen2_moe", "--moe-router-pre-softmax", "false", NULL},
        {"qwen2_moe", "--moe-router-score-function", "sigmoid", "has no --moe-router-score-function sigmoid"},
        {"gpt_oss", "--glu-linear-offset", "0", "gpt_oss has no --glu-linear-offset 0"},
        {"gpt_oss", "--activation-func-clamp-value", "3", NULL},
        {"mixtral", "--activation-func-clamp-value", "3", "mixtral has no --activation-func-clamp-value 3"},
        {"olmoe", "--moe-layer-freq", "2", "nearest: qwen3_moe has no --qk-layernorm-all-heads true"},
        {"qwen3_moe", "--moe-shared-expert-intermediate-size", "8", "has no --moe-shared-expert-intermediate-size 8"},
        {"llama", "--moe-router-topk", "3", NULL},  // without experts it says nothing
    };
    struct flag_table table = config_flag_table(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct temporary folder = temporary_create();
        char *hf = file_join(folder.path, "hf"), *gguf = file_join(folder.path, "model.gguf");
        struct model_source source = open_golden(rows[i].model);
        struct model_write write = {.source = &source, .folder = hf, .shard_bytes = 1 << 30};
        EXPECT_OK(flag_set(&table, &source.config, rows[i].flag, rows[i].value, FLAG_FROM_COMMAND));
        if (rows[i].message)
            EXPECT_ERROR(model_write_huggingface(&write), rows[i].message);
        else
            EXPECT_OK(model_write_huggingface(&write));
        EXPECT(file_exists(hf) == !rows[i].message);
        write.folder = gguf;
        if (source.config.model.num_experts > 0)
            // Of what Hugging Face can express, the tokenizer is missing, or llama.cpp has no such model.
            EXPECT_ERROR(model_write_gguf(&write), rows[i].message ? rows[i].message : "");
        EXPECT(!file_exists(gguf));
        model_source_close(&source);
        free(gguf);
        free(hf);
        temporary_remove(&folder);
    }
}

TEST_MAIN(TEST_CASE(refused_experts), TEST_CASE(fused_experts), TEST_CASE(other_families_of_experts), TEST_CASE(mxfp4),
          TEST_CASE(mxfp4_numbers), TEST_CASE(losses_of_megatron), TEST_CASE(inexpressible_experts))
