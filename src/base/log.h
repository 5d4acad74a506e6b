// Messages for people, on stderr: `[rank 3] area: text` where there are several ranks, plain text where there is one.
// Results go to stdout and are not written through here. Which rank this process is, and how much it says, is the one
// piece of process-wide state; it is set once by the command line before threads start.
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_rank(int rank, int world_size);
void log_set_level(enum log_level level);

// Info lines are written by rank 0 alone, warnings and errors by every rank.
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A passing line at the bottom of a terminal (the progress bar): other messages are written above it. NULL takes it
// away.
void log_status(const char *line);

#endif
