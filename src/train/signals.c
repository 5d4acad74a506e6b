// Signals that ask to stop. See signals.h. The flag is the one thing a handler may touch, and so the one static
// variable.
#include "train/signals.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t received;

static void remember(int number) {
    // Schedulers and launchers may both pass the warning on.
    if (received && number == SIGUSR1)
        return;
    if (received) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    received = number;
}

void signals_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    // Someone who looks at a run through a pipe and goes away must not end it.
    signal(SIGPIPE, SIG_IGN);
}

int signals_received(void) {
    return received;
}
