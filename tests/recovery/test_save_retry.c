// When a failed save is tried again: soon at first, rarely later, and so that training has most of the time.
#include "recovery/time_limits.h"
#include "test.h"

TEST(waits_grow) {
    struct save_retry retry = {0};
    EXPECT(save_retry_seconds(&retry, 100) == 0);
    double now = 100, waits[12];
    for (int i = 0; i < 12; i++) {
        waits[i] = save_retry_after(&retry, now, now);
        EXPECT(retry.due_time == now + waits[i]);
        now = retry.due_time;
    }
    EXPECT(waits[0] == 1 && waits[1] == 2 && waits[9] == 512 && waits[10] == 600 && waits[11] == 600);
    EXPECT(save_retry_seconds(&retry, now) == now - 100);
}

TEST(slow_failures_are_rare) {
    struct save_retry retry = {0};
    EXPECT(save_retry_after(&retry, 100, 160) == 120);
    EXPECT(retry.due_time == 280 && save_retry_seconds(&retry, 160) == 60);
    EXPECT(save_retry_after(&retry, 280, 1280) == 600);
}

TEST_MAIN(TEST_CASE(waits_grow), TEST_CASE(slow_failures_are_rare))
