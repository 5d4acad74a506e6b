// The error message of each thread, and the end of the process when an invariant is broken.
//
// Messages quote names and text out of files that may be hostile, so control characters are replaced before anything
// reaches a terminal, and secrets in them are hidden. Formatting goes through a second array because callers quote the
// present message in the next.
#include "base/error.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/redact.h"
#include "base/utf8.h"
#include "base/whereabouts.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct error_note {
    enum exit_code code;
    bool is_shared;
    char message[];
};

static _Thread_local char thread_message[ERROR_BYTES];
static _Thread_local enum exit_code thread_code = EXIT_CODE_OK;
static _Thread_local bool thread_is_shared;
static _Thread_local bool thread_is_dying;
static void (*_Atomic die_handler)(enum exit_code code);
static void (*_Atomic die_witness)(void *context, enum exit_code code, const char *text);
static void *_Atomic die_context;
static atomic_flag somebody_is_dying = ATOMIC_FLAG_INIT;
static atomic_bool witness_is_called;

static void set_message(enum exit_code code, const char *format, va_list arguments) {
    char text[ERROR_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    utf8_make_printable(text, "\n\t");
    redact(text, sizeof text);
    memcpy(thread_message, text, strlen(text) + 1);
    thread_code = code;
    thread_is_shared = false;
}

int error_set(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_message(EXIT_CODE_ERROR, format, arguments);
    va_end(arguments);
    return -1;
}

int error_set_code(enum exit_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_message(code, format, arguments);
    va_end(arguments);
    return -1;
}

int error_context(const char *format, ...) {
    char context[ERROR_BYTES];
    char text[2 * ERROR_BYTES + 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context, sizeof context, format, arguments);
    va_end(arguments);
    utf8_make_printable(context, "\n\t");
    redact(context, sizeof context);
    // If both together are too long, the end of the older message is cut.
    snprintf(text, sizeof text, "%s: %s", context, thread_message);
    text[ERROR_BYTES - 1] = '\0';
    memcpy(thread_message, text, strlen(text) + 1);
    if (thread_code == EXIT_CODE_OK)
        thread_code = EXIT_CODE_ERROR;
    return -1;
}

const char *error_message(void) {
    return thread_message;
}

enum exit_code error_exit_code(void) {
    return thread_code;
}

void error_clear(void) {
    thread_message[0] = '\0';
    thread_code = EXIT_CODE_OK;
    thread_is_shared = false;
}

void error_mark_shared(void) {
    thread_is_shared = true;
}

bool error_is_shared(void) {
    return thread_is_shared;
}

struct error_note *error_take(void) {
    if (thread_code == EXIT_CODE_OK)
        return NULL;
    size_t bytes = strlen(thread_message) + 1;
    struct error_note *note = memory_alloc(sizeof *note + bytes);
    note->code = thread_code;
    note->is_shared = thread_is_shared;
    memcpy(note->message, thread_message, bytes);
    error_clear();
    return note;
}

int error_give(struct error_note *note) {
    if (!note)
        return -1;
    memcpy(thread_message, note->message, strlen(note->message) + 1);
    thread_code = note->code;
    thread_is_shared = note->is_shared;
    free(note);
    return -1;
}

void error_drop(struct error_note *note) {
    free(note);
}

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
static void add_whereabouts(char *text, size_t size) {
    char where[384];
    size_t length = strlen(text), needed = strlen(whereabouts_text(where, sizeof where));
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
    add_whereabouts(text, sizeof text);
    log_error("%s:%d: %s", place.file, place.line, text);
    fflush(stdout);
    call_witness(place.code, text);
    void (*handler)(enum exit_code) = atomic_load(&die_handler);
    if (handler)
        handler(place.code);
    _exit((int)place.code);
}
