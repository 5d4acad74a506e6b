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

static void install(int number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, NULL);
}

void signals_install_warning(void) {
    install(SIGUSR1);
}

void signals_install(void) {
    install(SIGTERM);
    install(SIGINT);
    install(SIGUSR1);
    // Someone who looks at a run through a pipe and goes away must not end it.
    signal(SIGPIPE, SIG_IGN);
}

int signals_received(void) {
    return received;
}
