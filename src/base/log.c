// Messages on stderr. Each is formatted first and handed to the kernel in one write, so that lines of several ranks
// that share a terminal or a file do not tear. The status line (a progress bar) is wiped before a message and drawn
// again after it.
#include "base/log.h"
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    enum log_level level;
    int rank;
    int world_size;
    char identity[24];
    char status[512];  // what stands on the bottom line now, "" for nothing
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_INFO, .world_size = 1};

static _Thread_local bool thread_is_hushed;

static const char wipe_line[] = "\r\033[K";

void log_set_rank(int rank, int world_size) {
    state.rank = rank;
    state.world_size = world_size;
    state.identity[0] = '\0';
    if (world_size > 1)
        snprintf(state.identity, sizeof state.identity, "rank %d", rank);
}

void log_set_level(enum log_level level) {
    state.level = level;
}

void log_hush(bool is_hushed) {
    thread_is_hushed = is_hushed;
}

// One system call for all pieces. A reader that went away must not end a run, so failures to write are dropped.
static void write_pieces(const char *const *pieces, int count) {
    struct iovec vector[3];
    for (int i = 0; i < count; i++)
        vector[i] = (struct iovec){.iov_base = (void *)(uintptr_t)pieces[i], .iov_len = strlen(pieces[i])};
    while (writev(STDERR_FILENO, vector, count) < 0 && errno == EINTR)
        continue;
}

void log_status(const char *line) {
    if (state.level < LOG_INFO || state.rank != 0)
        return;
    pthread_mutex_lock(&state.lock);
    bool was_shown = state.status[0] != '\0';
    snprintf(state.status, sizeof state.status, "%s", line ? line : "");
    if (was_shown || state.status[0])
        write_pieces((const char *[]){wipe_line, state.status}, 2);
    pthread_mutex_unlock(&state.lock);
}

static void log_line(const char *kind, const char *format, va_list arguments) {
    // Memory may be short when an error is reported, so none is asked for: longer texts are cut.
    char text[ERROR_BYTES + 256];
    const char *open = state.identity[0] ? "[" : "", *close = state.identity[0] ? "] " : "";
    int prefix = snprintf(text, sizeof text, "%s%s%s%s", open, state.identity, close, kind);
    vsnprintf(text + prefix, sizeof text - (size_t)prefix - 1, format, arguments);
    size_t length = strlen(text);
    text[length] = '\n';
    text[length + 1] = '\0';
    pthread_mutex_lock(&state.lock);
    write_pieces((const char *[]){state.status[0] ? wipe_line : "", text, state.status}, 3);
    pthread_mutex_unlock(&state.lock);
}

void log_info(const char *format, ...) {
    if (state.level < LOG_INFO || state.rank != 0 || thread_is_hushed)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line("", format, arguments);
    va_end(arguments);
}

void log_warn(const char *format, ...) {
    if (state.level < LOG_WARN)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line("warning: ", format, arguments);
    va_end(arguments);
}

void log_warn_once(const char *format, ...) {
    if (state.level < LOG_WARN || state.rank != 0 || thread_is_hushed)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line("warning: ", format, arguments);
    va_end(arguments);
}

void log_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_line("error: ", format, arguments);
    va_end(arguments);
}

void log_debug(const char *format, ...) {
    if (state.level < LOG_DEBUG)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line("debug: ", format, arguments);
    va_end(arguments);
}
