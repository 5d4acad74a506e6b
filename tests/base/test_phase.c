// What a phase reports: nothing if it is short; what and how much if it is long; of nested phases the inner one.
#include "base/clock.h"
#include "base/log.h"
#include "base/phase.h"
#include "capture.h"

#include <pthread.h>

enum { TOO_LATE = 9 };

// Where lines go until await_line has seen one, and the stderr of before.
static int lines[2], usual;

static void expect_line(void) {
    usual = dup(STDERR_FILENO);
    if (usual < 0 || pipe(lines) < 0 || dup2(lines[1], STDERR_FILENO) < 0)
        _exit(1);
}

// However long a busy machine takes to write it.
static void await_line(void) {
    char text[4096];
    alarm(300);
    ssize_t count = read(lines[0], text, sizeof text);
    alarm(0);
    if (count <= 0 || write(usual, text, (size_t)count) != count || dup2(usual, STDERR_FILENO) < 0)
        _exit(1);
}

static void be_short(void) {
    double start = clock_seconds();
    phase_end(phase_begin("reading"));
    phase_end(NULL);
    phase_advance(NULL, 1);
    if (clock_seconds() - start > 1)
        _exit(TOO_LATE);
}

static void be_long(void) {
    expect_line();
    double start = clock_seconds();
    struct phase *outer = phase_begin("converting"), *inner = phase_begin_amount("verifying", "bytes", 4e9);
    phase_advance(inner, 1000000000);
    phase_advance(inner, 2000000000);
    if (clock_seconds() - start > 1)
        _exit(TOO_LATE);
    await_line();
    phase_end(inner);
    phase_end(outer);
}

static void be_noted(void) {
    expect_line();
    double start = clock_seconds();
    struct phase *phase = phase_begin_amount("computing", "batches", 8);
    phase_note("timing algorithms");
    phase_note(NULL);
    phase_note("timing algorithms");
    if (clock_seconds() - start > 1)
        _exit(TOO_LATE);
    await_line();
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

// The pieces of the line: how long everything took, two phases of the same kind, and what lies between phases.
static struct start_line { double all, reading, other; } said;

static void start_up(void) {
    for (int i = 0; i < 2; i++) {
        struct phase *outer = phase_begin("reading");
        phase_end(phase_begin("within"));
        clock_sleep(0.3);
        phase_end(outer);
    }
    phase_tell_start();
    phase_end(phase_begin("training"));
    phase_tell_start();
}

TEST(the_start_is_split) {
    static struct capture capture;
    capture_run(&capture, start_up);
    EXPECT_INT(capture.status, 0);
    const char *line = strstr(capture.text, "the start took ");
    EXPECT(line && !strstr(line + 1, "the start took") && !strstr(line, "within") && !strstr(line, "training"));
    EXPECT_INT(sscanf(line, "the start took %lf s: reading %lf s, other %lf s", &said.all, &said.reading, &said.other),
               3);
    EXPECT(said.reading >= 0.59 && said.all >= said.reading);
    EXPECT_NEAR(said.reading + said.other, said.all, 0.02);
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
        _exit(TOO_LATE);
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

// Again if a busy machine held it up before it could say what it does.
static void capture_in_time(struct capture *capture, void (*function)(void)) {
    do
        capture_run(capture, function);
    while (capture->status == TOO_LATE);
    EXPECT_INT(capture->status, 0);
}

TEST(a_short_one_is_silent) {
    static struct capture capture;
    capture_in_time(&capture, be_short);
    EXPECT_STRING(capture.text, "");
}

TEST(a_long_one_speaks) {
    static struct capture capture;
    capture_in_time(&capture, be_long);
    EXPECT(strstr(capture.text, "verifying: 75 % of 4.00G bytes, 0:") == capture.text);
    EXPECT(strstr(capture.text, " so far\nverifying took 0:"));
    EXPECT(!strstr(capture.text, "converting: "));
}

TEST(what_is_done_within_it) {
    static struct capture capture;
    capture_in_time(&capture, be_noted);
    EXPECT(strstr(capture.text, "computing: 0 % of 8 batches, timing algorithms (2), 0:") == capture.text);
}

TEST(one_rank_speaks) {
    static struct capture capture;
    capture_run(&capture, be_another_rank);
    EXPECT_STRING(capture.text, "");
}

TEST_MAIN(TEST_CASE(a_short_one_is_silent), TEST_CASE(a_long_one_speaks), TEST_CASE(what_is_done_within_it),
          TEST_CASE(one_rank_speaks), TEST_CASE(the_start_is_split),
          TEST_CASE(phases_of_other_threads_are_counted_whole))
