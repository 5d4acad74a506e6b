// Detects work of this process that makes no progress: a file system that does not respond, a device or a thread that
// is stuck. Code that begins work states its kind. Each kind has a limit, and time counts while no part of the work
// completes, so slow work that makes progress may take any time. After a while a line reports the unfinished work;
// after the limit the process ends, and with it the run (EXIT_CODE_HANG). Ranks that wait for each other have the
// deadline of collectives instead (comm/hang.h).
//
// The watching thread and all other state belong to the process. Without watchdog_open nothing is ever reported.
#ifndef BASE_WATCHDOG_H
#define BASE_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum watchdog_kind {
    WATCHDOG_START,      // everything before the first iteration
    WATCHDOG_STEP,       // an iteration, an evaluation
    WATCHDOG_SAVE,       // writing a checkpoint
    WATCHDOG_LOAD,       // reading a checkpoint or the data
    WATCHDOG_ELSEWHERE,  // waiting for something with a limit of its own: another thread, other ranks
    WATCHDOG_KINDS
};

struct watchdog_options {
    double limits[WATCHDOG_KINDS];  // seconds; 0 for none
    int rank;                       // -1: the process that started the ranks
    struct clock *clock;            // see clock.h
};
void watchdog_open(const struct watchdog_options *options);
void watchdog_close(void);

// Work of one thread; inside other work of the same thread only the inner one counts. Filled by watchdog_begin.
struct watchdog_work {
    enum watchdog_kind kind;
    const char *label;  // "saving the checkpoint"; must live as long
    atomic_int_fast64_t beats;
    struct watchdog_work *outer, *next;
    int inner;  // number of works of the same thread inside it
    // Fields of the watching thread:
    int64_t seen;
    double waited, next_line;
    char doing[256];  // the file in use, "" for none
};
void watchdog_begin(struct watchdog_work *work, enum watchdog_kind kind, const char *label);
void watchdog_end(struct watchdog_work *work);

// A part of this thread's work is complete.
void watchdog_beat(void);
// A part of the process's work is complete, by any thread. Does not count for checkpoints.
void watchdog_beat_all(void);
// The thread begins a call that may not return: "syncing", and a path.
void watchdog_doing(const char *what, const char *path);
void watchdog_done(void);                    // the call has returned
void watchdog_iteration(int64_t iteration);  // the last complete one, for messages
// Whether a limit of this process has been exceeded, so that the run is ending.
bool watchdog_has_fired(void);

#endif
