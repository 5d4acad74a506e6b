// Progress that a run reports to the supervisor that started it. Both map one page of a small file, so an update costs
// a few stores, and a supervisor notices a run that makes no progress for any reason: it is suspended, waits for a file
// system, or died without a message.
#ifndef BASE_LIFELINE_H
#define BASE_LIFELINE_H

#include <stdbool.h>
#include <stdint.h>

// ---- The supervisor's side ----

struct lifeline;

// Creates the file in this folder, and removes those of killed supervisors; NULL, without an error, on failure.
struct lifeline *lifeline_create(const char *folder);
const char *lifeline_path(const struct lifeline *lifeline);
void lifeline_reset(struct lifeline *lifeline);  // before another attempt
void lifeline_free(struct lifeline *lifeline);   // removes the file; NULL is fine

struct lifeline_state {
    bool is_attached;   // the run has started
    bool has_told_end;  // it has recorded how it ends
    bool cannot_save;   // it ends since no checkpoint could be saved for too long
    int64_t iteration;  // the last one that it completed; -1: none
    int64_t beats;      // rises with every completed piece of work
    double beat_at;     // time of the last beat, on the monotonic clock of the run's machine; 0: never
    char phase[48];     // work outside iterations, e.g. "loading the checkpoint"; "" for none
};
struct lifeline_state lifeline_look(const struct lifeline *lifeline);

// For a supervisor that does not live as long as the run, e.g. a job script: creates a new file of this name, and reads
// it when the run has ended. False, without an error, on failure.
bool lifeline_make(const char *path);
bool lifeline_read(const char *path, struct lifeline_state *state);

// ---- The run's side ----

// Attaches one process of the run. Without a file, or without a call, the functions below only tell the watchdog.
void lifeline_attach(const char *path);
// Reports also to a file that this process creates: the first rank of every node informs observers, e.g. a probe of
// Kubernetes. NULL is fine.
void lifeline_publish(const char *path);
void lifeline_iteration(int64_t iteration);  // completed; also tells process.h that the next one has begun
void lifeline_beat(void);
void lifeline_phase(const char *label);
void lifeline_told_end(void);
void lifeline_cannot_save(void);

#endif
