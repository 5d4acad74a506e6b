// The end of the process when an invariant is broken (error.h) or the process faults (crash.h). It stands above the
// log, whose own errors are those of error.c.
#include "base/crash.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/utf8.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local bool thread_is_dying;
static void (*_Atomic die_handler)(enum exit_code code);
static void (*_Atomic die_witness)(void *context, enum exit_code code, const char *text);
static void *_Atomic die_context;
static atomic_flag somebody_is_dying = ATOMIC_FLAG_INIT;
static atomic_bool witness_is_called;

void die_set_handler(void (*handler)(enum exit_code code)) {
    atomic_store(&die_handler, handler);
}

void die_set_witness(void (*witness)(void *context, enum exit_code code, const char *text), void *context) {
    atomic_store(&die_witness, NULL);
    // The dying thread may still use the context; in that case this does not return, and the process ends.
    while (!thread_is_dying && atomic_load(&witness_is_called))
        pause();
    atomic_store(&die_context, context);
    atomic_store(&die_witness, witness);
}

static void call_witness(enum exit_code code, const char *text) {
    atomic_store(&witness_is_called, true);
    void (*witness)(void *, enum exit_code, const char *) = atomic_load(&die_witness);
    if (witness)
        witness(atomic_load(&die_context), code, text);
}

// Appended, so that the beginning of the message can be searched for.
static void add_run_position(char *text, size_t size) {
    char where[384];
    size_t length = strlen(text), needed = strlen(run_position_text(where, sizeof where));
    // Cuts a long message to make room.
    if (needed == 0 || needed + 4 > size)
        return;
    length = length + needed + 4 > size ? size - needed - 4 : length;
    snprintf(text + length, size - length, " (%s)", where);
}

void die_at(struct die_place place, const char *format, ...) {
    // A handler that itself dies ends here; if several threads die, only the first prints its message.
    if (thread_is_dying)
        _exit((int)place.code);
    thread_is_dying = true;
    while (atomic_flag_test_and_set(&somebody_is_dying))
        pause();

    char text[ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    utf8_make_printable(text, "\n\t");
    add_run_position(text, sizeof text);
    log_error("%s:%d: %s", place.file, place.line, text);
    fflush(stdout);
    call_witness(place.code, text);
    void (*handler)(enum exit_code) = atomic_load(&die_handler);
    if (handler)
        handler(place.code);
    _exit((int)place.code);
}

// ---- faults; handlers' state is process-wide, like the signals ----

// A table of maps that a signal handler can read without a lock. The signal belongs to the process, and so does the
// table.

// More maps than a run has; further maps are not named if they fail.
enum { MOST_MAPS = 1 << 14 };

struct mapped_file {
    _Atomic(const char *) begin;  // NULL: the entry is free
    atomic_size_t size;
    _Atomic(char *) path;
};

static struct mapped_file maps[MOST_MAPS];
static atomic_int highest;  // number of entries ever used

void file_fault_add(const void *data, size_t size, const char *path) {
    static const char taken[1];
    for (int i = 0; i < MOST_MAPS; i++) {
        const char *expected = NULL;
        if (!atomic_compare_exchange_strong(&maps[i].begin, &expected, taken))
            continue;
        atomic_store(&maps[i].path, memory_string(path));
        atomic_store(&maps[i].size, size);
        atomic_store(&maps[i].begin, data);
        for (int used = atomic_load(&highest); used <= i && !atomic_compare_exchange_weak(&highest, &used, i + 1);)
            continue;
        return;
    }
}

void file_fault_remove(const void *data) {
    int used = atomic_load(&highest);
    for (int i = 0; i < used; i++) {
        if (atomic_load(&maps[i].begin) != data)
            continue;
        char *path = atomic_exchange(&maps[i].path, NULL);
        atomic_store(&maps[i].size, 0);
        atomic_store(&maps[i].begin, NULL);
        free(path);
        return;
    }
}

size_t file_fault_describe(const void *address, char text[FILE_FAULT_BYTES], enum exit_code *code) {
    int used = atomic_load(&highest);
    text[0] = '\0';
    for (int i = 0; i < used; i++) {
        const char *begin = atomic_load(&maps[i].begin), *path = atomic_load(&maps[i].path);
        uintptr_t offset = (uintptr_t)address - (uintptr_t)begin;
        if (!begin || !path || (uintptr_t)address < (uintptr_t)begin || offset >= atomic_load(&maps[i].size))
            continue;
        struct stat status;
        unsigned long long byte = (unsigned long long)offset;
        bool is_short = stat(path, &status) == 0 && (unsigned long long)status.st_size <= byte;
        int length;
        if (is_short)
            length = snprintf(text, FILE_FAULT_BYTES,
                              "%.600s was truncated to %llu bytes while it was in use, and byte %llu is gone; restore "
                              "the file, then resume from the last checkpoint",
                              path, (unsigned long long)status.st_size, byte);
        else
            length = snprintf(text, FILE_FAULT_BYTES,
                              "%.600s cannot be read at byte %llu: its disk or file system has failed, or the file was "
                              "truncated and replaced; run dmesg, then run the same command again",
                              path, byte);
        // A disk error may be temporary, and says nothing about the data.
        *code = is_short ? EXIT_CODE_BAD_DATA : EXIT_CODE_ERROR;
        return (size_t)length;
    }
    return 0;
}

// The faulting thread is the one that reads the map: it holds no lock that die() needs.
static void end_if_mapped(const void *address) {
    char text[FILE_FAULT_BYTES];
    enum exit_code code;
    if (file_fault_describe(address, text, &code) > 0)
        die_code(code, "%s", text);
}

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
        end_if_mapped(info->si_addr);
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

// Another fault: it is raised again on return, with its usual action.
static void hear(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code > 0)
        end_if_mapped(info->si_addr);
    signal(number, SIG_DFL);
    if (info->si_code <= 0)
        raise(number);
}

void file_fault_watch(void) {
    struct sigaction action = {.sa_sigaction = hear, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
