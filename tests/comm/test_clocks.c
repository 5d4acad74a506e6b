// Differences of clocks out of exchanges with known delays: the truth lies within the bounds, whatever the delays are.
#include "base/rng.h"
#include "comm/clocks.h"
#include "test.h"

enum { ROUNDS = 16 };

// One exchange at a true time: ranks enter and leave after delays, and neither leaves before both have entered.
static struct clock_round exchange(int64_t time, int64_t offset, const int64_t delays[4]) {
    int64_t enter = time + delays[0], first_enter = time + delays[1];
    int64_t later = enter > first_enter ? enter : first_enter;
    return (struct clock_round){.before = enter + offset,
                                .after = later + delays[2] + offset,
                                .first_before = first_enter,
                                .first_after = later + delays[3]};
}

static void expect_offset(int64_t offset, uint32_t most_delay, uint32_t seed) {
    struct clock_round rounds[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct philox random = philox4x32(seed, i, 0, 0, 0);
        int64_t delays[4];
        for (int k = 0; k < 4; k++)
            delays[k] = (int64_t)(random.word[k] % (most_delay + 1));
        rounds[i] = exchange(1000000000LL * i, offset, delays);
    }
    struct clock_offset found = clocks_solve(rounds, ROUNDS);
    double truth = (double)offset * 1e-9;
    EXPECT(fabs(found.seconds - truth) <= found.error + 1e-9);
    EXPECT(found.error <= (double)most_delay * 2e-9 + 1e-9);
}

TEST(the_truth_lies_within_the_bounds) {
    static const int64_t offsets[] = {0, 1, -1, 5000000, -123456789, 86400LL * 1000000000, -86400LL * 1000000000};
    static const uint32_t delays[] = {0, 1000, 50000, 20000000};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        for (size_t k = 0; k < sizeof delays / sizeof delays[0]; k++)
            for (uint32_t seed = 0; seed < 10; seed++)
                expect_offset(offsets[i], delays[k], seed);
}

// One quick exchange among slow ones is enough: each bound is the best of all.
TEST(the_best_exchange_counts) {
    struct clock_round rounds[3] = {exchange(0, 777000, (const int64_t[4]){0, 9000000, 8000000, 7000000}),
                                    exchange(1000000000, 777000, (const int64_t[4]){10, 20, 10, 15}),
                                    exchange(2000000000, 777000, (const int64_t[4]){9000000, 0, 1, 2})};
    struct clock_offset found = clocks_solve(rounds, 3);
    EXPECT(found.error <= 50e-9);
    EXPECT(fabs(found.seconds - 777e-6) <= found.error + 1e-12);
}

TEST(without_exchanges_there_is_no_difference) {
    struct clock_offset found = clocks_solve(NULL, 0);
    EXPECT(found.seconds == 0 && found.error == 0);
}

TEST(a_machine_has_one_clock) {
    struct rank_clock a = clocks_own(), b = clocks_own();
    EXPECT_INT(a.identity[0], b.identity[0]);
    EXPECT_INT(a.identity[1], b.identity[1]);
}

TEST_MAIN(TEST_CASE(the_truth_lies_within_the_bounds), TEST_CASE(the_best_exchange_counts),
          TEST_CASE(without_exchanges_there_is_no_difference), TEST_CASE(a_machine_has_one_clock))
