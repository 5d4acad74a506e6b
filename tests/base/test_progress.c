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
    EXPECT(passed >= 0.0199 && passed < 10);
    EXPECT(fabs(wall - (double)time(NULL)) < 10);
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

static void report_plainly(void) {
    struct progress p;
    progress_begin(&p, "reading", "documents", 2000);
    progress_update(&p, 100, NULL);  // too soon for a line
    p.started -= 10;
    p.last_shown -= 10;
    progress_update(&p, 500, "12 MB/s");
    progress_update(&p, 600, NULL);
    progress_end(&p, "done");
    progress_begin(&p, "silent", "x", 0);
    p.is_quiet = true;
    progress_end(&p, NULL);
    progress_begin(&p, "unknown", "MB", 0);
    p.started -= 4000;
    p.last_shown -= 4000;
    progress_update(&p, 12345678, NULL);
}

TEST(plain_lines) {
    static struct capture capture;
    capture_run(&capture, report_plainly);
    EXPECT_STRING(capture.text, "reading  25% 500/2.00k documents, 50/s, 0:10, 0:30 left, 12 MB/s\n"
                                "reading  30% 600/2.00k documents, 60/s, 0:10, 0:23 left, done\n"
                                "unknown 12.3M MB, 3.09k/s, 1:06:40\n");
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
    progress_begin(&p, "training a model with a rather long label", "steps", 10);
    p.started -= 10;
    p.last_shown -= 10;
    progress_update(&p, 5, "a note that would make the line wrap: ääääääääääääääääääääää");
    progress_end(&p, NULL);
    // What was written arrives in pieces; the line's end is the last.
    char text[2048];
    size_t length = 0;
    struct pollfd wait = {.fd = control, .events = POLLIN};
    while (length < sizeof text && !memchr(text, '\n', length) && poll(&wait, 1, 5000) > 0) {
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
    const char *start = "\r\033[Ktraining a model with a rather long label [============>           ]  50% 5/1";
    EXPECT(strncmp(capture.text, start, strlen(start)) == 0);
    // 79 columns, then it is wiped and the last line stays.
    const char *wipe = strstr(capture.text + 4, "\r\033[K");
    EXPECT(wipe && wipe - capture.text == 4 + 79);
    EXPECT(strstr(wipe, "50% 5/10 steps, 0.50/s, 0:10, 0:10 left\r\n"));
}

TEST_MAIN(TEST_CASE(clocks), TEST_CASE(time_as_text), TEST_CASE(plain_lines), TEST_CASE(terminal_bar))
