// Messages for people, on stderr: `[rank 3] text` if there are several ranks, plain text if there is one. Results go to
// stdout and are not written here. The rank of this process and its verbosity are process state: the command line sets
// it once, before threads start.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_rank(int rank, int world_size);
void log_set_level(enum log_level level);
// While hushed, info lines of this thread are dropped: it tries something that the user did not request.
void log_hush(bool is_hushed);

// Only rank 0 writes info lines; every rank writes warnings and errors.
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
// A warning that applies to every rank alike: rank 0 writes it, unless it is hushed.
void log_warn_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Lines at the bottom of a terminal that are redrawn in place (screen.h); everything else is written above it. The
// status is one line about the current work (a progress bar), the view a few lines above it about the whole run. NULL
// removes them. If the terminal has not taken the previous output, nothing is drawn.
void log_status(const char *line);
void log_view(const char *lines);
bool log_has_view(void);
// For a process whose terminal is drawn on by another one: its messages clear that drawing, and the other process draws
// again. To be called before threads start.
void log_share_terminal(void);
// Clears the other process's drawing, if that process could not do so itself.
void log_clear_terminal(void);
// Writes a text that ends in a newline to a stream, above these lines if it is the same terminal. A reader that is gone
// or has stopped is no problem, see console.h.
void log_print(FILE *stream, const char *text);

#endif
