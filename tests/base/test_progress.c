// Clocks, and the progress line on a terminal and elsewhere.
#include "capture.h"

#include "base/clock.h"
#include "base/progress.h"
#include "moved_clock.h"
#include "pty.h"
#include <time.h>

TEST(clocks) {
    double start = clock_seconds(), wall = clock_wall_seconds();
    clock_sleep(0.02);
    clock_sleep(0);
    clock_sleep(-1);
    EXPECT(clock_seconds() - start >= 0.0199);
    EXPECT(fabs(wall - (double)time(NULL)) < 200);
    EXPECT(clock_wall_seconds() > wall);
}

TEST(time_as_text) {
    char text[32];
    setenv("TZ", "UTC", 1);
    tzset();
    clock_format(0, text, sizeof text);
    EXPECT_STRING(text, "1970-01-01 00:00:00.000000");
    clock_format(1700000000.25, text, sizeof text);
    EXPECT_STRING(text, "2023-11-14 22:13:20.250000");
    clock_format(1700000000.9999995, text, sizeof text);  // never 60 seconds or 1000000 microseconds
    EXPECT_STRING(text, "2023-11-14 22:13:20.999999");
    setenv("TZ", "UTC-5:30", 1);
    tzset();
    clock_format(0, text, 27);
    EXPECT_STRING(text, "1970-01-01 05:30:00.000000");
}

static struct moved_clock moved;

static void begin(struct progress *p, const char *label, const char *unit, double total) {
    progress_begin(p, label, unit, total);
    moved_clock_open(&moved, true);
    p->clock = &moved.clock;
    p->started = p->last_shown = 0;
}

static void report_plainly(void) {
    struct progress p;
    begin(&p, "reading", "documents", 14472000);
    progress_update(&p, 100, NULL);  // too soon for a line
    moved.now = 361800;
    progress_update(&p, 3618000, "12 MB/s");
    progress_update(&p, 4341600, NULL);
    progress_end(&p, "done");
    begin(&p, "silent", "x", 0);
    p.is_quiet = true;
    progress_end(&p, NULL);
    begin(&p, "unknown", "MB", 0);
    moved.now = 361800;
    progress_update(&p, 12345678, NULL);
}

static void report_shortly(void) {
    struct progress p;
    begin(&p, "short", "steps", 10);
    moved.now = 10;
    p.done = 5;
    progress_end(&p, NULL);
    begin(&p, "longer", "steps", 1000);
    moved.now = 4000;
    p.done = 500;
    progress_end(&p, NULL);
}

TEST(plain_lines) {
    static struct capture capture;
    capture_run(&capture, report_plainly);
    EXPECT_STRING(capture.text, "reading  25% 3.62M/14.5M documents, 10 documents/s, 12 MB/s, ETA 12 d 13:30 h\n"
                                "reading  30% 4.34M/14.5M documents, 12 documents/s, done, ETA 9 d 18:30 h\n"
                                "unknown 12.3M MB, 34 MB/s, elapsed 4 d 04:30 h\n");
}

TEST(short_durations) {
    static struct capture capture;
    capture_run(&capture, report_shortly);
    EXPECT_STRING(capture.text, "short  50% 5/10 steps, 0.50 steps/s, elapsed 0:10, ETA 0:10\n"
                                "longer  50% 500/1.00k steps, 0.12 steps/s, elapsed 1:06:40, ETA 1:06:40\n");
}

static void show_long_line(void) {
    struct progress p;
    begin(&p, "training a model with a rather long label", "steps", 7236000);
    moved.now = 361800;
    progress_update(&p, 3618000, "a note that would make the line wrap: ääääääääääääääääääääää");
}

static void show_bar(void) {
    struct progress p;
    begin(&p, "tokenizing", "MB", 7236000);
    moved.now = 361800;
    progress_update(&p, 3618000, "12.3k docs/s, 12.3M tokens/s");
}

static void end_bar(void) {
    struct progress p;
    begin(&p, "tokenizing", "MB", 7236000);
    moved.now = 361800;
    progress_update(&p, 3618000, "12.3k docs/s, 12.3M tokens/s");
    progress_end(&p, NULL);
}

static void expect_text(int columns, void (*function)(void), const char *expected) {
    char *text = pty_text(columns, function);
    EXPECT_STRING(text, expected);
    free(text);
}

static void expect_line(void (*function)(void), const char *expected) {
    expect_text(80, function, expected);
}

TEST(terminal_bar) {
    // 79 columns.
    expect_line(show_long_line, "training a model with a rather long label  50% 10 steps/s, ETA 4 d 04:30 h\n");
    // Everything that fits, and the bar in the room that is left.
    expect_line(show_bar, "tokenizing [===>  ]  50% 10 MB/s, 12.3k docs/s, 12.3M tokens/s, ETA 4 d 04:30 h\n");
    // Narrower: without the bar, without the note, without the rate; no number is cut.
    expect_text(72, show_bar, "tokenizing  50% 10 MB/s, 12.3k docs/s, 12.3M tokens/s, ETA 4 d 04:30 h\n");
    expect_text(60, show_bar, "tokenizing [========>       ]  50% 10 MB/s, ETA 4 d 04:30 h\n");
    expect_text(36, show_bar, "tokenizing  50%, ETA 4 d 04:30 h\n");
    // The last line stays.
    expect_line(end_bar, "tokenizing [==========>         ]  50% 3.62M/7.24M MB, 10 MB/s, ETA 4 d 04:30 h\n");
}

TEST_MAIN(TEST_CASE(clocks), TEST_CASE(time_as_text), TEST_CASE(plain_lines), TEST_CASE(short_durations),
          TEST_CASE(terminal_bar))
