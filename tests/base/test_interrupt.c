// Signals that ask a command to stop: which of them end it at once after another one.
// tier: all
#include "base/interrupt.h"
#include "capture.h"

#include <signal.h>

// A process that watches for signals gets these, up to a 0. Returns the signal that killed it, or 0 if it lives to the
// end and remembers the last of them.
static int end_of(const int *numbers) {
    int status = 0, last = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        interrupt_watch();
        for (; *numbers; numbers++) {
            raise(*numbers);
            last = *numbers;
        }
        _exit(interrupt_received() == last ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

#define END_OF(...) end_of((const int[]){__VA_ARGS__, 0})

TEST(one_is_remembered) {
    EXPECT_INT(END_OF(SIGTERM), 0);
    EXPECT_INT(END_OF(SIGINT), 0);
    EXPECT_INT(END_OF(SIGHUP), 0);
    EXPECT_INT(END_OF(SIGUSR1), 0);
}

TEST(a_second_order_to_end_is_deadly) {
    EXPECT_INT(END_OF(SIGTERM, SIGTERM), SIGTERM);
    EXPECT_INT(END_OF(SIGTERM, SIGINT), SIGINT);
    EXPECT_INT(END_OF(SIGINT, SIGTERM), SIGTERM);
    EXPECT_INT(END_OF(SIGINT, SIGINT), SIGINT);
    EXPECT_INT(END_OF(SIGTERM, SIGUSR1, SIGHUP, SIGINT), SIGINT);
    EXPECT_INT(END_OF(SIGUSR1, SIGTERM, SIGTERM), SIGTERM);
}

TEST(news_are_not_orders) {
    EXPECT_INT(END_OF(SIGUSR1, SIGUSR1, SIGTERM), 0);
    EXPECT_INT(END_OF(SIGUSR1, SIGINT), 0);
    EXPECT_INT(END_OF(SIGHUP, SIGHUP, SIGTERM), 0);
    EXPECT_INT(END_OF(SIGTERM, SIGHUP, SIGUSR1), 0);
}

static void be_interrupted(int number) {
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    interrupt_watch();
    interrupt_answer("finishing iteration ", 1207, ", then saving", "quit without saving");
    raise(SIGHUP);
    raise(number);
}

static void press_ctrl_c(void) {
    be_interrupted(SIGINT);
}

static void be_terminated(void) {
    be_interrupted(SIGTERM);
}

static void answer_without_number(void) {
    signal(SIGINT, SIG_DFL);
    interrupt_watch();
    interrupt_answer("stopping", -1, NULL, NULL);
    raise(SIGINT);
}

static void answer_nothing(void) {
    signal(SIGINT, SIG_DFL);
    interrupt_watch();
    raise(SIGINT);
}

TEST(the_first_is_answered_at_once) {
    static struct capture capture;
    capture_run(&capture, press_ctrl_c);
    EXPECT_STRING(capture.text, "finishing iteration 1207, then saving; press Ctrl-C again to quit without saving\n");
    capture_run(&capture, be_terminated);
    EXPECT_STRING(capture.text, "finishing iteration 1207, then saving\n");
    capture_run(&capture, answer_without_number);
    EXPECT_STRING(capture.text, "stopping\n");
    capture_run(&capture, answer_nothing);
    EXPECT_STRING(capture.text, "");
}

TEST_MAIN(TEST_CASE(one_is_remembered), TEST_CASE(the_first_is_answered_at_once),
          TEST_CASE(a_second_order_to_end_is_deadly), TEST_CASE(news_are_not_orders))
