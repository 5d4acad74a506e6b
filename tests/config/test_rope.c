// Flags of rotary scaling: lists of factors, what LongRoPE needs and does not go with, its default factor.
#include "parse_line.h"
#include "test.h"
#include "base/error.h"
#include "config/config.h"

#include <math.h>

#define MODEL "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --vocab-size 100 --mock-data "
#define RUN MODEL "--micro-batch-size 2 --train-iters 100 --lr 1e-3 --position-embedding-type rope "
#define LONGROPE RUN "--use-rope-scaling --rope-scaling-type longrope --rope-original-length 8 "

static struct config config;

static int validate(const char *line) {
    TRY(parse_line(&config, line));
    return config_validate(&config, 1);
}

TEST(lists) {
    double factors[3] = {0};
    EXPECT_INT(config_rope_factors(NULL, factors, 3), 0);
    EXPECT_INT(config_rope_factors("1", factors, 3), 1);
    EXPECT_INT(config_rope_factors("1.5,2e1,0.25", factors, 3), 3);
    EXPECT(factors[0] == 1.5 && factors[1] == 20 && factors[2] == 0.25);
    EXPECT_INT(config_rope_factors("1,2,3,4,5", factors, 2), 5);
    static const char *const bad[] = {"", ",", "1,", ",1", "1;2", "1,x", "0", "-1", "nan", "inf", "1 ,2", "1,1e-300"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_INT(config_rope_factors(bad[i], factors, 3), -1);
}

TEST(refusals) {
    static const struct {
        const char *line, *message;
    } rows[] = {
        {LONGROPE, "needs --rope-long-factor"},
        {LONGROPE "--rope-long-factor 1,x", "--rope-long-factor is not a list of numbers of at least 1e-6"},
        {LONGROPE "--rope-long-factor 1,2,3", "--rope-long-factor has 3 numbers, but 4 pairs"},
        {LONGROPE "--rope-long-factor 1,2,3,4 --rope-short-factor 1", "--rope-short-factor has 1 numbers"},
        {LONGROPE "--rope-long-factor 1,2,3,4 --rotary-percent 0.5", "but 2 pairs"},
        {LONGROPE "--rope-long-factor 1,2,3,4 --rope-original-length 1", "--rope-original-length of at least 2"},
        {LONGROPE "--rope-long-factor 1,2,3,4 --reset-position-ids", "--reset-position-ids does not go with"},
        {RUN "--rope-long-factor 1,2,3,4", "--use-rope-scaling --rope-scaling-type longrope"},
        {RUN "--max-position-embeddings 31", "shorten the one or raise the other"},
        {RUN "--max-position-embeddings 31 --use-rope-scaling --rope-scaling-type dynamic --rope-scaling-factor 2",
         "shorten it: with dynamic rotary scaling"},
        {LONGROPE "--rope-long-factor 1,2,3,4 --position-embedding-type none", "--position-embedding-type rope"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        EXPECT_ERROR(validate(rows[i].line), rows[i].message);
    config_free(&config);
}

TEST(factor) {
    EXPECT_OK(validate(LONGROPE "--rope-long-factor 1,2,3,4 --max-position-embeddings 64"));
    EXPECT_NEAR(config.model.rope_scaling_factor, 8, 0);
    EXPECT_NEAR(config_rope_attention_factor(&config.model), sqrt(1 + log(8) / log(8)), 1e-15);
    EXPECT_OK(validate(LONGROPE "--rope-long-factor 1,2,3,4 --rope-scaling-factor 2 --seq-length 8 "
                                "--reset-position-ids"));
    EXPECT_NEAR(config_rope_attention_factor(&config.model), sqrt(1 + log(2) / log(8)), 1e-15);
    EXPECT_OK(validate(LONGROPE "--rope-long-factor 1,2,3,4 --seq-length 4"));
    EXPECT_NEAR(config_rope_attention_factor(&config.model), 1, 0);
    config_free(&config);
}

TEST_MAIN(TEST_CASE(lists), TEST_CASE(refusals), TEST_CASE(factor))
