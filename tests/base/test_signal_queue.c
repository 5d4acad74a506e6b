// The queue of signals: none is lost, whichever thread receives it and whatever the process is doing.
// tier: all
#include "base/interrupt.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static void *take_signals(void *unused) {
    for (int i = 0; i < 1000; i++)
        usleep(100000);
    return unused;
}

// Runs in a separate process, since a queue is opened once; 0 if all is well, else the number of the failed check.
static int check(void) {
    // A thread with all signals unblocked, as libraries start them, while the first thread is busy.
    pthread_t thread;
    sigset_t all;
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    pthread_create(&thread, NULL, take_signals, NULL);
    sigfillset(&all);
    if (signal_queue_open(numbers, NUMBERS) < 0)
        return 1;
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    const int sent[] = {SIGTERM, SIGTERM, SIGHUP, SIGUSR1, SIGINT};
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        kill(getpid(), sent[i]);
        // The kernel keeps one pending signal of each kind: a second one counts once the first has reached the other
        // thread.
        sigset_t waiting;
        do {
            usleep(1000);
            sigpending(&waiting);
        } while (sigismember(&waiting, sent[i]) == 1);
    }
    // The same one twice, and none that was ignored. The next signal may interrupt a handler before it has written.
    int counts[NSIG] = {0};
    for (int i = 0; i < 4; i++)
        counts[signal_queue_next(200)]++;
    if (counts[SIGTERM] != 2 || counts[SIGUSR1] != 1 || counts[SIGINT] != 1)
        return 2;
    return signal_queue_next(0.01) == 0 ? 0 : 20;
}

// Children that send themselves SIGTERM: one blocks it, the other dies of it, and neither signal reaches the parent.
static int check_fork(void) {
    if (signal_queue_open(numbers, NUMBERS) < 0)
        return 1;
    for (int is_held = 0; is_held < 2; is_held++) {
        pid_t child = signal_queue_fork(is_held);
        if (child == 0) {
            kill(getpid(), SIGTERM);
            _exit(7);
        }
        int status;
        if (signal_queue_next(200) != SIGCHLD || waitpid(child, &status, 0) != child)
            return 2;
        if (is_held ? !WIFEXITED(status) || WEXITSTATUS(status) != 7 : !WIFSIGNALED(status))
            return 3 + is_held;
    }
    return signal_queue_next(0) == 0 ? 0 : 5;
}

static int code_of(int (*function)(void)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(function());
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(none_is_lost) {
    EXPECT_INT(code_of(check), 0);
}

TEST(children_have_their_own) {
    EXPECT_INT(code_of(check_fork), 0);
}

TEST_MAIN(TEST_CASE(none_is_lost), TEST_CASE(children_have_their_own))
