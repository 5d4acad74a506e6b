// Spans of skipped iterations against a plain array of flags: joined, ascending and apart, whatever the order in which
// they are added; and which checkpoints belong to a run that skips them.
#include "base/rng.h"
#include "recovery/rewind.h"
#include "test.h"

#include <string.h>

enum { MOST = 60 };

static void expect_flags(const struct checkpoint_past *past, const bool *flags) {
    for (int64_t i = 1; i < MOST; i++)
        EXPECT(skips_have(past, i) == flags[i]);
    for (int64_t i = 0; i < past->skipped_count; i++) {
        EXPECT(past->skipped[i].first <= past->skipped[i].last);
        EXPECT(i == 0 || past->skipped[i].first > past->skipped[i - 1].last + 1);
    }
}

TEST(spans_are_joined) {
    for (uint32_t round = 0; round < 300; round++) {
        struct checkpoint_past past = {0};
        bool flags[MOST + 10] = {0};
        for (uint32_t k = 0; k < 8; k++) {
            struct philox random = philox4x32(3, round, k, 0, 0);
            int64_t first = 1 + random.word[0] % (MOST - 10), last = first + random.word[1] % 6;
            EXPECT_OK(skips_add(&past, first, last));
            for (int64_t i = first; i <= last; i++)
                flags[i] = true;
            expect_flags(&past, flags);
        }
        for (int64_t i = 1; i < MOST; i++) {
            int64_t last = i;
            while (flags[i] && flags[last + 1])
                last++;
            EXPECT_INT(skips_last(&past, i), last);
        }
    }
}

TEST(there_is_a_limit) {
    struct checkpoint_past past = {0};
    for (int64_t i = 1; i <= CHECKPOINT_MOST_SPANS; i++)
        EXPECT_OK(skips_add(&past, 3 * i, 3 * i));
    EXPECT_ERROR(skips_add(&past, 1, 1), "cannot skip more than");
    EXPECT_INT(past.skipped_count, CHECKPOINT_MOST_SPANS);
    EXPECT_OK(skips_add(&past, 4, 5));
    EXPECT_INT(past.skipped_count, CHECKPOINT_MOST_SPANS - 1);
}

TEST(runs_agree_up_to_an_iteration) {
    struct checkpoint_past a = {0}, b = {0};
    EXPECT(skips_agree(&a, &b, 100));
    EXPECT_OK(skips_add(&a, 10, 12));
    EXPECT(skips_agree(&a, &b, 9) && !skips_agree(&a, &b, 10) && !skips_agree(&b, &a, 50));
    // It will skip 13 too, and has not come to it.
    EXPECT_OK(skips_add(&b, 10, 13));
    EXPECT(skips_agree(&a, &b, 12) && !skips_agree(&a, &b, 13));
    EXPECT_OK(skips_add(&a, 20, 20));
    EXPECT_OK(skips_add(&a, 13, 13));
    EXPECT(skips_agree(&a, &b, 19) && !skips_agree(&a, &b, 20));
}

TEST_MAIN(TEST_CASE(spans_are_joined), TEST_CASE(there_is_a_limit), TEST_CASE(runs_agree_up_to_an_iteration))
