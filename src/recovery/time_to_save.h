// Whether a run that a scheduler cancels has the time to save. Slurm's scancel sends SIGTERM and, KillWait seconds
// later, SIGKILL; the run must finish its step and write a checkpoint in between. A run that cannot says so while it
// trains, and not when it is too late.
#ifndef RECOVERY_TIME_TO_SAVE_H
#define RECOVERY_TIME_TO_SAVE_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
