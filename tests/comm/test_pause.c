// How ranks wait between two looks, and when the ranks of a machine are too many for its processors. A thread that
// sleeps gives up its processor of its own accord, which the kernel counts; one that yields does not.
#include "base/clock.h"
#include "base/memory.h"
#include "base/pool.h"
#include "comm/backend.h"
#include "test.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// A sleep whose time is over before the thread has left its processor, because the machine paused it there, is not
// counted: a few of a hundred may be missing.
enum { LOOKS = 100, MOST_LOOKS = 90 };

static long sleeps_so_far(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

// How often a wait that began so long ago sleeps in so many looks.
static long sleeps_in_wait(double waited, struct pause_manner manner, double most) {
    struct pause pause = {.looks = 10, .began = clock_seconds() - waited};
    long before = sleeps_so_far();
    for (int i = 0; i < LOOKS; i++) {
        pause.resumed = 0;  // a machine may pause a look
        pause_after_look(&pause, &manner, most);
    }
    EXPECT_INT(pause.looks, 10 + LOOKS);
    return sleeps_so_far() - before;
}

// A wait that has just begun is over 5 ms old soon on a slow machine: what it has waited is reset before each look.
static long sleeps_when_short(bool is_crowded, double busy_for) {
    struct pause pause = {.looks = 10};
    long before = sleeps_so_far();
    for (int i = 0; i < LOOKS; i++) {
        struct pause_manner manner = {.is_crowded = is_crowded,
                                      .busy_until = busy_for > 0 ? clock_seconds() + busy_for : 0};
        pause.began = 0;
        pause_after_look(&pause, &manner, HUGE_VAL);
    }
    return sleeps_so_far() - before;
}

TEST(short_waits_yield) {
    EXPECT(sleeps_when_short(false, 0) < LOOKS / 2);
    EXPECT(sleeps_when_short(true, 0) < LOOKS / 2);
}

TEST(waits_sleep_where_another_program_has_the_processor) {
    EXPECT(sleeps_when_short(false, 100) >= MOST_LOOKS);
    EXPECT(sleeps_when_short(true, 100) >= MOST_LOOKS);
}

TEST(long_waits_sleep_sooner_if_ranks_outnumber_processors) {
    EXPECT(sleeps_in_wait(2e-3, (struct pause_manner){.is_crowded = true}, HUGE_VAL) >= MOST_LOOKS);
    EXPECT(sleeps_in_wait(10e-3, (struct pause_manner){0}, HUGE_VAL) >= MOST_LOOKS);
}

// Looks that take long move data: more of them are needed soon.
TEST(waits_that_move_data_yield) {
    struct pause_manner manner = {.is_crowded = true};
    struct pause pause = {.looks = 10};
    long before = sleeps_so_far();
    for (int i = 0; i < LOOKS; i++) {
        double now = clock_seconds();
        pause.began = now - 1;
        pause.resumed = now - 20e-6;
        manner.busy_until = 0;
        pause_after_look(&pause, &manner, HUGE_VAL);
        EXPECT(pause.began >= now && pause.resumed >= now);
    }
    EXPECT(sleeps_so_far() - before < LOOKS / 2);
}

// Without a crowd a look asks MPI many times: that it takes long says nothing, and long waits sleep.
TEST(long_looks_of_few_ranks_sleep) {
    struct pause_manner manner = {.is_crowded = false};
    struct pause pause = {.looks = 10};
    long before = sleeps_so_far();
    for (int i = 0; i < LOOKS; i++) {
        double now = clock_seconds();
        pause.began = now - 1;
        pause.resumed = now - 20e-6;
        pause_after_look(&pause, &manner, HUGE_VAL);
        EXPECT(pause.began < now);
    }
    EXPECT(sleeps_so_far() - before >= MOST_LOOKS);
}

// A message that is there but not due yet, on an emulated link.
TEST(sleeps_do_not_outlast_a_known_end) {
    EXPECT(sleeps_in_wait(1, (struct pause_manner){.is_crowded = true}, -1e-6) < LOOKS / 2);
    double begin = clock_seconds();
    EXPECT(sleeps_in_wait(1, (struct pause_manner){0}, 1e-3) >= MOST_LOOKS);
    EXPECT(clock_seconds() - begin >= LOOKS * 500e-6);
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
          TEST_CASE(long_looks_of_few_ranks_sleep), TEST_CASE(sleeps_do_not_outlast_a_known_end),
          TEST_CASE(ranks_outnumber_the_processors_that_they_share), TEST_CASE(masks_are_told_apart))
