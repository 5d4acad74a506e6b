// What a phase reports: nothing if it is short; what and how much if it is long; of nested phases the inner one.
#include "base/clock.h"
#include "base/log.h"
#include "base/phase.h"
#include "capture.h"

static void be_short(void) {
    phase_end(phase_begin("reading"));
    phase_end(NULL);
    phase_advance(NULL, 1);
}

static void be_long(void) {
    struct phase *outer = phase_begin("converting"), *inner = phase_begin_amount("verifying", "bytes", 4e9);
    phase_advance(inner, 1000000000);
    phase_advance(inner, 2000000000);
    clock_sleep(2.2);
    phase_end(inner);
    phase_end(outer);
}

static void be_noted(void) {
    struct phase *phase = phase_begin_amount("computing", "batches", 8);
    phase_note("timing algorithms");
    phase_note(NULL);
    phase_note("timing algorithms");
    clock_sleep(2.2);
    phase_note(NULL);
    phase_end(phase);
    phase_note("nobody asks");
}

static void be_another_rank(void) {
    log_set_rank(1, 2);
    struct phase *phase = phase_begin("reading");
    clock_sleep(2.2);
    phase_end(phase);
}

TEST(a_short_one_is_silent) {
    static struct capture capture;
    capture_run(&capture, be_short);
    EXPECT_STRING(capture.text, "");
}

TEST(a_long_one_speaks) {
    static struct capture capture;
    capture_run(&capture, be_long);
    EXPECT(strstr(capture.text, "verifying: 75 % of 4.00G bytes, 0:0") == capture.text);
    EXPECT(strstr(capture.text, " so far\nverifying took 0:0"));
    EXPECT(!strstr(capture.text, "converting: "));
}

TEST(what_is_done_within_it) {
    static struct capture capture;
    capture_run(&capture, be_noted);
    EXPECT(strstr(capture.text, "computing: 0 % of 8 batches, timing algorithms (2), 0:0") == capture.text);
}

TEST(one_rank_speaks) {
    static struct capture capture;
    capture_run(&capture, be_another_rank);
    EXPECT_STRING(capture.text, "");
}

TEST_MAIN(TEST_CASE(a_short_one_is_silent), TEST_CASE(a_long_one_speaks), TEST_CASE(what_is_done_within_it),
          TEST_CASE(one_rank_speaks))
