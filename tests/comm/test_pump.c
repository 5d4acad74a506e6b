// The thread that keeps transfers going: it works while there is work, one thread at a time, and ends on request.
#include "base/clock.h"
#include "comm/pump.h"
#include "test.h"

#include <sched.h>

static const struct pump_pace pace = {.poll_seconds = 50e-6, .nap_seconds = 100e-6};

struct pumped_work {
    int left, polls;
};

static bool do_some(void *context) {
    struct pumped_work *work = context;
    work->polls++;
    work->left -= work->left > 0;
    return work->left > 0;
}

static int left_of(struct pump *pump, const struct pumped_work *work) {
    pump_lock(pump);
    int left = work->left;
    pump_unlock(pump);
    return left;
}

static void give(struct pump *pump, struct pumped_work *work, int left) {
    pump_start(pump);
    pump_lock(pump);
    work->left += left;
    pump_wake(pump);
    pump_unlock(pump);
}

TEST(work_is_done_while_nobody_waits) {
    struct pumped_work work = {0};
    struct pump *pump = pump_new(do_some, &work, pace);
    for (int round = 1; round <= 50; round++) {
        give(pump, &work, round);
        // Touching the work under the lock, as the owner of a transfer does, disturbs nothing.
        double deadline = clock_seconds() + 200;
        while (left_of(pump, &work) > 0 && clock_seconds() < deadline)
            sched_yield();
        EXPECT_INT(left_of(pump, &work), 0);
    }
    pump_lock(pump);
    EXPECT(work.polls >= 50 * 51 / 2);
    pump_unlock(pump);
    pump_free(pump);
}

TEST(a_pump_may_end_with_work_left_or_without_any) {
    struct pumped_work work = {0};
    pump_free(pump_new(do_some, &work, pace));
    EXPECT_INT(work.polls, 0);
    struct pump *pump = pump_new(do_some, &work, pace);
    give(pump, &work, 1 << 30);
    pump_free(pump);
    EXPECT(work.left > 0);
    pump_free(NULL);
}

TEST_MAIN(TEST_CASE(work_is_done_while_nobody_waits), TEST_CASE(a_pump_may_end_with_work_left_or_without_any))
