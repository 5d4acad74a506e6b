// Messages on stderr. Each is formatted first and handed to the kernel in one write, so that lines of several ranks
// that share a terminal or a file do not tear. The lines at the bottom of a terminal are cleared before a message and
// drawn again after it, in the same write.
#include "base/log.h"
#include "base/console.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/redact.h"
#include "base/process.h"
#include "base/screen.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MESSAGE_BYTES = ERROR_BYTES + 256, BLOCK_BYTES = 8192 };

static struct {
    pthread_mutex_t lock;
    enum log_level level;
    int rank;
    int world_size;
    char identity[24];
    bool is_shared;                          // see log_share_terminal
    char view[2048], status[512];            // current bottom lines, "" for none
    char text[MESSAGE_BYTES + BLOCK_BYTES];  // text being assembled for the next write
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_INFO, .world_size = 1};

static _Thread_local bool thread_is_hushed;

void log_set_rank(int rank, int world_size) {
    state.rank = rank;
    state.world_size = world_size;
    state.identity[0] = '\0';
    run_position_set_rank(world_size > 1 ? rank : -1);
    if (world_size > 1)
        snprintf(state.identity, sizeof state.identity, "rank %d", rank);
}

void log_set_level(enum log_level level) {
    state.level = level;
}

void log_hush(bool is_hushed) {
    thread_is_hushed = is_hushed;
}

static bool is_shown(void) {
    return state.view[0] || state.status[0];
}

// Appends the sequences that draw the view and the status to the text of this length; returns the new length.
static size_t append_block(size_t length) {
    struct screen_block block = {.view = state.view, .status = state.status};
    if (!is_shown())
        return length;
    block.columns = screen_columns();
    block.rows = screen_rows();
    return length + screen_compose(state.text + length, sizeof state.text - length, &block);
}

// Nothing remains on the terminal of a status that was the only line, or of a view that had more lines before.
static void draw(bool was_shown) {
    if (!was_shown && !is_shown())
        return;
    if (!console_is_clear(STDERR_FILENO))
        return;
    if (!was_shown)
        interrupt_clear_screen();
    size_t length = append_block(0);
    if (length == 0)
        length = (size_t)snprintf(state.text, sizeof state.text, "%s", screen_clear);
    console_print(STDERR_FILENO, state.text, length);
}

static void set_part(char *part, size_t size, const char *text) {
    if (state.level < LOG_INFO || state.rank != 0)
        return;
    pthread_mutex_lock(&state.lock);
    bool was_shown = is_shown();
    snprintf(part, size, "%s", text ? text : "");
    draw(was_shown);
    pthread_mutex_unlock(&state.lock);
}

void log_status(const char *line) {
    set_part(state.status, sizeof state.status, line);
}

void log_view(const char *lines) {
    set_part(state.view, sizeof state.view, lines);
}

bool log_has_view(void) {
    pthread_mutex_lock(&state.lock);
    bool has_view = state.view[0] != '\0';
    pthread_mutex_unlock(&state.lock);
    return has_view;
}

void log_share_terminal(void) {
    state.is_shared = true;
}

void log_clear_terminal(void) {
    if (state.is_shared)
        console_print(STDERR_FILENO, screen_clear, strlen(screen_clear));
}

static bool is_our_terminal(int file) {
    struct stat theirs, ours;
    return isatty(file) && fstat(file, &theirs) == 0 && fstat(STDERR_FILENO, &ours) == 0 &&
           theirs.st_rdev == ours.st_rdev;
}

void log_print(FILE *stream, const char *text) {
    int file = fileno(stream);
    bool is_terminal = isatty(file);
    pthread_mutex_lock(&state.lock);
    if (is_terminal) {
        bool is_above = is_shown() && is_our_terminal(file);
        (void)fflush(stream);
        if (is_above)
            console_print(STDERR_FILENO, screen_clear, strlen(screen_clear));
        console_print(file, text, strlen(text));
        if (is_above)
            draw(true);
    } else if (console_is_ready(file)) {
        // A closed pipe or a full disk must not end a run; the stream is usable again once that is over. A stream that
        // was a terminal fails in fputs, others in fflush.
        (void)fputs(text, stream);
        (void)fflush(stream);
        clearerr(stream);
    }
    pthread_mutex_unlock(&state.lock);
}

// After an error the bottom lines are likely to stay on the terminal, so they are cleared with the view.
static void log_line(const char *kind, bool is_error, const char *format, va_list arguments) {
    const char *open = state.identity[0] ? "[" : "", *close = state.identity[0] ? "] " : "";
    pthread_mutex_lock(&state.lock);
    // A rank that does not draw may overwrite another rank's lines.
    bool clears = is_shown() || state.is_shared || (state.rank != 0 && screen_is_live());
    char *text = state.text;
    // Memory may be short when an error is reported, so nothing is allocated: longer texts are cut.
    size_t prefix = (size_t)snprintf(text, MESSAGE_BYTES, "%s%s%s%s%s", clears ? screen_clear : "", open,
                                     state.identity, close, kind);
    vsnprintf(text + prefix, MESSAGE_BYTES - prefix - 1, format, arguments);
    redact(text + prefix, MESSAGE_BYTES - prefix - 1);
    size_t length = strlen(text);
    text[length++] = '\n';
    if (is_error)
        state.view[0] = state.status[0] = '\0';
    console_print(STDERR_FILENO, text, append_block(length));
    pthread_mutex_unlock(&state.lock);
}

void log_info(const char *format, ...) {
    if (state.level < LOG_INFO || state.rank != 0 || thread_is_hushed)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line("", false, format, arguments);
    va_end(arguments);
}

void log_warn(const char *format, ...) {
    if (state.level < LOG_WARN)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line("warning: ", false, format, arguments);
    va_end(arguments);
}

void log_warn_once(const char *format, ...) {
    if (state.level < LOG_WARN || state.rank != 0 || thread_is_hushed)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line("warning: ", false, format, arguments);
    va_end(arguments);
}

void log_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_line("error: ", true, format, arguments);
    va_end(arguments);
}

void log_debug(const char *format, ...) {
    if (state.level < LOG_DEBUG)
        return;
    va_list arguments;
    va_start(arguments, format);
    log_line("debug: ", false, format, arguments);
    va_end(arguments);
}
