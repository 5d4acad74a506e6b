// Learning-rate and weight-decay schedules against the reference values of Megatron-LM (batch 8, 100 iterations,
// warm-up 10, highest 1e-3, lowest 1e-4, WSD tail 20), which are those logged after the given iterations.
#include "base/memory.h"
#include "optim/schedule.h"
#include "test.h"

#include <string.h>

enum { BATCH = 8 };

static struct config make(const char *style, const char *wsd_style) {
    struct config config;
    config_defaults(&config);
    free(config.run.lr_decay_style);
    config.run.lr_decay_style = memory_string(style);
    free(config.run.lr_wsd_decay_style);
    config.run.lr_wsd_decay_style = memory_string(wsd_style);
    config.run.lr = 1e-3;
    config.run.min_lr = 1e-4;
    config.run.lr_decay_steps = 100 * BATCH;
    config.run.lr_warmup_steps = 10 * BATCH;
    config.run.lr_wsd_decay_steps = 20 * BATCH;
    return config;
}

static void check(const char *style, const char *wsd_style, const double want[7]) {
    const int64_t iterations[7] = {1, 5, 10, 11, 50, 90, 100};
    struct config config = make(style, wsd_style);
    for (int i = 0; i < 7; i++) {
        double lr = schedule_lr(&config, iterations[i] * BATCH);
        if (fabs(lr - want[i]) > 5e-7 * want[i])
            test_fail("%s at iteration %d is %.6E, expected %.6E", style, (int)iterations[i], lr, want[i]);
    }
    EXPECT(schedule_lr(&config, 0) == 0);
    config_free(&config);
}

TEST(linear) {
    check("linear", "exponential", (double[]){1e-4, 5e-4, 1e-3, 9.9e-4, 6e-4, 2e-4, 1e-4});
}

TEST(cosine) {
    check("cosine", "exponential", (double[]){1e-4, 5e-4, 1e-3, 9.997259e-4, 6.281417e-4, 1.271383e-4, 1e-4});
}

TEST(inverse_square_root) {
    check("inverse-square-root", "exponential",
          (double[]){1e-4, 5e-4, 1e-3, 9.534626e-4, 4.472136e-4, 3.333333e-4, 3.162278e-4});
}

// 1e-3 exp(-0.693 (min(n, 90) - 10) / 100).
TEST(exponential) {
    check("exponential", "exponential",
          (double[]){1e-4, 5e-4, 1e-3, 9.930939571e-4, 7.579029014e-4, 5.744168079e-4, 5.744168079e-4});
}

TEST(warmup_stable_decay) {
    check("WSD", "exponential", (double[]){1e-4, 5e-4, 1e-3, 1e-3, 1e-3, 4.727922e-4, 1e-4});
    // Halfway down the tail: m + c (M - m) with c = 1/2, 1/2, 1 - sqrt(1/2).
    check("WSD", "linear", (double[]){1e-4, 5e-4, 1e-3, 1e-3, 1e-3, 5.5e-4, 1e-4});
    check("WSD", "cosine", (double[]){1e-4, 5e-4, 1e-3, 1e-3, 1e-3, 5.5e-4, 1e-4});
    check("WSD", "minus_sqrt", (double[]){1e-4, 5e-4, 1e-3, 1e-3, 1e-3, 3.636039e-4, 1e-4});
}

// fairseq's values, for exponents 2 and 1.
TEST(polynomial_decay) {
    struct config config = make("polynomial_decay", "exponential");
    const int64_t iterations[7] = {1, 5, 10, 11, 50, 90, 100};
    const double squared[7] = {1e-4, 5e-4, 1e-3, 9.80111111111111e-4, 3.777777777777778e-4, 1.1111111111111113e-4,
                               1e-4};
    config.run.lr_decay_power = 2;
    for (int i = 0; i < 7; i++)
        EXPECT(fabs(schedule_lr(&config, iterations[i] * BATCH) - squared[i]) < 1e-12);
    EXPECT(schedule_lr(&config, 0) == 0);
    config_free(&config);
    check("polynomial_decay", "exponential", (double[]){1e-4, 5e-4, 1e-3, 9.9e-4, 6e-4, 2e-4, 1e-4});
}

TEST(constant_and_beyond_the_end) {
    check("constant", "exponential", (double[]){1e-4, 5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3});
    struct config config = make("cosine", "exponential");
    EXPECT_NEAR(schedule_lr(&config, 1000 * BATCH), 1e-4, 1e-12);
    config_free(&config);
}

TEST(weight_decay) {
    struct config config = make("constant", "exponential");
    config.run.weight_decay = 0.01;
    EXPECT_NEAR(schedule_weight_decay(&config, 123), 0.01, 1e-15);
    free(config.run.weight_decay_incr_style);
    config.run.weight_decay_incr_style = memory_string("linear");
    config.run.start_weight_decay = 0.1;
    config.run.end_weight_decay = 0.3;
    config.run.wd_incr_steps = 100;
    EXPECT_NEAR(schedule_weight_decay(&config, 0), 0.1, 1e-15);
    EXPECT_NEAR(schedule_weight_decay(&config, 25), 0.15, 1e-15);
    EXPECT_NEAR(schedule_weight_decay(&config, 101), 0.3, 1e-15);
    free(config.run.weight_decay_incr_style);
    config.run.weight_decay_incr_style = memory_string("cosine");
    EXPECT_NEAR(schedule_weight_decay(&config, 50), 0.2, 1e-12);
    EXPECT_NEAR(schedule_weight_decay(&config, 0), 0.1, 1e-12);
    config_free(&config);
}

// tests/golden/make_schedule.py describes the lines.
TEST(both_groups_equal_megatron_cores) {
    static const int64_t iterations[] = {0, 1, 5, 10, 11, 50, 81, 90, 100, 101};
    FILE *file = fopen("tests/golden/schedule.txt", "r");
    EXPECT(file);
    char style[32], wsd_style[32], minimum[32];
    int lines = 0;
    for (; fscanf(file, " %31s %31s %31s", style, wsd_style, minimum) == 3; lines++) {
        struct config config = make(style, wsd_style);
        config.run.lr_warmup_init = 1e-6;
        config.run.decoupled_lr = 5e-3;
        config.run.decoupled_min_lr = strcmp(minimum, "none") == 0 ? config.run.min_lr : strtod(minimum, NULL);
        for (size_t i = 0; i < sizeof iterations / sizeof iterations[0]; i++) {
            double lr, decoupled;
            EXPECT(fscanf(file, "%lf %lf", &lr, &decoupled) == 2);
            EXPECT_NEAR(schedule_lr(&config, iterations[i] * BATCH), lr, 1e-15);
            EXPECT_NEAR(schedule_decoupled_lr(&config, iterations[i] * BATCH), decoupled, 1e-15);
        }
        config_free(&config);
    }
    fclose(file);
    EXPECT_INT(lines, 16);
}

TEST(without_a_rate_of_their_own) {
    struct config config = make("cosine", "exponential");
    for (int64_t i = 0; i <= 101; i++)
        EXPECT(schedule_decoupled_lr(&config, i * BATCH) == schedule_lr(&config, i * BATCH));
    config_free(&config);
}

TEST_MAIN(TEST_CASE(linear), TEST_CASE(cosine), TEST_CASE(exponential), TEST_CASE(inverse_square_root),
          TEST_CASE(warmup_stable_decay), TEST_CASE(polynomial_decay), TEST_CASE(constant_and_beyond_the_end),
          TEST_CASE(weight_decay), TEST_CASE(both_groups_equal_megatron_cores), TEST_CASE(without_a_rate_of_their_own))
