// --step-batch-size-schedule beside a loop, and schedules that are refused.
#include "parse_line.h"
#include "test.h"
#include "base/memory.h"
#include "config/config.h"

#include <stdlib.h>

static struct config config;

// A schedule has spaces, which lines of flags are split at.
static int validate_steps(const char *schedule, const char *flags) {
    char *line = memory_printf(
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 --mock-data "
        "--micro-batch-size 2 --lr 1e-3 %s",
        flags);
    int status = parse_line(&config, line);
    free(line);
    TRY(status);
    config.run.step_batch_size_schedule = memory_string(schedule);
    return config_validate(&config, 1);
}

// The size of every batch beside a loop over the steps, and how many there are.
TEST(batch_steps) {
    static const struct {
        const char *schedule, *flags;
        int64_t samples[3], sizes[3], train;
    } cases[] = {{"0:4", "--train-samples 103", {0, INT64_MAX, INT64_MAX}, {4, 4, 4}, 103},
                 {"0:4 3.2K:6  0.0128M:2", "--train-samples 1009", {0, 100, 400}, {4, 6, 2}, 1009},
                 {" 0:2 3_210:12 12k:4 ", "--train-samples 300", {0, 100, 375}, {2, 12, 4}, 300},
                 {"0:2 1B:4 2T:8", "--train-samples 300", {0, 31250000, 62500000000}, {2, 4, 8}, 300}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_OK(validate_steps(cases[i].schedule, cases[i].flags));
        int64_t iterations = 0, largest = 0;
        for (int64_t consumed = 0, size; consumed < cases[i].train; consumed += size) {
            size = cases[i].sizes[consumed < cases[i].samples[1] ? 0 : consumed < cases[i].samples[2] ? 1 : 2];
            EXPECT_INT(config_global_batch_size(&config, consumed), size);
            iterations += consumed + size <= cases[i].train;
        }
        for (int k = 0; k < 3; k++)
            largest = cases[i].sizes[k] > largest ? cases[i].sizes[k] : largest;
        EXPECT_INT(config.run.train_iters, iterations);
        EXPECT_INT(config.run.global_batch_size, largest);
        EXPECT(config_batch_varies(&config));
    }
    static const char *const bad[][2] = {
        {"0:8 4", "\"4\" is not TOKENS:SIZE"},         {"0:8 xB:16", "\"xB:16\" is not TOKENS:SIZE"},
        {"0:8 9e99T:16", "is not TOKENS:SIZE"},        {"0:8 1K:0", "is not TOKENS:SIZE"},
        {"0:8 2K:4 1K:8", "\"1K:8\" does not follow"}, {"0:8 1:4", "\"1:4\" does not follow"},
        {"0:8 1K:7", "7 is not a multiple"},           {" ", "is empty"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_ERROR(validate_steps(bad[i][0], "--train-samples 99"), bad[i][1]);
    EXPECT_ERROR(validate_steps("0:8", "--train-iters 9"), "--step-batch-size-schedule needs --train-samples");
    EXPECT_ERROR(validate_steps("1B:8", "--train-samples 99"), "the first step is at 0 tokens");
    EXPECT_ERROR(validate_steps("0:8", "--train-samples 99 --global-batch-size 4"), "leave it out");
    EXPECT_ERROR(validate_steps("0:8", "--train-samples 99 --rampup-batch-size 2 2 8"),
                 "does not work with --rampup-batch-size");
}

TEST_MAIN(TEST_CASE(batch_steps))
