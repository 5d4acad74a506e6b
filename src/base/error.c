// The error message of each thread.
//
// Messages quote names and text out of files that may be hostile, so control characters are replaced before anything
// reaches a terminal, and secrets in them are hidden. Formatting goes through a second array because callers quote the
// present message in the next.
#include "base/error.h"

#include "base/redact.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct error_note {
    enum exit_code code;
    bool is_shared;
    char message[];
};

static _Thread_local char thread_message[ERROR_BYTES];
static _Thread_local enum exit_code thread_code = EXIT_CODE_OK;
static _Thread_local bool thread_is_shared;

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
    struct error_note *note = malloc(sizeof *note + bytes);
    if (!note)
        die_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory while an error was handed over: %s", thread_message);
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
