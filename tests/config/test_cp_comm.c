// How context-parallel ranks share attention: which of them exchange heads in a layer. What does not divide is refused
// with the flags to change.
#include "parse_line.h"
#include "test.h"
#include "base/memory.h"
#include "config/config.h"

#include <stdlib.h>

static struct config config;

#define MODEL                                                                                                          \
    "--num-layers 3 --hidden-size 48 --num-attention-heads 24 --seq-length 96 --vocab-size 100 --mock-data "           \
    "--micro-batch-size 2 --train-iters 100 --lr 1e-3 "
#define SIZES "--hierarchical-context-parallel-sizes "

static int validate(const char *line, int world_size) {
    TRY(parse_line(&config, line));
    return config_validate(&config, world_size);
}

TEST(what_does_not_fit_is_refused) {
    static const struct {
        const char *flags, *message;
        int ranks;
    } bad[] = {
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p",
         "needs --hierarchical-context-parallel-sizes; give A B, with A × B = --context-parallel-size", 4},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p " SIZES "2 3",
         "2 3 are 6 ranks, but --context-parallel-size is 4; give sizes whose product it is", 4},
        {"--context-parallel-size 4 --cp-comm-type p2p " SIZES "4 4", "are 16 ranks", 4},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p " SIZES "4",
         "takes two numbers, not 1; give A B, with A × B = 4, e.g. 2 2: A neighbours exchange heads", 4},
        {"--context-parallel-size 8 --cp-comm-type a2a+p2p " SIZES "2 2 2",
         "takes two numbers, not 3; give A B, with A × B = 8, e.g. 2 4", 8},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p " SIZES "2 two",
         "has \"two\", which is not a number of ranks", 4},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p " SIZES "-2 -2",
         "has \"-2\", which is not a number of ranks", 4},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p " SIZES "0 4",
         "has \"0\", which is not a number of ranks; give A B, with A × B = 4, e.g. 2 2", 4},
        {"--context-parallel-size 3 --cp-comm-type a2a+p2p " SIZES "0 3", "A × B = 3, e.g. 3 1", 3},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p " SIZES "2 2 --group-query-attention --num-query-groups 3",
         "a2a+p2p cannot share --num-query-groups 3 among 2 ranks (the first of --hierarchical-context-parallel-sizes, "
         "2 × --tensor-model-parallel-size 1); give p2p, or sizes whose product divides it",
         4},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p " SIZES "2 2 --group-query-attention --num-query-groups 6 "
         "--tensor-model-parallel-size 2",
         "a2a+p2p cannot share --num-query-groups 6 among 4 ranks", 8},
        {"--context-parallel-size 16 --cp-comm-type a2a+p2p p2p a2a " SIZES "2 8",
         "a2a cannot share --num-attention-heads 24 among 16 ranks", 16},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p p2p " SIZES "2 2", "has 2 values for 3 layers", 4},
        {"--context-parallel-size 4 --cp-comm-type p2p+a2a " SIZES "2 2", "give p2p, all_gather, a2a or a2a+p2p", 4},
        {"--context-parallel-size 4 --cp-comm-type a2a+p2p " SIZES "2 2 --model t5 --decoder-seq-length 96",
         "a2a+p2p does not work with --model t5", 4},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *line = memory_printf(MODEL "%s", bad[i].flags);
        EXPECT_ERROR(validate(line, bad[i].ranks), bad[i].message);
        free(line);
    }
}

TEST(each_layer_has_its_ranks) {
    // More ranks than heads: 16 context-parallel ranks, of which 2 or 4 exchange 24 heads.
    EXPECT_OK(validate(MODEL "--context-parallel-size 16 --cp-comm-type a2a+p2p " SIZES "2 8", 16));
    EXPECT_INT(config_layer_head_ranks(&config, 0), 2);
    EXPECT_INT(config_layer_head_ranks(&config, 2), 2);
    EXPECT_INT(config_near_ranks(&config), 2);
    EXPECT_OK(validate(MODEL "--context-parallel-size 8 --cp-comm-type p2p a2a+p2p a2a " SIZES "4 2", 8));
    EXPECT_INT(config_layer_head_ranks(&config, 0), 1);
    EXPECT_INT(config_layer_head_ranks(&config, 1), 4);
    EXPECT_INT(config_layer_head_ranks(&config, 2), 8);
    EXPECT_INT(config_head_ranks(&config), 8);
    EXPECT_INT(config_near_ranks(&config), 4);
    // One group is a2a, groups of one are p2p.
    EXPECT_OK(validate(MODEL "--context-parallel-size 8 --cp-comm-type a2a+p2p " SIZES "8 1", 8));
    EXPECT_INT(config_head_ranks(&config), 8);
    EXPECT_INT(config_near_ranks(&config), 1);
    EXPECT_OK(validate(MODEL "--context-parallel-size 8 --cp-comm-type a2a+p2p " SIZES "1 8", 8));
    EXPECT_INT(config_head_ranks(&config), 1);
    EXPECT_INT(config_near_ranks(&config), 1);
    // Sizes have no effect on layers that do not name them, nor on a rank that has its sequences alone.
    EXPECT_OK(validate(MODEL "--context-parallel-size 8 --cp-comm-type p2p " SIZES "4 2", 8));
    EXPECT_INT(config_head_ranks(&config), 1);
    EXPECT_INT(config_near_ranks(&config), 1);
    EXPECT_OK(validate(MODEL "--cp-comm-type a2a+p2p " SIZES "4 2", 1));
    EXPECT_INT(config_head_ranks(&config), 1);
    EXPECT_INT(config_near_ranks(&config), 1);
    config_free(&config);
}

TEST_MAIN(TEST_CASE(what_does_not_fit_is_refused), TEST_CASE(each_layer_has_its_ranks))
