// Distance buckets against transformers (tests/golden/make_relative.py): the borders must be exact, or a trained model
// would look up a neighbour's bias.
#include "test.h"
#include "ops/formulas.h"

TEST(buckets) {
    FILE *file = fopen("tests/golden/relative_buckets.txt", "r");
    EXPECT(file != NULL);
    char line[8192];
    int rules = 0;
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#')
            continue;
        char *next = line;
        struct relative_rule rule = {.buckets = strtol(next, &next, 10), .max_distance = strtol(next, &next, 10)};
        rule.is_bidirectional = strtol(next, &next, 10) != 0;
        int64_t distance = strtol(next, &next, 10);
        EXPECT(*next++ == ':');
        struct relative_borders borders;
        relative_borders(&borders, &rule);
        for (; *next && *next != '\n'; distance++) {
            int64_t want = strtol(next, &next, 10);
            int64_t bucket = relative_bucket(&borders, rule.is_bidirectional, distance);
            if (bucket != want)
                test_fail("distance %d of %d buckets is in bucket %d, expected %d", (int)distance, (int)rule.buckets,
                          (int)bucket, (int)want);
        }
        rules++;
    }
    (void)fclose(file);
    EXPECT_INT(rules, 7);
}

TEST(far_distances) {
    struct relative_rule rule = {.buckets = 32, .max_distance = 128, .is_bidirectional = true};
    struct relative_borders borders;
    relative_borders(&borders, &rule);
    EXPECT_INT(relative_bucket(&borders, true, -1000000), 15);
    EXPECT_INT(relative_bucket(&borders, true, 1000000), 31);
    EXPECT_INT(relative_bucket(&borders, true, 0), 0);
    EXPECT_INT(relative_bucket(&borders, true, 1), 17);
}

TEST_MAIN(TEST_CASE(buckets), TEST_CASE(far_distances))
