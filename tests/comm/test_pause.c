// How ranks wait between two looks, and when the ranks of a machine are too many for its processors. The test moves the
// clock, which counts the sleeps.
#include "base/memory.h"
#include "base/pool.h"
#include "comm/backend.h"
#include "moved_clock.h"
#include "test.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS = 10 };

static struct moved_clock moved;

// Number of sleeps of a wait that began some time ago, over a number of looks that each take the time of a yield.
struct looks {
    double waited, look, most, yield;
};
static int sleeps_in(struct looks looks, struct pause_manner manner) {
    struct pause pause = {.looks = 10};
    moved_clock_open(&moved, true);
    moved.now = 1000;
    manner.clock = &moved.clock;
    manner.busy_until += moved.now;
    pause.began = moved.now - looks.waited;
    for (int i = 0; i < LOOKS; i++) {
        pause.resumed = i > 0 || looks.look > 0 ? moved.now : 0;
        moved.step = 0;
        moved.now += looks.look;
        double now = moved.now;
        moved.step = looks.yield;
        pause_after_look(&pause, &manner, looks.most);
        moved.step = 0;
        EXPECT(pause.resumed >= now);
    }
    EXPECT_INT(pause.looks, 10 + LOOKS);
    return moved.sleeps;
}

TEST(short_waits_yield) {
    const struct looks looks = {.look = 1e-6, .most = HUGE_VAL};
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){0}), 0);
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){.is_crowded = true}), 0);
}

TEST(waits_sleep_where_another_program_has_the_processor) {
    const struct looks looks = {.look = 1e-6, .most = HUGE_VAL};
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){.busy_until = 100}), LOOKS);
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){.is_crowded = true, .busy_until = 100}), LOOKS);
}

// The first yield takes 2 ms: for 10 ms the others are sleeps, of 10 to 200 µs.
TEST(a_long_yield_is_not_repeated_soon) {
    const struct looks looks = {.look = 1e-6, .most = HUGE_VAL, .yield = 2e-3};
    struct pause pause = {.looks = 10};
    struct pause_manner manner = {.clock = &moved.clock};
    moved_clock_open(&moved, true);
    moved.now = 1000;
    moved.step = looks.yield;
    pause_after_look(&pause, &manner, looks.most);
    moved.step = 0;
    EXPECT_INT(moved.sleeps, 0);
    EXPECT_NEAR(manner.busy_seconds, 10e-3, 1e-12);
    double until = manner.busy_until;
    pause.began = moved.now;
    while (moved.now < until) {
        int before = moved.sleeps;
        pause_after_look(&pause, &manner, looks.most);
        EXPECT_INT(moved.sleeps, before + 1);
    }
    pause.began = 0;
    int before = moved.sleeps;
    pause_after_look(&pause, &manner, looks.most);
    EXPECT_INT(moved.sleeps, before);
    EXPECT_NEAR(manner.busy_seconds, 5e-3, 1e-12);
}

TEST(long_waits_sleep_sooner_if_ranks_outnumber_processors) {
    struct looks looks = {.waited = 2e-3, .look = 1e-6, .most = HUGE_VAL};
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){.is_crowded = true}), LOOKS);
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){0}), 0);
    looks.waited = 10e-3;
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){0}), LOOKS);
}

// Looks that take long move data: more of them are needed soon. Without a crowd a look asks MPI many times: that it
// takes long says nothing, and long waits sleep.
TEST(waits_that_move_data_yield) {
    const struct looks looks = {.waited = 1, .look = 20e-6, .most = HUGE_VAL};
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){.is_crowded = true}), 0);
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){0}), LOOKS);
}

// A message that is there but not due yet, on an emulated link.
TEST(sleeps_do_not_outlast_a_known_end) {
    struct looks looks = {.waited = 1, .look = 1e-6, .most = -1e-6};
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){.is_crowded = true}), 0);
    looks.most = 100e-6;
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){0}), LOOKS);
    EXPECT_NEAR(moved.now - 1000, LOOKS * (100e-6 + looks.look), 1e-9);
    looks.most = 1e-3;
    EXPECT_INT(sleeps_in(looks, (struct pause_manner){0}), LOOKS);
    EXPECT_NEAR(moved.now - 1000, LOOKS * (500e-6 + looks.look), 1e-9);
}

static void place_rank(struct host_name *host, const char *name, int threads, int64_t mask) {
    memset(host, 0, sizeof *host);
    snprintf((char *)host->words, sizeof host->words, "%s", name);
    host->threads = threads;
    host->mask = mask;
    host->processors = 4;
    host->quota = INT_MAX;
}

TEST(ranks_outnumber_the_processors_that_they_share) {
    struct host_name hosts[4];
    struct world *world = memory_alloc(sizeof *world);
    *world = (struct world){.place = {.rank = 1, .size = 4}, .hosts = hosts};
    for (int i = 0; i < 4; i++)
        place_rank(&hosts[i], "n1", 1, 7);
    EXPECT(!hosts_are_crowded(world));
    hosts[3].threads = 2;
    EXPECT(hosts_are_crowded(world));
    place_rank(&hosts[3], "n2", 9, 7);  // on another machine
    EXPECT(!hosts_are_crowded(world));
    place_rank(&hosts[3], "n1", 4, 8);  // on processors of its own
    EXPECT(!hosts_are_crowded(world));
    hosts[1].quota = 6;  // of all 7 threads
    EXPECT(hosts_are_crowded(world));
    world->hosts = NULL;  // a single rank, or on paper
    EXPECT(!hosts_are_crowded(world));
    free(world);
}

TEST(masks_are_told_apart) {
    struct pool_share all = pool_find_share(), again = pool_find_share();
    EXPECT(all.processors >= 1 && all.quota >= 1);
    EXPECT_INT(again.mask, all.mask);
    cpu_set_t before, first;
    if (all.processors < 2 || sched_getaffinity(0, sizeof before, &before) < 0)
        return;
    CPU_ZERO(&first);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&first) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &first);
    EXPECT(sched_setaffinity(0, sizeof first, &first) == 0);
    struct pool_share one = pool_find_share();
    EXPECT(sched_setaffinity(0, sizeof before, &before) == 0);
    EXPECT_INT(one.processors, 1);
    EXPECT(one.mask != all.mask);
}

TEST_MAIN(TEST_CASE(short_waits_yield), TEST_CASE(waits_sleep_where_another_program_has_the_processor),
          TEST_CASE(long_waits_sleep_sooner_if_ranks_outnumber_processors), TEST_CASE(waits_that_move_data_yield),
          TEST_CASE(a_long_yield_is_not_repeated_soon), TEST_CASE(sleeps_do_not_outlast_a_known_end),
          TEST_CASE(ranks_outnumber_the_processors_that_they_share), TEST_CASE(masks_are_told_apart))
