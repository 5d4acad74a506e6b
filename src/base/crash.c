// Faults that end the process. See crash.h. Handlers' state is process-wide, like the signals.
#include "base/crash.h"

#include "base/file_fault.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static struct sigaction before[NUMBERS];  // the previous handlers, e.g. MPI's, which print a backtrace
static void (*_Atomic hearer)(void *context, int number);
static void *_Atomic hearer_context;
static atomic_flag is_told = ATOMIC_FLAG_INIT;

// The signal is raised again on return, with its previous action.
static void tell(int number, siginfo_t *info, void *context) {
    (void)context;
    if (number == SIGBUS && info->si_code > 0)
        file_fault_end(info->si_addr);
    void (*hear)(void *, int) = atomic_load(&hearer);
    if (hear && !atomic_flag_test_and_set(&is_told))
        hear(atomic_load(&hearer_context), number);
    for (int i = 0; i < NUMBERS; i++)
        if (numbers[i] == number)
            sigaction(number, &before[i], NULL);
    raise(number);
}

void crash_watch(void (*hear)(void *context, int number), void *context) {
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    bool was_heard = atomic_load(&hearer) != NULL;
    atomic_store(&hearer, NULL);
    atomic_store(&hearer_context, context);
    atomic_store(&hearer, hear);
    for (int i = 0; i < NUMBERS; i++) {
        if (hear && !was_heard)
            sigaction(numbers[i], &action, &before[i]);
        else if (!hear && was_heard)
            sigaction(numbers[i], &before[i], NULL);
    }
}
