// Messages for people, on stderr: `[rank 3] text` if there are several ranks, plain text if there is one. Results go to
// stdout and are not written here. Which rank this process is, and how much it says, is the only process-wide state;
// the command line sets it once, before threads start.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

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

// A temporary line at the bottom of a terminal (the progress bar): other messages are written above it. NULL removes
// it.
void log_status(const char *line);

#endif
