// What a run tells the supervisor that started it: how far it is. Both map one page of a small file, so an update costs
// a few stores, and a supervisor notices a run that makes no progress, whatever the reason: it is suspended, waits for
// a file system, or died without a message.
#ifndef BASE_LIFELINE_H
#define BASE_LIFELINE_H

#include <stdbool.h>
#include <stdint.h>

// ---- The supervisor's side ----

struct lifeline;

// Creates the file in this folder, and removes those of supervisors that were killed; NULL, without an error, if that
// cannot be done.
struct lifeline *lifeline_create(const char *folder);
const char *lifeline_path(const struct lifeline *lifeline);
void lifeline_reset(struct lifeline *lifeline);  // before another attempt
void lifeline_free(struct lifeline *lifeline);   // removes the file; NULL is fine

struct lifeline_state {
    bool is_attached;   // the run has started
    bool has_told_end;  // it has recorded how it ends
    bool cannot_save;   // it ends since no checkpoint could be saved for too long
    int64_t iteration;  // the last one that it completed; -1: none
    int64_t beats;      // rises with everything that it completes
    double beat_at;     // when the last one was, on the monotonic clock of the run's machine; 0: never
    char phase[48];     // what it does apart from iterations, e.g. "loading the checkpoint"; "" for nothing
};
struct lifeline_state lifeline_look(const struct lifeline *lifeline);

// For a supervisor that does not live as long as the run, e.g. a job script: makes a new file of this name, and reads
// it when the run has ended. False, without an error, if that cannot be done.
bool lifeline_make(const char *path);
bool lifeline_read(const char *path, struct lifeline_state *state);

// ---- The run's side ----

// Of one process of the run. Without a file, or without a call, the functions below only tell the watchdog.
void lifeline_attach(const char *path);
// The same to a file that this process makes: on every node its first rank tells those who look in from time to time,
// e.g. a probe of Kubernetes. NULL is fine.
void lifeline_publish(const char *path);
void lifeline_iteration(int64_t iteration);  // completed; also whereabouts.h learns that the next one is computed
void lifeline_beat(void);
void lifeline_phase(const char *label);
void lifeline_told_end(void);
void lifeline_cannot_save(void);

#endif
