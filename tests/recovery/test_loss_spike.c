// Loss spikes are found by median and median absolute deviation, and what is not a spike is not: derived numbers, odd
// batches, noise, a falling loss, a new level.
#include "base/rng.h"
#include "recovery/rewind.h"
#include "test.h"

#include <math.h>

static const double THRESHOLD = 10;

TEST(levels_are_those_of_the_definition) {
    // Median 5, deviations 0 1 1 2 2 3 3 4 4 with median 2.
    const double nine[] = {9, 1, 8, 2, 7, 3, 6, 4, 5};
    struct spike_level level = spike_level(nine, 9, 10, 0);
    EXPECT(level.median == 5);
    EXPECT_NEAR(level.limit, 5 + 10 * 1.4826 * 2, 1e-12);
    // Between the two in the middle: median 2.5, deviations 0.5 0.5 1.5 97.5 with median 1.
    const double four[] = {100, 2, 1, 3};
    level = spike_level(four, 4, 3, 0);
    EXPECT(level.median == 2.5);
    EXPECT_NEAR(level.limit, 2.5 + 3 * 1.4826, 1e-12);
    // Values that are all the same: the least deviation counts.
    const double same[] = {2, 2, 2};
    EXPECT_NEAR(spike_level(same, 3, 10, 0.02).limit, 2.2, 1e-12);
    EXPECT(spike_level(same, 1, 10, 0).limit == 2);
}

// 64 equal steps from 0.2 below the middle to 0.2 above it, in a scattered order, again and again. The median is the
// middle, and the median absolute deviation of 128 of them is (31 + 33) / 2 half steps of 0.4 / 63 / 2, about 0.1: for
// losses around 3 the limit is 3 + 10 * 1.4826 * 0.1016 = 4.506, for norms around 1 it is exp(1.506) = 4.51.
static double usual(int64_t i, double middle) {
    return middle + 0.4 * ((double)(i * 37 % 64) / 63 - 0.5);
}
static const double DEVIATION = 32 * 0.4 / 63 / 2;

static bool add(struct checkpoint_past *past, double loss, double norm) {
    struct spike_levels levels;
    return spike_add(past, THRESHOLD, loss, norm, &levels);
}

static void fill(struct checkpoint_past *past, int64_t count) {
    *past = (struct checkpoint_past){0};
    for (int64_t i = 0; i < count; i++)
        EXPECT(!add(past, usual(i, 3), exp(usual(i, 0))));
}

TEST(three_in_a_row_are_a_spike) {
    struct checkpoint_past past;
    fill(&past, 200);
    EXPECT_INT(past.window_count, CHECKPOINT_WINDOW);
    EXPECT(!add(&past, 4.8, 1) && !add(&past, 4.8, 1));
    EXPECT(add(&past, 4.8, 1));
    // One report for one spike, however long it is.
    EXPECT(!add(&past, 4.8, 1));
    EXPECT_INT(past.streak, 4);
    EXPECT(!add(&past, 3, 1));
    EXPECT_INT(past.streak, 0);
    EXPECT(!add(&past, 4.8, 1) && !add(&past, 4.8, 1) && add(&past, 4.8, 1));
    // Just below the limit.
    fill(&past, 200);
    for (int i = 0; i < 5; i++)
        EXPECT(!add(&past, 4.4, 1));
    // The gradient norm alone.
    fill(&past, 200);
    EXPECT(!add(&past, 3, 4.3) && !add(&past, 3, 4.3) && !add(&past, 3, 4.3));
    EXPECT(!add(&past, 3, 5) && !add(&past, 3, 5) && add(&past, 3, 5));
}

TEST(levels_of_a_spike_are_told) {
    struct checkpoint_past past;
    struct spike_levels levels;
    fill(&past, 128);
    (void)spike_add(&past, THRESHOLD, 9, 9, &levels);
    EXPECT_NEAR(levels.loss.median, 3, 1e-12);
    EXPECT_NEAR(levels.loss.limit, 3 + 14.826 * DEVIATION, 1e-12);
    EXPECT_NEAR(levels.norm.median, 1, 1e-12);
    EXPECT_NEAR(levels.norm.limit, exp(14.826 * DEVIATION), 1e-12);
}

TEST(odd_batches_are_not) {
    struct checkpoint_past past;
    fill(&past, 200);
    for (int64_t i = 0; i < 1000; i++)
        EXPECT(!add(&past, i % 10 < 2 ? 50 : usual(i, 3), i % 10 < 2 ? 500 : 1));
}

TEST(nothing_is_said_too_early) {
    struct checkpoint_past past;
    fill(&past, SPIKE_LEAST - 3);
    EXPECT(!add(&past, 50, 1) && !add(&past, 50, 1) && !add(&past, 50, 1));
    fill(&past, SPIKE_LEAST);
    EXPECT(!add(&past, 50, 1) && !add(&past, 50, 1) && add(&past, 50, 1));
}

// A new level is reported once, and is usual after a while.
TEST(a_new_level_becomes_usual) {
    struct checkpoint_past past;
    int found = 0;
    fill(&past, 200);
    for (int64_t i = 0; i < 400; i++)
        found += add(&past, usual(i, 6), exp(usual(i, 0)));
    EXPECT_INT(found, 1);
    EXPECT_INT(past.streak, 0);
}

// About normal, from twelve uniform numbers.
static double noise(uint32_t i, uint32_t which) {
    double sum = -6;
    for (uint32_t k = 0; k < 3; k++) {
        struct philox random = philox4x32(7, i, which, k, 0);
        for (int w = 0; w < 4; w++)
            sum += random.word[w] / 4294967296.0;
    }
    return sum;
}

// As losses fall in training, with noise of batches and of gradient norms.
TEST(clean_runs_have_no_alarms) {
    const double sizes[] = {0.001, 0.02, 0.2};
    for (int s = 0; s < 3; s++) {
        struct checkpoint_past past = {0};
        for (uint32_t i = 0; i < 5000; i++) {
            double loss = 2 + 9 / (1 + i / 50.0) + sizes[s] * noise(i, 0);
            EXPECT(!add(&past, loss, exp(0.3 * noise(i, 1)) * (1 + 20 / (1 + i / 20.0))));
        }
    }
}

// The window is saved with a run: one that continues from it finds the same.
TEST(a_copy_of_the_window_continues_alike) {
    struct checkpoint_past past = {0}, copy;
    for (uint32_t i = 0; i < 150; i++)
        (void)add(&past, 3 + 0.1 * noise(i, 0), 1);
    copy = past;
    for (uint32_t i = 0; i < 50; i++) {
        double loss = 3 + 0.1 * noise(i, 0) + (i > 20 ? 2 : 0);
        EXPECT(add(&past, loss, 1) == add(&copy, loss, 1));
    }
}

TEST_MAIN(TEST_CASE(levels_are_those_of_the_definition), TEST_CASE(three_in_a_row_are_a_spike),
          TEST_CASE(levels_of_a_spike_are_told), TEST_CASE(odd_batches_are_not), TEST_CASE(nothing_is_said_too_early),
          TEST_CASE(a_new_level_becomes_usual), TEST_CASE(clean_runs_have_no_alarms),
          TEST_CASE(a_copy_of_the_window_continues_alike))
