// Clocks, and the progress line on a terminal and elsewhere.
#include "capture.h"

#include "base/clock.h"
#include "base/progress.h"
#include <fcntl.h>
#include <poll.h>
#include <time.h>

TEST(clocks) {
    double start = clock_seconds(), wall = clock_wall_seconds();
    clock_sleep(0.02);
    clock_sleep(0);
    clock_sleep(-1);
    double passed = clock_seconds() - start;
    EXPECT(passed >= 0.0199 && passed < 200);
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

// Four days ago, so that a test that is held up for seconds shows the same minutes.
static void start_earlier(struct progress *p) {
    p->started -= 361830;
    p->last_shown -= 361830;
}

static void report_plainly(void) {
    struct progress p;
    progress_begin(&p, "reading", "documents", 14472000);
    progress_update(&p, 100, NULL);  // too soon for a line
    start_earlier(&p);
    progress_update(&p, 3618000, "12 MB/s");
    progress_update(&p, 4341600, NULL);
    progress_end(&p, "done");
    progress_begin(&p, "silent", "x", 0);
    p.is_quiet = true;
    progress_end(&p, NULL);
    progress_begin(&p, "unknown", "MB", 0);
    start_earlier(&p);
    progress_update(&p, 12345678, NULL);
}

static void report_shortly(void) {
    struct progress p;
    progress_begin(&p, "short", "steps", 10);
    p.started -= 12;
    p.done = 5;
    progress_end(&p, NULL);
    progress_begin(&p, "longer", "steps", 1000);
    p.started -= 4002;
    p.done = 500;
    progress_end(&p, NULL);
}

TEST(plain_lines) {
    static struct capture capture;
    capture_run(&capture, report_plainly);
    EXPECT_STRING(capture.text, "reading  25% 3.62M/14.5M documents, 10 documents/s, 12 MB/s, ETA 12 d 13:31 h\n"
                                "reading  30% 4.34M/14.5M documents, 12 documents/s, done, ETA 9 d 18:31 h\n"
                                "unknown 12.3M MB, 34 MB/s, elapsed 4 d 04:30 h\n");
}

TEST(short_durations) {
    static struct capture capture;
    capture_run(&capture, report_shortly);
    EXPECT(strstr(capture.text, "50% 5/10 steps, 0.") && strstr(capture.text, " steps/s, elapsed 0:1"));
    EXPECT(strstr(capture.text, "50% 500/1.00k steps, 0.1") && strstr(capture.text, " steps/s, elapsed 1:06:4"));
}

// stderr of the child is the other end of a pseudo-terminal here.
static void report_on_terminal(void) {
    int control = posix_openpt(O_RDWR | O_NOCTTY);
    if (control < 0 || grantpt(control) < 0 || unlockpt(control) < 0)
        _exit(77);
    int terminal = open(ptsname(control), O_RDWR | O_NOCTTY), out = dup(STDERR_FILENO);
    if (terminal < 0 || dup2(terminal, STDERR_FILENO) < 0)
        _exit(77);
    struct progress p;
    progress_begin(&p, "training a model with a rather long label", "steps", 7236000);
    start_earlier(&p);
    progress_update(&p, 3618000, "a note that would make the line wrap: ääääääääääääääääääääää");
    p.label = "tokenizing";
    p.unit = "MB";
    p.last_shown -= 1;
    progress_update(&p, 3618000, "12.3k docs/s, 12.3M tokens/s");
    progress_end(&p, NULL);
    // What was written arrives in pieces; the line's end is the last.
    char text[2048];
    size_t length = 0;
    struct pollfd wait = {.fd = control, .events = POLLIN};
    while (length < sizeof text && !memchr(text, '\n', length) && poll(&wait, 1, 200000) > 0) {
        ssize_t count = read(control, text + length, sizeof text - length);
        if (count <= 0)
            break;
        length += (size_t)count;
    }
    if (write(out, text, length) != (ssize_t)length)
        _exit(1);
}

TEST(terminal_bar) {
    static struct capture capture;
    capture_run(&capture, report_on_terminal);
    if (capture.status == 77)
        test_skip("no pseudo-terminals here");
    EXPECT_INT(capture.status, 0);
    const char *start = "\r\033[Ktraining a model with a rather long label  50% 10 steps/s, a note that wo";
    EXPECT(strncmp(capture.text, start, strlen(start)) == 0);
    // 79 columns, then it is wiped and the last line stays.
    const char *wipe = strstr(capture.text + 4, "\r\033[K");
    EXPECT(wipe && wipe - capture.text == 4 + 79);
    // Everything that fits, and the bar in the room that is left.
    EXPECT(strstr(wipe, "tokenizing [===>  ]  50% 10 MB/s, 12.3k docs/s, 12.3M tokens/s, ETA 4 d 04:30 h\r"));
    EXPECT(strstr(wipe, "tokenizing [==========>         ]  50% 3.62M/7.24M MB, 10 MB/s, ETA 4 d 04:30 h\r\n"));
}

TEST_MAIN(TEST_CASE(clocks), TEST_CASE(time_as_text), TEST_CASE(plain_lines), TEST_CASE(short_durations),
          TEST_CASE(terminal_bar))
