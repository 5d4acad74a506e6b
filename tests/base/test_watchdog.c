// Work that completes nothing ends the process after its limit, and says before what it is; work that proceeds, and
// work inside of other work, does not.
#include "base/watchdog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "moved_clock.h"
#include "test.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct moved_clock moved;

static void open_all(double seconds) {
    watchdog_open(
        &(struct watchdog_options){.limits = {seconds, seconds, seconds, seconds}, .rank = 3, .clock = &moved.clock});
}

// Moves the clock by seconds; the watchdog looks in each.
static void pass(int seconds) {
    for (int i = 0; i < seconds; i++) {
        moved_clock_move(&moved, 1);
        moved_clock_await(&moved, 1);
    }
}

// Runs `work` in a child; returns its exit code, and what it wrote to stderr.
static int exit_code_of(void (*work)(void), char *said, size_t size) {
    int ends[2], status = 0;
    EXPECT_INT(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        work();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length + 1 < size && (got = read(ends[0], said + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = '\0';
    close(ends[0]);
    EXPECT_INT(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void get_stuck(void) {
    struct watchdog_work outer, inner;
    // The clock runs: what the watchdog is to find is there before it looks.
    moved_clock_open(&moved, true);
    watchdog_begin(&outer, WATCHDOG_STEP, "training");
    watchdog_iteration(20);
    watchdog_begin(&inner, WATCHDOG_SAVE, "saving the checkpoint");
    watchdog_doing("syncing", "run/model.safetensors");
    open_all(600);
    for (;;) {
        clock_sleep(0.01);
        watchdog_beat_all();  // others get on; this does not help a save
    }
}

TEST(stuck_work_ends_the_process) {
    static char said[4096];
    EXPECT_INT(exit_code_of(get_stuck, said, sizeof said), EXIT_CODE_HANG);
    const char *line = said;
    for (int seconds = 60; seconds < 600; seconds *= 2) {
        char start[128];
        snprintf(start, sizeof start, "warning: still saving the checkpoint after iteration 20, %d s, rank 3 on ",
                 seconds);
        EXPECT(line && strncmp(line, start, strlen(start)) == 0);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    EXPECT(strstr(said, ", syncing run/model.safetensors; the run ends after 600 s without progress "
                        "(--save-timeout-minutes)\n"));
    EXPECT(line &&
           strstr(line, "saving the checkpoint after iteration 20: nothing was completed for 600 s, longer than "
                        "--save-timeout-minutes allows, on rank 3 on "));
    EXPECT(!strstr(said, "training"));
}

// Longer than the limit each, with something completed in time: by this thread, by others, inside, or while waiting for
// work that has its own limit.
static void get_on(void) {
    struct watchdog_work outer, inner;
    moved_clock_open(&moved, false);
    open_all(10);
    moved_clock_await(&moved, 1);
    watchdog_begin(&outer, WATCHDOG_STEP, "training");
    for (int i = 0; i < 6; i++) {
        pass(9);
        if (i < 2) {
            watchdog_beat();
        } else if (i < 4) {
            watchdog_beat_all();
        } else {
            watchdog_begin(&inner, WATCHDOG_LOAD, "reading");
            pass(9);
            watchdog_end(&inner);
        }
    }
    watchdog_begin(&inner, WATCHDOG_ELSEWHERE, "waiting");
    pass(20);
    watchdog_end(&inner);
    pass(9);
    watchdog_end(&outer);
    watchdog_close();
}

TEST(work_that_proceeds_does_not) {
    static char said[4096];
    EXPECT_INT(exit_code_of(get_on, said, sizeof said), 0);
    EXPECT(!strstr(said, "longer than"));
}

static atomic_bool has_begun;

static void *sleep_in_background(void *unused) {
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_SAVE, "saving a checkpoint in the background");
    atomic_store(&has_begun, true);
    pause();
    return unused;
}

// A thread of its own that is stuck, while the first one works.
static void leave_thread_stuck(void) {
    struct watchdog_work work;
    pthread_t thread;
    moved_clock_open(&moved, false);
    watchdog_open(&(struct watchdog_options){
        .limits = {[WATCHDOG_STEP] = 10, [WATCHDOG_SAVE] = 20}, .rank = 3, .clock = &moved.clock});
    moved_clock_await(&moved, 1);
    watchdog_begin(&work, WATCHDOG_STEP, "training");
    if (!thread_start(&thread, sleep_in_background, NULL))
        _exit(1);
    while (!atomic_load(&has_begun))
        clock_sleep(1e-3);
    for (;;) {
        pass(4);
        watchdog_beat();
        watchdog_beat_all();
    }
}

TEST(threads_are_watched) {
    static char said[4096];
    EXPECT_INT(exit_code_of(leave_thread_stuck, said, sizeof said), EXIT_CODE_HANG);
    EXPECT(strstr(said, "saving a checkpoint in the background: nothing was completed for 20 s") &&
           !strstr(said, "training"));
}

// Whoever helps the process to its end reads files, which is work, too.
static void work_at_the_end(enum exit_code code) {
    struct watchdog_work work;
    (void)code;
    watchdog_begin(&work, WATCHDOG_SAVE, "writing a report");
    watchdog_doing("writing", "report.json");
    watchdog_end(&work);
}

static void end_with_work(void) {
    alarm(300);
    die_set_handler(work_at_the_end);
    get_stuck();
}

TEST(work_while_the_process_ends) {
    static char said[4096];
    EXPECT_INT(exit_code_of(end_with_work, said, sizeof said), EXIT_CODE_HANG);
}

static void wait_without_limit(void) {
    struct watchdog_work work;
    moved_clock_open(&moved, false);
    watchdog_open(&(struct watchdog_options){.limits = {[WATCHDOG_SAVE] = 1}, .clock = &moved.clock});
    moved_clock_await(&moved, 1);
    watchdog_begin(&work, WATCHDOG_STEP, "training");
    pass(20);
    watchdog_end(&work);
    watchdog_close();
}

TEST(no_limit) {
    static char said[4096];
    EXPECT_INT(exit_code_of(wait_without_limit, said, sizeof said), 0);
    EXPECT(said[0] == '\0');
}

TEST_MAIN(TEST_CASE(stuck_work_ends_the_process), TEST_CASE(work_that_proceeds_does_not),
          TEST_CASE(threads_are_watched), TEST_CASE(work_while_the_process_ends), TEST_CASE(no_limit))
