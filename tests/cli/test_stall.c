// Time without progress of a run, as seen by its observer; the test moves the clock.
#include "cli/launch.h"
#include "moved_clock.h"
#include "test.h"

#include <stdlib.h>

static struct moved_clock moved;

static double look_after(struct stall *stall, double seconds, int64_t beats) {
    moved.now += seconds;
    return stall_look(stall, beats);
}

TEST(time_counts_while_the_count_stands_still) {
    moved_clock_open(&moved, true);
    moved.now = 100;
    struct stall stall = {.clock = &moved.clock};
    EXPECT(look_after(&stall, 0, 5) == 0);
    EXPECT(look_after(&stall, 1, 5) == 1);
    EXPECT(look_after(&stall, 0.5, 5) == 1.5);
    EXPECT(look_after(&stall, 1, 6) == 0);
    EXPECT(look_after(&stall, 1, 6) == 1);
}

// An observer that was suspended for an hour adds what two looks take, so no limit is over within one look.
TEST(the_observers_own_pauses_count_in_part) {
    moved_clock_open(&moved, true);
    moved.now = 100;
    struct stall stall = {.clock = &moved.clock};
    EXPECT(look_after(&stall, 0, 5) == 0);
    EXPECT(look_after(&stall, 3600, 5) == 2 * STALL_LOOK_SECONDS);
    EXPECT(look_after(&stall, 1, 5) == 2 * STALL_LOOK_SECONDS + 1);
}

TEST(what_is_said) {
    struct lifeline_state state = {.iteration = -1};
    char *text = stall_describe(&state, 20);
    EXPECT_STRING(text,
                  "the run has completed nothing for 20 s and has not started; ending it (--progress-timeout-minutes)");
    free(text);
    state = (struct lifeline_state){.iteration = 7, .is_attached = true, .phase = "forward"};
    text = stall_describe(&state, 19.6);
    EXPECT_STRING(text, "the run has completed nothing for 20 s after iteration 7, forward; ending it "
                        "(--progress-timeout-minutes)");
    free(text);
}

TEST_MAIN(TEST_CASE(time_counts_while_the_count_stands_still), TEST_CASE(the_observers_own_pauses_count_in_part),
          TEST_CASE(what_is_said))
