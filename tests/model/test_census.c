// What models consist of: parameters against published counts, FLOPs against Megatron's formula, which is written out
// here with the sizes given by the flags.
#include "config/parse_line.h"
#include "model/census.h"
#include "test.h"
#include <math.h>

static struct config config;

static void take_preset(const char *name, const char *flags) {
    char *line = memory_printf(
        "--preset %s --micro-batch-size 1 --train-iters 1 --lr 1 --mock-data --vocab-size 50257 %s", name, flags);
    EXPECT_OK(parse_line(&config, line));
    free(line);
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_OK(config_pad_vocab(&config, 50257));
}

// Published parameter counts. GPT-2's are exact; the others are compared to the printed digits.
TEST(published_counts) {
    static const struct {
        const char *name;
        int64_t vocab;
        double published, tolerance;
    } known[] = {
        {"gpt2-124m", 50257, 124439808, 0},      {"gpt2-355m", 50257, 354823168, 0},
        {"gpt2-774m", 50257, 774030080, 0},      {"gpt2-1558m", 50257, 1557611200, 0},
        {"gpt3-125m", 50257, 125e6, 0.02},       {"gpt3-350m", 50257, 350e6, 0.02},
        {"gpt3-760m", 50257, 760e6, 0.02},       {"gpt3-1.3b", 50257, 1.3e9, 0.02},
        {"gpt3-2.7b", 50257, 2.7e9, 0.02},       {"gpt3-6.7b", 50257, 6.7e9, 0.02},
        {"gpt3-13b", 50257, 13e9, 0.02},         {"gpt3-175b", 50257, 175e9, 0.003},
        {"megatron-1.7b", 51200, 1.7e9, 0.03},   {"megatron-3.6b", 51200, 3.6e9, 0.014},
        {"megatron-7.5b", 51200, 7.5e9, 0.0067}, {"megatron-18b", 51200, 18.4e9, 0.0028},
        {"megatron-39b", 51200, 39.1e9, 0.0013}, {"megatron-76b", 51200, 76.1e9, 0.0007},
        {"megatron-145b", 51200, 145.6e9, 4e-4}, {"megatron-310b", 51200, 310.1e9, 2e-4},
        {"megatron-530b", 51200, 529.6e9, 1e-4}, {"megatron-1t", 51200, 1008.0e9, 5e-5},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        take_preset(known[i].name, "");
        EXPECT_INT(config.model.padded_vocab_size, known[i].vocab == 51200 ? 51200 : 50304);
        EXPECT_INT(config.run.seq_length, config.model.max_position_embeddings);
        config.model.padded_vocab_size = known[i].vocab;
        double count = (double)census_parameters(&config);
        if (fabs(count / known[i].published - 1) > known[i].tolerance)
            test_fail("%s has %.0f parameters, published are %.0f", known[i].name, count, known[i].published);
    }
}

// 13 terms of a layer with odd sizes, by hand: kv-channels and ffn chosen freely.
TEST(odd_sizes) {
    EXPECT_OK(parse_line(&config,
                         "--num-layers 2 --hidden-size 6 --num-attention-heads 2 --kv-channels 5 --ffn-hidden-size 7 "
                         "--seq-length 4 --max-position-embeddings 9 --padded-vocab-size 11"));
    int64_t qkv = 6 * 30 + 30, projection = 10 * 6 + 6, mlp = 6 * 7 + 7 + 7 * 6 + 6, norms = 2 * 12;
    EXPECT_INT(census_parameters(&config), 2 * (qkv + projection + mlp + norms) + 12 + (11 + 9) * 6);
}

// DeepSeek-V2-Lite's attention, whose queries have no latent, and one with a latent: parameters and FLOPs by hand. The
// FLOPs of attention itself are those of queries and keys 192 wide and values 128 wide.
TEST(latents) {
    for (int rank = 0; rank <= 1536; rank += 1536) {
        char *line =
            memory_printf("--num-layers 3 --hidden-size 2048 --num-attention-heads 16 --multi-latent-attention "
                          "--q-lora-rank %d --kv-lora-rank 512 --qk-layernorm --ffn-hidden-size 100 --swiglu "
                          "--disable-bias-linear --normalization RMSNorm --position-embedding-type rope "
                          "--seq-length 64 --padded-vocab-size 1000 --vocab-size 1000 --micro-batch-size 1 "
                          "--train-iters 1 --lr 1 --mock-data",
                          rank);
        EXPECT_OK(parse_line(&config, line));
        free(line);
        EXPECT_OK(config_validate(&config, 1));
        int64_t q = rank ? 2048 * 1536 + 1536 * 16 * 192 : 2048 * 16 * 192;
        int64_t kv = 2048 * (512 + 64) + 512 * 16 * (128 + 128), matrices = q + kv + 16 * 128 * 2048 + 3 * 2048 * 100;
        EXPECT_INT(census_parameters(&config), 3 * (matrices + 2 * 2048 + rank + 512) + 2048 + 1000 * 2048);
        struct census census = census_take(&config);
        double want = 6 * 64.0 * (double)(3 * matrices + 1000 * 2048) + 3 * 64.0 * 64 * 16 * (192 + 128) * 3;
        EXPECT_NEAR(census_flops(&census, &config, 1) / want, 1, 1e-12);
    }
}

// Mixtral 8x7B, whose counts Mistral AI prints as 46.7 and 12.9 billion, by hand. FLOPs are those of what is active,
// without routers.
TEST(experts) {
    EXPECT_OK(parse_line(
        &config, "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention "
                 "--num-query-groups 8 --ffn-hidden-size 14336 --swiglu --disable-bias-linear --normalization "
                 "RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights --seq-length 2048 "
                 "--padded-vocab-size 32000 --vocab-size 32000 --num-experts 8 --micro-batch-size 1 "
                 "--train-iters 1 --lr 1 --mock-data"));
    EXPECT_OK(config_validate(&config, 1));
    EXPECT_INT(census_parameters(&config), 46702792704);
    EXPECT_INT(census_active_parameters(&config), 12879925248);
    struct census census = census_take(&config);
    double attention = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096, expert = 3.0 * 4096 * 14336;
    double want = 6 * 2048.0 * (32 * (attention + 2 * expert) + 4096.0 * 32000) + 6 * 2048.0 * 2048 * 4096 * 32;
    EXPECT_NEAR(census_flops(&census, &config, 1) / want, 1, 1e-12);
    // Weights that begin as 0 are not biases.
    config.model.init_method_std = 0;
    census = census_take(&config);
    EXPECT_NEAR(census_flops(&census, &config, 1) / want, 1, 1e-12);
    // Two of six layers dense, narrower experts with biases, and a shared one.
    EXPECT_OK(parse_line(&config, "--num-layers 3 --hidden-size 6 --num-attention-heads 2 --ffn-hidden-size 7 "
                                  "--seq-length 4 --padded-vocab-size 11 --num-experts 5 --moe-ffn-hidden-size 4 "
                                  "--moe-layer-freq [0]*2+[1] --moe-router-topk 3"));
    int64_t same = 6 * 18 + 18 + 6 * 6 + 6 + 2 * 12, dense = 6 * 7 + 7 + 7 * 6 + 6, one = 6 * 4 + 4 + 4 * 6 + 6;
    int64_t rest = 12 + (11 + 4) * 6, router = 5 * 6 + 5;
    config.model.max_position_embeddings = 4;
    config.model.kv_channels = 3;
    EXPECT_INT(census_parameters(&config), 3 * same + 2 * dense + router + 5 * one + rest);
    EXPECT_INT(census_active_parameters(&config), 3 * same + 2 * dense + router + 3 * one + rest);
}

// A depth has three norms, a matrix of 2 h^2, a layer like the last one, and uses the output layer once more. The FLOPs
// are those of Megatron's formula, which counts the gains of its norms too.
TEST(depths) {
    EXPECT_OK(parse_line(&config,
                         "--num-layers 3 --hidden-size 6 --num-attention-heads 2 --kv-channels 3 "
                         "--ffn-hidden-size 7 --seq-length 4 --max-position-embeddings 4 --padded-vocab-size 11 "
                         "--num-experts 5 --moe-ffn-hidden-size 4 --moe-layer-freq [0]*2+[1] "
                         "--moe-router-topk 3 --mtp-num-layers 2"));
    int64_t same = 6 * 18 + 18 + 6 * 6 + 6 + 2 * 12, dense = 6 * 7 + 7 + 7 * 6 + 6, one = 6 * 4 + 4 + 4 * 6 + 6;
    int64_t rest = 12 + (11 + 4) * 6, router = 5 * 6 + 5, depth = 3 * 12 + 2 * 36;
    EXPECT_INT(census_parameters(&config), 5 * same + 2 * dense + 3 * (router + 5 * one) + 2 * depth + rest);
    EXPECT_INT(census_active_parameters(&config), 5 * same + 2 * dense + 3 * (router + 3 * one) + 2 * depth + rest);
    double products = 2 * (2 * 6 * 7) + 3 * (3 * 2 * 6 * 4) + 5 * (6 * 18 + 6 * 6) + 2 * (2 * 36 + 3 * 6) + 3 * 6 * 11;
    struct census census = census_take(&config);
    EXPECT(census_flops(&census, &config, 7) == 6 * 7 * 4 * products + 6 * 7 * 4 * 4 * 6 * 5);
}

// 6 B s [L h f 2 + L (h (q + 2k) + q h) + h V] + 6 B s^2 q L, with q = heads * head size and k the same for key/value
// heads; 3 in place of 2 if the MLP is gated, and attention that is not causal counts twice.
static double attention_products(void) {
    double h = (double)config.model.hidden_size, heads = (double)config.model.num_attention_heads;
    double q = heads * (double)config.model.kv_channels;
    double k = (double)config_query_groups(&config.model) * (double)config.model.kv_channels;
    if (!config.model.multi_latent_attention)
        return h * (q + 2 * k) + q * h;
    // By way of latents.
    double q_rank = (double)config.model.q_lora_rank, kv_rank = (double)config.model.kv_lora_rank,
           v = (double)config.model.v_head_dim;
    double queries = q_rank > 0 ? q_rank * (h + q) : h * q;
    return queries + h * (kv_rank + (double)config.model.qk_pos_emb_head_dim) +
           kv_rank * heads * ((double)config.model.qk_head_dim + v) + heads * v * h;
}

static double stack_products(int64_t layers, int attentions) {
    double h = (double)config.model.hidden_size, f = (double)config.model.ffn_hidden_size;
    // Of a layer with experts, those that a token goes to and the shared ones.
    double chosen = (double)(config.model.moe_router_topk * config_expert_width(&config.model));
    double widths = f * (double)layers, shared = (double)config.model.moe_shared_expert_intermediate_size;
    widths += (chosen + shared - f) * (double)config_expert_layers(&config.model);
    return h * widths * (config_is_gated(&config.model) ? 3 : 2) + (double)layers * attentions * attention_products();
}

static double formula(double B) {
    double s = (double)config.run.seq_length, S = (double)config.run.decoder_seq_length;
    double q = (double)config.model.num_attention_heads *
               (double)(config.model.kv_channels + config_value_channels(&config.model)) / 2;
    double h = (double)config.model.hidden_size, e = (double)config_word_embedding_size(&config.model);
    double head = e * (double)config.model.padded_vocab_size + (e != h ? 2 * e * h : 0);
    int64_t encoder = config_encoder_layers(&config.model), decoder = config_decoder_layers(&config.model);
    if (config.model.form == CONFIG_GPT)
        return 6 * B * s * (stack_products(decoder, 1) + head) + 6 * B * s * s * q * (double)decoder;
    double both = 12 * B * s * s * q * (double)encoder;
    if (config.model.form == CONFIG_BERT)
        return 6 * B * s * (stack_products(encoder, 1) + head) + both;
    return 6 * B * s * stack_products(encoder, 1) + both +
           (6 * B * S * (stack_products(decoder, 2) + head) + 6 * B * S * S * q * (double)decoder +
            12 * B * S * s * q * (double)decoder);
}

// Exact to the bit, because their sums are stored in checkpoints.
TEST(flops_are_megatrons) {
    for (size_t i = 0; config_preset_name(i); i++) {
        take_preset(config_preset_name(i), "");
        struct census census = census_take(&config);
        for (int64_t batch = 1; batch < 3000; batch = 3 * batch + 5)
            if (census_flops(&census, &config, batch) != formula((double)batch))
                test_fail("%s: %.17g FLOPs, Megatron counts %.17g", config_preset_name(i),
                          census_flops(&census, &config, batch), formula((double)batch));
    }
    take_preset("gpt2-355m", "--untie-embeddings-and-output-weights");
    struct census census = census_take(&config);
    EXPECT(census_flops(&census, &config, 8) == formula(8));
    config.model.padded_vocab_size = 50304;
    census = census_take(&config);
    EXPECT_NEAR(census_flops(&census, &config, 8), 1.8612240777216e13, 1e-12);
    config_free(&config);
}

TEST_MAIN(TEST_CASE(published_counts), TEST_CASE(odd_sizes), TEST_CASE(latents), TEST_CASE(experts), TEST_CASE(depths),
          TEST_CASE(flops_are_megatrons))
