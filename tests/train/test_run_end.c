// When a run without --save-interval saves by --save-minutes, on a clock that the test moves.
#include "lab.h"
#include "moved_clock.h"
#include "train/run_end.h"

#define MODEL                                                                                                          \
    "--num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --max-position-embeddings 8 "               \
    "--micro-batch-size 1 --padded-vocab-size 16 --mock-data --lr 1e-3 --train-iters 10 "

// For how many seconds after a save of `save_seconds` no checkpoint is due: up to `most`, in steps of one.
static int seconds_until_due(const char *flags, double save_seconds, int most) {
    struct train_lab lab;
    struct moved_clock clock;
    moved_clock_open(&clock, false);
    char *line = memory_printf(MODEL "%s", flags);
    lab_open(&lab, line);
    struct ending ending = {.config = &lab.config, .mesh = step_mesh(lab.step), .clock = &clock.clock};
    moved_clock_move(&clock, 1e6);
    ending_saved(&ending, save_seconds);
    int seconds = 0;
    while (seconds < most && !ending.is_save_due) {
        moved_clock_move(&clock, 1);
        EXPECT_INT(ending_reason(&ending), 0);
        seconds++;
    }
    EXPECT(ending_wants_save(&ending) == ending.is_save_due);
    ending_saved(&ending, save_seconds);
    EXPECT(!ending_wants_save(&ending));
    lab_close(&lab);
    free(line);
    return seconds;
}

TEST(saves_every_ten_minutes) {
    EXPECT_INT(seconds_until_due("--save run", 0, 10000), 600);
    EXPECT_INT(seconds_until_due("--save run", 30, 10000), 600);
    EXPECT_INT(seconds_until_due("--save run --save-minutes 2", 0, 10000), 120);
}

TEST(a_slow_save_is_rarer_unless_asked_for) {
    EXPECT_INT(seconds_until_due("--save run", 60, 10000), 1200);
    EXPECT_INT(seconds_until_due("--save run --save-minutes 10", 60, 10000), 600);
}

TEST(others_save_as_they_say) {
    EXPECT_INT(seconds_until_due("--save run --save-interval 5", 0, 10000), 10000);
    EXPECT_INT(seconds_until_due("--save run --save-minutes 0", 0, 10000), 10000);
    EXPECT_INT(seconds_until_due("", 0, 10000), 10000);
}

TEST_MAIN(TEST_CASE(saves_every_ten_minutes), TEST_CASE(a_slow_save_is_rarer_unless_asked_for),
          TEST_CASE(others_save_as_they_say))
