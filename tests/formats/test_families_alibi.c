// Families with ALiBi: what would compute something else is refused by name, and the names of members that released
// models have are read.
#include "formats/families.h"

// Members that transformers' MPT ignores, and members for which BLOOM has no layers here.
TEST(refused_alibi) {
    static const struct variant rows[] = {
        {"bloom", "\"apply_residual_connection_post_layernorm\": false",
         "\"apply_residual_connection_post_layernorm\": true", "\"true\" is not supported, only false"},
        {"bloom", "\"n_head\": 6", "\"n_head\": 6, \"num_attention_heads\": 3",
         "two of its members set different values of --num-attention-heads, 6 and 3"},
        {"bloom", "\"hidden_size\": 24,", "", "--hidden-size"},
        {"mpt", "\"alibi\": true", "\"alibi\": false", "\"attn_config.alibi\": \"false\" is not supported, only true"},
        {"mpt", "\"alibi_bias_max\": 8", "\"alibi_bias_max\": 16",
         "\"attn_config.alibi_bias_max\": \"16\" is not supported, only 8"},
        {"mpt", "\"clip_qkv\": null", "\"clip_qkv\": 6", "\"attn_config.clip_qkv\": \"6\" is not supported, only null"},
        {"mpt", "\"prefix_lm\": false", "\"prefix_lm\": true", "\"attn_config.prefix_lm\": \"true\" is not supported"},
        {"mpt", "\"qk_ln\": false", "\"qk_ln\": true", "\"attn_config.qk_ln\": \"true\" is not supported"},
        {"mpt", "\"multihead_attention\"", "\"multiquery_attention\"", "\"attn_config.attn_type\""},
        {"mpt", "\"softmax_scale\": null", "\"softmax_scale\": -1", "\"attn_config.softmax_scale\""},
        {"mpt", "\"expansion_ratio\": 4", "\"expansion_ratio\": 2", "\"expansion_ratio\": \"2\" is not supported"},
        {"mpt", "\"no_bias\": true", "\"no_bias\": false", "\"no_bias\": \"false\" is not supported"},
        {"mpt", "\"logit_scale\": null", "\"logit_scale\": 0.5",
         "\"logit_scale\": \"0.5\" is not supported, only null"},
        {"mpt", "low_precision_layernorm", "rmsnorm", "\"norm_type\": \"rmsnorm\" is not supported"},
    };
    expect_all_refused(rows, sizeof rows / sizeof rows[0]);
}

// The names of members that released BLOOMs have, and an MPT whose attn_config says nothing.
TEST(other_members) {
    static const struct {
        const char *model, *from, *to;
    } rows[] = {{"bloom", "\"hidden_size\"", "\"n_embed\""},         {"bloom", "\"n_head\"", "\"num_attention_heads\""},
                {"bloom", "\"n_layer\"", "\"num_hidden_layers\""},   {"mpt", "\"attn_config\"", "\"init_config\""},
                {"mpt", "\"attn_pdrop\": 0", "\"attn_pdrop\": 0.5"}, {"mpt", "low_precision_layernorm", "layernorm"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spoiled spoiled = copy_model(rows[i].model);
        replace(&spoiled, "config.json", rows[i].from, rows[i].to);
        EXPECT_OK(open_model(spoiled.path));
        temporary_remove(&spoiled.folder);
    }
}

TEST_MAIN(TEST_CASE(refused_alibi), TEST_CASE(other_members))
