// Messages for people, on stderr: `[rank 3] text` if there are several ranks, plain text if there is one. Results go to
// stdout and are not written here. Which rank this process is, and how much it says, is state of the process: the
// command line sets it once, before threads start.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_rank(int rank, int world_size);
void log_set_level(enum log_level level);
// While hushed, info lines of this thread are dropped: it tries something that the user did not ask for.
void log_hush(bool is_hushed);

// Only rank 0 writes info lines; every rank writes warnings and errors.
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
// A warning that every rank has the same reason for: rank 0 writes it, unless it is hushed.
void log_warn_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Lines at the bottom of a terminal that are redrawn in place (screen.h); everything else is written above it. The
// status is one line that says what is being done (a progress bar), the view some lines above it that show a whole run.
// NULL removes them. If the terminal does not take what was written before, nothing is drawn.
void log_status(const char *line);
void log_view(const char *lines);
bool log_has_view(void);
// Another process draws on the terminal to which messages go: they clear what it has drawn, and it draws again. To be
// called before threads start.
void log_share_terminal(void);
// Clears what that process has left, if it could not do so itself.
void log_clear_terminal(void);
// Writes a text that ends in a newline to a stream, above these lines if it is the same terminal. A reader that is gone
// or has stopped does not matter, see outlet.h.
void log_print(FILE *stream, const char *text);

#endif
