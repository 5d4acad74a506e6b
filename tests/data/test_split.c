// Splits against NumPy's, and how many samples a run requests.
#include "data/sample/split.h"

#include "test.h"

TEST(ranges_as_numpy) {
    FILE *golden = fopen("tests/golden/gpt_samples.txt", "r");
    EXPECT(golden);
    static char line[1 << 16];
    int cases = 0;
    while (fgets(line, sizeof line, golden)) {
        int64_t count, bounds[6], begin, end;
        int text = 0;
        if (sscanf(line,
                   "split_range %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %n",
                   &count, &bounds[0], &bounds[1], &bounds[2], &bounds[3], &bounds[4], &bounds[5], &text) != 7)
            continue;
        line[strcspn(line, "\n")] = 0;
        struct split_bounds split;
        EXPECT_OK(split_parse(&split, line + text));
        for (int i = 0; i < SPLIT_COUNT; i++) {
            split_range(&split, (enum split)i, count, &begin, &end);
            EXPECT_INT(begin, bounds[2 * i]);
            EXPECT_INT(end, bounds[2 * i + 1]);
        }
        cases++;
    }
    EXPECT_INT(cases, 140);
    fclose(golden);
}

TEST(empty_splits) {
    struct split_bounds split;
    EXPECT_OK(split_parse(&split, "90,10"));
    EXPECT(!split_is_empty(&split, SPLIT_TRAIN));
    EXPECT(!split_is_empty(&split, SPLIT_VALID));
    EXPECT(split_is_empty(&split, SPLIT_TEST));
    EXPECT_OK(split_parse(&split, "[0, 1, 0]"));
    EXPECT(split_is_empty(&split, SPLIT_TRAIN));
    EXPECT_STRING(split_name(SPLIT_VALID), "valid");
}

TEST(bad_splits) {
    struct split_bounds split;
    EXPECT_ERROR(split_parse(&split, "1,2,3,4"), "more than three weights");
    EXPECT_ERROR(split_parse(&split, ""), "add up to 0");
    EXPECT_ERROR(split_parse(&split, "0,0,0"), "add up to 0");
    EXPECT_ERROR(split_parse(&split, "1.2.3"), "1.2.3 is not a number");
    EXPECT_ERROR(split_parse(&split, "."), ". is not a number");
    EXPECT_ERROR(split_parse(&split, "98,-2"), "unexpected '-'");
    EXPECT_ERROR(split_parse(&split, "1e3,1"), "unexpected 'e'");
    EXPECT_ERROR(split_parse(&split, "1111111111111111111111111111111111111111111111111111111111111111111"),
                 "67 digits");
}

TEST(sample_counts) {
    int64_t counts[SPLIT_COUNT];
    struct split_demand demand = {
        .train_iters = 500000, .global_batch_size = 64, .eval_interval = 1000, .eval_iters = 10};
    EXPECT_OK(split_sample_counts(&demand, counts));
    EXPECT_INT(counts[SPLIT_TRAIN], 32000000);
    EXPECT_INT(counts[SPLIT_VALID], 501 * 10 * 64);
    EXPECT_INT(counts[SPLIT_TEST], 640);
    demand.eval_global_batch_size = 8;
    demand.train_iters = 1999;
    EXPECT_OK(split_sample_counts(&demand, counts));
    EXPECT_INT(counts[SPLIT_VALID], 2 * 10 * 8);
    EXPECT_INT(counts[SPLIT_TEST], 80);
    demand.train_samples = 12345;
    demand.eval_interval = 0;
    EXPECT_OK(split_sample_counts(&demand, counts));
    EXPECT_INT(counts[SPLIT_TRAIN], 12345);
    EXPECT_INT(counts[SPLIT_VALID], 0);
    demand = (struct split_demand){.train_iters = INT64_MAX / 2, .global_batch_size = 64};
    EXPECT_ERROR(split_sample_counts(&demand, counts), "is not a valid number of samples");
}

TEST_MAIN(TEST_CASE(ranges_as_numpy), TEST_CASE(empty_splits), TEST_CASE(bad_splits), TEST_CASE(sample_counts))
