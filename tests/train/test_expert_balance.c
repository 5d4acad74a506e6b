// The balance of experts in metrics: of an iteration and of an interval, by hand-made counts.
#include "base/memory.h"
#include "test.h"
#include "train/meter.h"
#include "words.h"

#include <stdlib.h>

static void parse(struct config *config, const char *flags) {
    char *line = memory_string(flags);
    struct string_list words = {0};
    split_words(&words, line);
    EXPECT_OK(config_parse(config, (int)words.count, words.items));
    string_list_free(&words);
    free(line);
}

TEST(an_iteration_and_an_interval) {
    struct config config;
    struct expert_balance balance;
    struct metrics metrics = {0};
    parse(&config, "train --mock-data --num-layers 3 --hidden-size 8 --num-attention-heads 2 --seq-length 8 "
                   "--num-experts 4 --moe-layer-freq [0,1,1]");
    expert_balance_open(&balance, &config);
    EXPECT_INT(balance.layers, 2);
    // 12 tokens with two experts each.
    const float first[] = {6, 6, 6, 6, 12, 12, 0, 0}, second[] = {12, 4, 4, 4, 0, 12, 12, 0};
    expert_balance_tell(&balance, first, &metrics);
    EXPECT_INT(metrics.expert_layer_count, 2);
    EXPECT_INT(metrics.expert_layers[0].layer, 1);
    EXPECT_INT(metrics.expert_layers[1].layer, 2);
    EXPECT_NEAR(metrics.expert_layers[0].balance, 1, 0);
    EXPECT_NEAR(metrics.expert_layers[1].balance, 2, 0);
    EXPECT_INT(metrics.expert_layers[0].idle, 0);
    EXPECT_INT(metrics.expert_layers[1].idle, 2);
    EXPECT_NEAR(metrics.expert_balance, 1.5, 0);
    EXPECT_INT(metrics.idle_experts, 2);
    // Nothing was added yet.
    expert_balance_tell(&balance, NULL, &metrics);
    EXPECT_INT(metrics.expert_layer_count, 0);
    expert_balance_add(&balance, first);
    expert_balance_add(&balance, second);
    expert_balance_add(&balance, NULL);
    expert_balance_tell(&balance, NULL, &metrics);
    EXPECT_NEAR(metrics.expert_layers[0].balance, 18 / 12.0, 0);
    EXPECT_NEAR(metrics.expert_layers[1].balance, 24 / 12.0, 0);
    EXPECT_INT(metrics.idle_experts, 1);
    expert_balance_clear(&balance);
    expert_balance_add(&balance, second);
    expert_balance_tell(&balance, NULL, &metrics);
    EXPECT_NEAR(metrics.expert_layers[0].balance, 2, 0);
    expert_balance_close(&balance);
    config_free(&config);
}

// Layers of multi-token prediction are like the last one, and are numbered after it.
TEST(depths) {
    struct config config;
    struct expert_balance balance;
    struct metrics metrics = {0};
    parse(&config, "train --mock-data --num-layers 3 --hidden-size 8 --num-attention-heads 2 --seq-length 8 "
                   "--num-experts 2 --moe-layer-freq [1,0,1] --mtp-num-layers 2");
    expert_balance_open(&balance, &config);
    const float counts[] = {6, 6, 9, 3, 12, 0, 4, 8};
    expert_balance_tell(&balance, counts, &metrics);
    const int64_t layers[] = {0, 2, 3, 4};
    EXPECT_INT(metrics.expert_layer_count, 4);
    for (int i = 0; i < 4; i++)
        EXPECT_INT(metrics.expert_layers[i].layer, layers[i]);
    EXPECT_NEAR(metrics.expert_layers[2].balance, 2, 0);
    expert_balance_close(&balance);
    config_free(&config);
}

TEST(a_model_without_experts) {
    struct config config;
    struct expert_balance balance;
    struct metrics metrics = {0};
    parse(&config, "train --mock-data --num-layers 3 --hidden-size 8 --num-attention-heads 2 --seq-length 8");
    expert_balance_open(&balance, &config);
    expert_balance_add(&balance, NULL);
    expert_balance_tell(&balance, NULL, &metrics);
    EXPECT_INT(metrics.expert_layer_count, 0);
    expert_balance_close(&balance);
    config_free(&config);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(an_iteration_and_an_interval), TEST_CASE(depths),
                                      TEST_CASE(a_model_without_experts)};
    return test_main(cases, sizeof cases / sizeof cases[0]);
}
