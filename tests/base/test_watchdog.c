// Work that completes nothing ends the process after its limit, and says before what it is; work that proceeds, and
// work inside of other work, does not.
#include "base/watchdog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "test.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void open_all(double seconds) {
    watchdog_open(&(struct watchdog_options){.limits = {seconds, seconds, seconds, seconds}, .rank = 3});
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
    // Before the watchdog looks: a process that is held up between the two would be stuck in training.
    watchdog_begin(&outer, WATCHDOG_STEP, "training");
    watchdog_iteration(20);
    watchdog_begin(&inner, WATCHDOG_SAVE, "saving the checkpoint");
    watchdog_doing("syncing", "run/model.safetensors");
    open_all(0.4);
    for (;;) {
        clock_sleep(0.01);
        watchdog_beat_all();  // others get on; this does not help a save
    }
}

TEST(stuck_work_ends_the_process) {
    static char said[4096];
    EXPECT_INT(exit_code_of(get_stuck, said, sizeof said), EXIT_CODE_HANG);
    // On a busy machine the seconds are more than the limit's.
    EXPECT(strstr(said, "still saving the checkpoint after iteration 20, ") && strstr(said, " s, rank 3 on "));
    EXPECT(strstr(said,
                  ", syncing run/model.safetensors; the run ends after 0 s without progress (--save-timeout-minutes)"));
    EXPECT(strstr(said, "saving the checkpoint after iteration 20: nothing was completed for "));
    EXPECT(strstr(said, " s, longer than --save-timeout-minutes allows, on rank 3 on "));
    EXPECT(!strstr(said, "training"));
}

// Ten times the limit, with something completed all the time: by this thread, by others, inside, or while waiting for
// work that has its own limit.
static void get_on(void) {
    struct watchdog_work outer, inner;
    open_all(2);
    watchdog_begin(&outer, WATCHDOG_STEP, "training");
    for (int i = 0; i < 40; i++) {
        clock_sleep(0.05);
        if (i % 4 == 0)
            watchdog_beat();
        else if (i % 4 == 1)
            watchdog_beat_all();
        watchdog_begin(&inner, i % 4 == 2 ? WATCHDOG_ELSEWHERE : WATCHDOG_LOAD, "reading");
        clock_sleep(0.02);
        watchdog_end(&inner);
    }
    watchdog_begin(&inner, WATCHDOG_ELSEWHERE, "waiting");
    clock_sleep(2.5);
    watchdog_end(&inner);
    watchdog_end(&outer);
    watchdog_close();
}

TEST(work_that_proceeds_does_not) {
    static char said[4096];
    EXPECT_INT(exit_code_of(get_on, said, sizeof said), 0);
    EXPECT(!strstr(said, "longer than"));
}

static void *sleep_in_background(void *unused) {
    (void)unused;
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_SAVE, "saving a checkpoint in the background");
    clock_sleep(60);
    watchdog_end(&work);
    return NULL;
}

// A thread of its own that is stuck, while the first one works.
static void leave_thread_stuck(void) {
    struct watchdog_work work;
    pthread_t thread;
    // Training has a longer limit, which a busy machine does not exceed.
    watchdog_open(&(struct watchdog_options){.limits = {[WATCHDOG_STEP] = 60, [WATCHDOG_SAVE] = 0.4}, .rank = 3});
    watchdog_begin(&work, WATCHDOG_STEP, "training");
    if (!thread_start(&thread, sleep_in_background, NULL))
        _exit(1);
    for (;;) {
        clock_sleep(0.01);
        watchdog_beat();
        watchdog_beat_all();
    }
}

TEST(threads_are_watched) {
    static char said[4096];
    EXPECT_INT(exit_code_of(leave_thread_stuck, said, sizeof said), EXIT_CODE_HANG);
    EXPECT(strstr(said, "saving a checkpoint in the background: nothing was completed"));
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
    watchdog_open(&(struct watchdog_options){.limits = {[WATCHDOG_SAVE] = 0.1}});
    watchdog_begin(&work, WATCHDOG_STEP, "training");
    clock_sleep(0.5);
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
