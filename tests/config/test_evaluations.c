// Number of batches of a run's evaluation.
#include "parse_line.h"
#include "test.h"
#include "base/memory.h"
#include "config/config.h"

#include <stdlib.h>

static struct config config;

static int validate(const char *flags) {
    char *line = memory_printf(
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 --mock-data "
        "--micro-batch-size 2 --lr 1e-3 %s",
        flags);
    int status = parse_line(&config, line);
    free(line);
    TRY(status);
    return config_validate(&config, 1);
}

// A tenth of a short run, unless the flag is given; what a run chose for the moment does not stay.
TEST(scales_evaluations) {
    static const struct {
        int64_t iters, batches;
    } cases[] = {{1, 1}, {10, 1}, {11, 2}, {250, 25}, {1000, 100}, {5000, 100}, {20, 2}};
    EXPECT_OK(validate("--train-iters 100"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config.run.train_iters = cases[i].iters;
        config.run.lr_decay_iters = 0;
        EXPECT_OK(config_validate(&config, 1));
        EXPECT_INT(config.run.eval_iters, cases[i].batches);
    }
    EXPECT_OK(validate("--train-iters 100 --eval-iters 70"));
    EXPECT_INT(config.run.eval_iters, 70);
    EXPECT_OK(validate("--train-samples 1000 --global-batch-size 16"));
    EXPECT_INT(config.run.eval_iters, 7);
}

TEST_MAIN(TEST_CASE(scales_evaluations))
