// A pipe of signal numbers. See signal_queue.h. Its ends and the set are static because a handler can reach nothing
// else; they do not change once the first handler is installed.
#include "base/signal_queue.h"

#include "base/clock.h"
#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int queue_ends[2] = {-1, -1};
static sigset_t queued;

static void append(int number) {
    int before = errno;
    unsigned char byte = (unsigned char)number;
    // A queue is full only with thousands of untaken signals.
    ssize_t written = write(queue_ends[1], &byte, 1);
    (void)written;
    errno = before;
}

static void queue_one(int number, bool is_needed) {
    struct sigaction action;
    if (!is_needed && sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        return;
    memset(&action, 0, sizeof action);
    action.sa_handler = append;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, NULL);
    sigaddset(&queued, number);
}

int signal_queue_open(const int *numbers, size_t count) {
    if (pipe2(queue_ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set("cannot create a pipe for signals: %s", strerror(errno));
    sigemptyset(&queued);
    for (size_t i = 0; i < count; i++)
        queue_one(numbers[i], false);
    queue_one(SIGCHLD, true);
    pthread_sigmask(SIG_UNBLOCK, &queued, NULL);
    return 0;
}

int signal_queue_next(double seconds) {
    double until = clock_seconds() + seconds;
    for (;;) {
        unsigned char byte;
        if (read(queue_ends[0], &byte, 1) == 1)
            return byte;
        double left = seconds < 0 ? 1 : until - clock_seconds();
        if (left <= 0)
            return 0;
        struct pollfd end = {.fd = queue_ends[0], .events = POLLIN};
        poll(&end, 1, left < 1 ? (int)(left * 1000) + 1 : 1000);
    }
}

pid_t signal_queue_fork(bool is_held) {
    sigset_t before;
    fflush(NULL);
    pthread_sigmask(SIG_BLOCK, &queued, &before);
    pid_t child = fork();
    if (child == 0) {
        // Signals sent to the child are not for the parent.
        for (int number = 1; number < NSIG; number++)
            if (sigismember(&queued, number) == 1)
                signal(number, SIG_DFL);
        sigset_t opened = queued;
        if (is_held) {
            sigemptyset(&opened);
            sigaddset(&opened, SIGCHLD);
        }
        pthread_sigmask(SIG_UNBLOCK, &opened, NULL);
        return 0;
    }
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return child;
}
