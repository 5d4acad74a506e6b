// Measured beside planned: the part that explains the difference, and what is said of it.
#include "base/json.h"
#include "test.h"
#include "train/plan_comparison.h"

// 100 ms a step, 20 of them waiting for other ranks.
static const struct planned planned = {.seconds = 0.1, .tokens = 1000, .compute = 0.08, .machine = "p5.48xlarge"};

TEST(the_part_that_deviates) {
    struct planned_difference slow_data =
        planned_compare(&planned, &(struct measured){.seconds = 0.125, .waits = 0.02, .data = 0.02});
    EXPECT(slow_data.part == PART_DATA);
    EXPECT_NEAR(slow_data.deviation, -0.2, 1e-12);
    EXPECT_NEAR(slow_data.measured[PART_COMPUTE], 0.085, 1e-12);
    struct planned_difference slow_network =
        planned_compare(&planned, &(struct measured){.seconds = 0.2, .waits = 0.115, .data = 0});
    EXPECT(slow_network.part == PART_WAITS);
    struct planned_difference slow_gpu = planned_compare(&planned, &(struct measured){.seconds = 0.15, .waits = 0.02});
    EXPECT(slow_gpu.part == PART_COMPUTE);
    struct planned_difference fast = planned_compare(&planned, &(struct measured){.seconds = 0.08, .waits = 0.001});
    EXPECT(fast.part == PART_WAITS);
    EXPECT_NEAR(fast.deviation, 0.25, 1e-12);
    // Parts that differ and cancel out are not worth a word.
    struct planned_difference even = planned_compare(&planned, &(struct measured){.seconds = 0.104, .waits = 0});
    EXPECT(even.part == PART_COUNT);
}

TEST(the_sentence_and_the_line) {
    const struct measured measured = {.iteration = 20, .seconds = 0.125, .waits = 0.02, .data = 0.02};
    struct buffer text = {0}, line = {0};
    planned_describe(&planned, &measured, &text);
    EXPECT_STRING(
        buffer_string(&text),
        "measured at iteration 20: 8000 tokens/s, planned for p5.48xlarge: 10000 (-20.0 %); a step takes 125.0 "
        "ms (planned 100.0): computing 85.0 (80.0), waiting for other ranks 20.0 (20.0), waiting for data 20.0 "
        "(0.0); most of the difference: waiting for data");
    planned_write_line(&planned, &measured, &line);
    struct json *root = NULL;
    const char *kind, *said;
    double step = 0;
    EXPECT_OK(json_parse(&root, buffer_string(&line), line.length, "line"));
    EXPECT_OK(json_get_string(root, "kind", &kind));
    EXPECT_STRING(kind, "event");
    EXPECT_OK(json_get_string(root, "text", &said));
    EXPECT_STRING(said, buffer_string(&text));
    EXPECT_OK(json_get_double(json_member(root, "measured"), "step_ms", &step));
    EXPECT_NEAR(step, 125, 1e-9);
    json_free(root);
    buffer_free(&text);
    buffer_free(&line);
}

TEST_MAIN(TEST_CASE(the_part_that_deviates), TEST_CASE(the_sentence_and_the_line))
