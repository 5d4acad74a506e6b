// The end of the process when an invariant is broken. See error.h. It stands above the log, whose own errors are those
// of error.c.
#include "base/error.h"
#include "base/log.h"
#include "base/run_position.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
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
