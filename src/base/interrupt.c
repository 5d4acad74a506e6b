// Signals that stop a command. See interrupt.h. Flags are the one thing a handler may touch, and so static variables;
// whether they are heeded goes with them.
#include "base/interrupt.h"

#include "base/error.h"
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static volatile sig_atomic_t received, is_deferred;
// Whether SIGINT or SIGTERM has come. Two may be handled at once, on two threads.
static atomic_flag is_told_to_end = ATOMIC_FLAG_INIT;

// The impatient send a second one, which need not be the same, and it gets its deadly meaning back as soon as this
// returns. The others say what has happened: a terminal that is closed, time that is nearly up.
static void remember(int number) {
    received = number;
    if ((number == SIGINT || number == SIGTERM) && atomic_flag_test_and_set(&is_told_to_end)) {
        signal(number, SIG_DFL);
        raise(number);
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
    // Whoever started this process may have held them back until now.
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
