// Limits of time: of a run that completes nothing, set by flags for each part of the run, while checkpoints have
// separate limits within these parts, see base/watchdog.h; of a scheduler that ends a run; and between two attempts to
// save.
#ifndef RECOVERY_TIME_LIMITS_H
#define RECOVERY_TIME_LIMITS_H

#include "base/watchdog.h"
#include "comm/comm.h"
#include "config/config.h"
#include <stdbool.h>
#include <stdint.h>

void limits_open(struct watchdog_work *work, const struct config *config, int rank);  // the run starts
void limits_train(struct watchdog_work *work);                                        // it is about to train
// Around going back to an earlier checkpoint, where ranks read files at their own pace. The work is one of its own.
void limits_load_begin(struct watchdog_work *work, struct group *all);
void limits_load_end(struct watchdog_work *work, struct group *all, int status);
void limits_close(struct watchdog_work *work);

// ---- the time that a scheduler leaves ----

// Whether a run that a scheduler cancels has the time to save. Slurm's scancel sends SIGTERM and, KillWait seconds
// later, SIGKILL; the run must finish its step and write a checkpoint in between. A run that cannot says so while it
// trains, and not when it is too late.

struct stop_time {
    double limit_seconds;  // 0 if there is none
    const char *job;       // the scheduler's number of the job; NULL if there is none
    int64_t steps;         // measured so far; the first one takes longer than all others
    double fastest;        // of them, in seconds: a single slow step is not a reason to warn
    bool is_said;
};

// After each iteration: how long the run would take to finish its steps now, and how long the last checkpoint took (0
// if there is none yet). Warns once.
void stop_time_measure(struct stop_time *time, double step_seconds, double save_seconds);

// ---- saves that are tried again ----

// When a save that failed is tried again: after one second, then after twice as long each time, up to ten minutes. A
// save that takes long to fail is retried rarely, so that training gets most of the time.

struct save_retry {
    int failures;       // in a row
    double first_time;  // when the first of them began
    double due_time;    // when to try again
};

// An attempt that began then has failed now; returns how many seconds to wait before the next.
double save_retry_after(struct save_retry *retry, double began, double now);
// For how long saves have failed; 0 if the last one succeeded.
double save_retry_seconds(const struct save_retry *retry, double now);

#endif
