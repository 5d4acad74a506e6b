// Output whose reader may be gone. A run does not end because its reader went away (a pipe to head), and does not wait
// indefinitely for a reader that stopped reading (a suspended pager, a paused terminal).
#ifndef BASE_CONSOLE_H
#define BASE_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

// Whether a line of up to 4096 bytes can be written to standard output or standard error without blocking. Waits a few
// seconds for a slow reader. After a failed wait, answers at once until there is room again; then the number of refused
// lines is written before the next one. A reader that is gone counts as ready: writing fails at once.
bool console_is_ready(int file);

// Writes a text to standard output or standard error. A terminal takes what it can at once; the rest is kept and
// written by later calls or at the end of the process, so that a paused terminal (Ctrl-S) or a stalled connection does
// not stop a run. Beyond a quarter of a megabyte lines are dropped and counted. Other files are written to if
// console_is_ready; the rest is dropped.
void console_print(int file, const char *text, size_t length);
// Sets how long lines wait for a terminal that is read like a pipe, e.g. that of mpirun's ranks, until its reader has
// once read nothing for that time. 0, the initial value, is for a terminal with a person before it. To be called before
// anything is printed to the descriptor, which is one of the two.
void console_set_patience(int file, double seconds);
// Whether a terminal has taken everything that was printed, so that a drawing would be seen now.
bool console_is_clear(int file);

// To be called before anything is printed: if stdout and stderr are one file or pipe, their lines stay whole and in
// order, since each line of stdout is written as soon as it is complete.
void console_keep_lines_whole(void);

// Passes another process's output on to `to`, from a thread. The writer never sees a closed pipe, and waits for a slow
// reader but not for one that stopped: then lines beyond a few megabytes are dropped and counted. Everything is dropped
// once the reader is gone.
struct console_relay;
// NULL, without an error, if `to` is neither a pipe nor a socket. *writer is the end that the other process writes to;
// the caller closes its own copy.
struct console_relay *console_relay_open(int to, int *writer);
// For a writer that has ended: passes on the rest while the reader takes it. NULL is fine.
void console_relay_close(struct console_relay *relay);

#endif
