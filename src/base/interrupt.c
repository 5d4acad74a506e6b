// Signals that stop a command. See interrupt.h. A handler may touch only flags, so these are static
// variables; so is the one that says whether they are heeded.
#include "base/interrupt.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/screen.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t received, is_deferred;
// Whether SIGINT or SIGTERM has arrived. Two may be handled at once, on two threads.
static atomic_flag is_told_to_end = ATOMIC_FLAG_INIT;

// The answer. A handler may read a mix of old and new parts while it is changed: harmless.
static const char *_Atomic answer_doing, *_Atomic answer_next, *_Atomic answer_again;
static _Atomic int64_t answer_number;

static size_t append(char *line, size_t size, size_t length, const char *text) {
    while (*text && length < size)
        line[length++] = *text++;
    return length;
}

static size_t append_number(char *line, size_t size, size_t length, int64_t number) {
    char digits[24] = "";
    size_t at = sizeof digits - 1;
    for (; number > 0 || at == sizeof digits - 1; number /= 10)
        digits[--at] = (char)('0' + number % 10);
    return append(line, size, length, digits + at);
}

// Skipped while the terminal is on hold: writing would block.
static void write_at_once(const char *text, size_t length) {
    struct pollfd file = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&file, 1, 0) != 0)
        (void)!write(STDERR_FILENO, text, length);
}

// A signal handler may not allocate or lock: the line is built here and written at once.
static void answer(int number) {
    const char *doing = atomic_load(&answer_doing), *next = atomic_load(&answer_next);
    const char *again = atomic_load(&answer_again);
    int64_t at = atomic_load(&answer_number);
    int error = errno;
    char line[256];
    size_t length = 0;
    if (!doing)
        return;
    // On a terminal the line already shows ^C.
    length = append(line, sizeof line, length, screen_is_live() ? screen_clear : isatty(STDERR_FILENO) ? "\n" : "");
    length = append(line, sizeof line, length, doing);
    if (at >= 0)
        length = append_number(line, sizeof line, length, at);
    length = append(line, sizeof line, length, next ? next : "");
    if (number == SIGINT && again) {
        length = append(line, sizeof line - 1, length, "; press Ctrl-C again to ");
        length = append(line, sizeof line - 1, length, again);
    }
    length = append(line, sizeof line, length, "\n");
    write_at_once(line, length);
    errno = error;
}

void interrupt_answer(const char *doing, int64_t number, const char *next, const char *again) {
    atomic_store(&answer_again, again);
    atomic_store(&answer_number, number);
    atomic_store(&answer_next, next);
    atomic_store(&answer_doing, doing);
}

// Clears the bottom of the terminal, where the shell writes next.
static void leave(int number) {
    if (screen_is_live())
        write_at_once(screen_clear, strlen(screen_clear));
    signal(number, SIG_DFL);
    raise(number);
}

void interrupt_clear_screen(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGQUIT};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL)
            signal(numbers[i], leave);
    }
}

// A second signal, the same or another, ends the process: it gets its default action back on return. The other signals
// only inform: the terminal was closed, or time is nearly up.
static void remember(int number) {
    received = number;
    if (number != SIGINT && number != SIGTERM)
        return;
    if (atomic_flag_test_and_set(&is_told_to_end)) {
        leave(number);
    } else {
        answer(number);
    }
}

void interrupt_watch(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigset_t heard;
    sigemptyset(&heard);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = remember;
        action.sa_flags = SA_RESTART;
        sigaction(numbers[i], &action, NULL);
        sigaddset(&heard, numbers[i]);
    }
    // The parent process may have blocked them.
    pthread_sigmask(SIG_UNBLOCK, &heard, NULL);
}

void interrupt_defer(void) {
    is_deferred = 1;
}

int interrupt_received(void) {
    return received;
}

const char *interrupt_name(int number) {
    return number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : number == SIGUSR1 ? "SIGUSR1" : "SIGHUP";
}

int interrupt_check(void) {
    int number = received;
    if (number == 0 || is_deferred)
        return 0;
    return error_set_code(EXIT_CODE_STOPPED, "stopped by %s before the end; run it again",
                          number == SIGINT ? "Ctrl-C (SIGINT)" : interrupt_name(number));
}

int interrupt_end(int exit_code) {
    int number = received;
    if (number == 0 || is_deferred || exit_code == EXIT_CODE_OK)
        return exit_code;
    if (number == SIGUSR1)
        return EXIT_CODE_STOPPED;
    signal(number, SIG_DFL);
    raise(number);
    return exit_code;
}

// ---- the queue: a pipe of signal numbers ----
//
// Its ends and the set are static because a handler can reach nothing else; they do not change once the first handler
// is installed.

static int queue_ends[2] = {-1, -1};
static sigset_t queued;

static void queue_signal(int number) {
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
    action.sa_handler = queue_signal;
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

bool thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status == 0;
}
