// Detects work of this process that makes no progress: a file system that does not respond, a device or a thread that
// is stuck. Code that begins work says of which kind it is. Each kind has a limit, and time counts while nothing of the
// work completes, so slow work that makes progress may take any time. After a while a line says what the process is
// still doing; after the limit the process ends, and with it the run (EXIT_CODE_HANG). Ranks that wait for each other
// have the deadline of collectives instead (comm/hang.h).
//
// The thread that looks is the process's, and so is all of this. Without watchdog_open nothing is ever said.
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
    WATCHDOG_ELSEWHERE,  // waiting for something that has a limit of its own: another thread, other ranks
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
    int inner;  // how many works of the same thread are inside it
    // Those of the thread that looks:
    int64_t seen;
    double waited, next_line;
    char doing[256];  // the file that it is at, "" for none
};
void watchdog_begin(struct watchdog_work *work, enum watchdog_kind kind, const char *label);
void watchdog_end(struct watchdog_work *work);

// Something of this thread's work is complete.
void watchdog_beat(void);
// Something of the process's work is complete, whichever thread did it. Does not count for checkpoints.
void watchdog_beat_all(void);
// The thread begins something that may not return: "syncing", and a path.
void watchdog_doing(const char *what, const char *path);
void watchdog_done(void);                    // it has returned
void watchdog_iteration(int64_t iteration);  // the last one that is complete, for messages
// Whether a limit of this process has been exceeded, so that the run ends because of it.
bool watchdog_has_fired(void);

#endif
