// A phase reports nothing if it is short, its name and time if it is long; of nested phases the inner one reports.
#include "base/clock.h"
#include "base/log.h"
#include "base/phase.h"
#include "capture.h"
#include "moved_clock.h"

#include <pthread.h>

enum { NO_THREAD = 9 };

static struct moved_clock moved;

// Each phase has a thread that waits for its next line.
static void pass(double seconds, int phases) {
    moved_clock_await(&moved, phases);
    moved_clock_move(&moved, seconds);
    moved_clock_await(&moved, phases);
}

static void begin(void) {
    moved_clock_open(&moved, false);
    phase_set_clock(&moved.clock);
}

static void be_short(void) {
    begin();
    struct phase *phase = phase_begin("reading");
    pass(1.9, 1);
    phase_end(phase);
    phase_end(NULL);
    phase_advance(NULL, 1);
}

static void be_long(void) {
    begin();
    struct phase *outer = phase_begin("converting"), *inner = phase_begin_amount("verifying", "bytes", 4e9);
    phase_advance(inner, 1000000000);
    pass(2, 2);
    phase_advance(inner, 2000000000);
    const double later[] = {8, 19, 1, 30, 60, 60};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        pass(later[i], 2);
    phase_end(inner);
    phase_end(outer);
}

static void be_noted(void) {
    begin();
    struct phase *phase = phase_begin_amount("computing", "batches", 8);
    phase_note("timing algorithms");
    phase_note(NULL);
    phase_note("timing algorithms");
    pass(2, 1);
    phase_note(NULL);
    phase_end(phase);
    phase_note("nobody asks");
}

static void be_another_rank(void) {
    begin();
    log_set_rank(1, 2);
    struct phase *phase = phase_begin("reading");
    pass(100, 1);
    phase_end(phase);
}

// The pieces of the line: how long everything took, two phases of the same kind, and what lies between phases.
static void start_up(void) {
    begin();
    for (int i = 0; i < 2; i++) {
        struct phase *outer = phase_begin("reading");
        phase_end(phase_begin("within"));
        moved_clock_move(&moved, 0.75);
        phase_end(outer);
    }
    struct phase *other = phase_begin("writing");
    moved_clock_move(&moved, 0.25);
    phase_end(other);
    moved_clock_move(&moved, 100);
    phase_tell_start();
    phase_end(phase_begin("training"));
    phase_tell_start();
}

TEST(the_start_is_split) {
    static struct capture capture;
    double all, between;
    capture_run(&capture, start_up);
    EXPECT_INT(capture.status, 0);
    const char *line = strstr(capture.text, "the start took ");
    EXPECT(line && !strstr(line + 1, "the start took") && !strstr(line, "within") && !strstr(line, "training"));
    EXPECT_INT(sscanf(line, "the start took %lf s: reading 1.50 s, writing 0.25 s, other %lf s", &all, &between), 2);
    // How long the process has lived is real: what the phases did not take of it.
    EXPECT_NEAR(between, fmax(all - 1.75, 0), 0.02);
}

// Phases of other threads may end while the start is told; under ThreadSanitizer this finds what they share.
static void *end_phases(void *argument) {
    for (int i = 0; i < 200; i++)
        phase_end(phase_begin(argument));
    return NULL;
}
static void be_many(void) {
    static char label[] = "copying";
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_phases, label) != 0)
        _exit(NO_THREAD);
    for (int i = 0; i < 100; i++)
        phase_end(phase_begin("loading"));
    phase_tell_start();
    phase_tell_start();
    pthread_join(thread, NULL);
}
TEST(phases_of_other_threads_are_counted_whole) {
    static struct capture capture;
    capture_run(&capture, be_many);
    EXPECT_INT(capture.status, 0);
    const char *told = strstr(capture.text, "the start took ");
    EXPECT(told && !strstr(told + 1, "the start took "));
}

TEST(a_short_one_is_silent) {
    static struct capture capture;
    capture_run(&capture, be_short);
    EXPECT_INT(capture.status, 0);
    EXPECT_STRING(capture.text, "");
}

TEST(a_long_one_speaks) {
    static struct capture capture;
    capture_run(&capture, be_long);
    EXPECT_INT(capture.status, 0);
    EXPECT_STRING(capture.text, "verifying: 25 % of 4.00G bytes, 0:02 so far\n"
                                "verifying: 75 % of 4.00G bytes, 0:10 so far\n"
                                "verifying: 75 % of 4.00G bytes, 0:30 so far\n"
                                "verifying: 75 % of 4.00G bytes, 1:00 so far\n"
                                "verifying: 75 % of 4.00G bytes, 2:00 so far\n"
                                "verifying: 75 % of 4.00G bytes, 3:00 so far\n"
                                "verifying took 3:00\n");
}

TEST(what_is_done_within_it) {
    static struct capture capture;
    capture_run(&capture, be_noted);
    EXPECT_INT(capture.status, 0);
    EXPECT_STRING(capture.text,
                  "computing: 0 % of 8 batches, timing algorithms (2), 0:02 so far\ncomputing took 0:02\n");
}

TEST(one_rank_speaks) {
    static struct capture capture;
    capture_run(&capture, be_another_rank);
    EXPECT_INT(capture.status, 0);
    EXPECT_STRING(capture.text, "");
}

TEST_MAIN(TEST_CASE(a_short_one_is_silent), TEST_CASE(a_long_one_speaks), TEST_CASE(what_is_done_within_it),
          TEST_CASE(one_rank_speaks), TEST_CASE(the_start_is_split),
          TEST_CASE(phases_of_other_threads_are_counted_whole))
