// Rounds of the pulse, with a fake transport: they go on while any rank works with files, however long that takes, and
// a rank that does not answer is given up after the deadline. The test moves the clock.
#include "base/capture.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/backend.h"
#include "moved_clock.h"
#include "test.h"

#include <stdatomic.h>
#include <string.h>

static const double DEADLINE = 5;

static struct moved_clock moved;

// Two ranks, this one the first.
static struct fake_pulse {
    struct world world;
    struct group all;
    struct host_name hosts[2];
    int ranks[2];
    atomic_int rounds;
    int busy_rounds;   // for which the other one works with files
    bool is_silent;    // the other one does not answer
    bool allows_none;  // other threads
} fake;

static int fake_create(struct world *world, struct group **group, const int *ranks, int count, const char *name) {
    *group = group_new(world, sizeof **group, &(struct group_members){ranks, count, name});
    return 0;
}

static void *fake_max(struct group *group, int64_t *values, int count) {
    (void)group;
    CHECK(count == 1);
    return values;
}

static bool fake_test(struct group *group, void *handle) {
    int64_t *is_busy = handle;
    if (group->world->clock)
        moved_clock_move(&moved, 1);
    if (fake.is_silent)
        return false;
    if (atomic_fetch_add(&fake.rounds, 1) < fake.busy_rounds)
        *is_busy = 1;
    return true;
}

static bool fake_share(struct world *world, bool is_shared) {
    (void)world;
    (void)is_shared;
    return !fake.allows_none;
}

static const struct collective fake_collective = {.name = "fake",
                                                  .group_create = fake_create,
                                                  .group_free = group_drop,
                                                  .host_max_i64 = fake_max,
                                                  .test = fake_test,
                                                  .share = fake_share};

static void open_fake(struct clock *clock) {
    memset(&fake, 0, sizeof fake);
    fake.world = (struct world){.collective = &fake_collective,
                                .place = {.rank = 0, .size = 2, .local_size = 1},
                                .deadline_seconds = DEADLINE,
                                .clock = clock,
                                .hosts = fake.hosts};
    memcpy(&fake.hosts[0], "n1", 2);
    memcpy(&fake.hosts[1], "n2", 2);
    fake.ranks[1] = 1;
    fake.all = (struct group){.world = &fake.world, .name = "all", .size = 2, .ranks = fake.ranks};
    fake.world.groups[fake.world.group_count++] = &fake.all;
}

// This rank is done at once and waits for the other one, which answers every second and is no hang however long it
// takes.
TEST(the_slowest_rank_ends_it) {
    enum { ROUNDS = 100 };
    struct pulse *pulse;
    moved_clock_open(&moved, true);
    open_fake(&moved.clock);
    EXPECT_OK(pulse_open(&pulse, &fake.world));
    for (int i = 0; i < 2; i++) {
        fake.busy_rounds = atomic_load(&fake.rounds) + ROUNDS;
        pulse_start(pulse, "saving a checkpoint");
        pulse_stop(pulse);
        EXPECT(atomic_load(&fake.rounds) > fake.busy_rounds);
    }
    EXPECT(moved.now >= 2 * ROUNDS);
    pulse_close(pulse);
}

static void lose_rank(void) {
    struct pulse *pulse;
    moved_clock_open(&moved, true);
    open_fake(&moved.clock);
    fake.is_silent = true;
    if (pulse_open(&pulse, &fake.world) < 0)
        _exit(1);
    pulse_start(pulse, "saving a checkpoint");
    pulse_stop(pulse);
}

TEST(a_rank_that_does_not_answer) {
    static struct capture capture;
    capture_run(&capture, lose_rank);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    EXPECT(strstr(capture.text, "no heartbeat from some ranks during saving a checkpoint for 5 s, longer than "
                                "--distributed-timeout-minutes allows"));
    EXPECT(strstr(capture.text, "another rank is lost or stuck: rank 1 on n2"));
}

// A rank that is about to end the job does not wait for others.
TEST(a_dropped_pulse_waits_for_nobody) {
    struct pulse *pulse;
    open_fake(NULL);
    fake.world.deadline_seconds = 600;
    fake.is_silent = true;
    EXPECT_OK(pulse_open(&pulse, &fake.world));
    pulse_start(pulse, "saving a checkpoint");
    pulse_drop(pulse);
    EXPECT_INT(atomic_load(&fake.rounds), 0);
    pulse_close(pulse);
}

TEST(there_may_be_none) {
    struct pulse *pulse;
    open_fake(NULL);
    fake.allows_none = true;
    EXPECT_OK(pulse_open(&pulse, &fake.world));
    EXPECT(!pulse);
    fake.allows_none = false;
    fake.all.size = 1;
    EXPECT_OK(pulse_open(&pulse, &fake.world));
    EXPECT(!pulse);
    pulse_close(NULL);
}

TEST_MAIN(TEST_CASE(the_slowest_rank_ends_it), TEST_CASE(a_rank_that_does_not_answer),
          TEST_CASE(a_dropped_pulse_waits_for_nobody), TEST_CASE(there_may_be_none))
