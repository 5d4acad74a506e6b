// How far a run has come.
#ifndef RECOVERY_PROGRESS_H
#define RECOVERY_PROGRESS_H

#include "store/checkpoint.h"

#include <stdint.h>

// The progress of a run. All of it is saved.
struct progress_state {
    int64_t iteration;
    int64_t consumed_train_samples, consumed_valid_samples;
    int64_t schedule_samples;       // samples of successful updates, which the schedules count
    int64_t skipped_train_samples;  // of iterations that were not trained on, see rewind.h
    double flops_so_far;
    struct checkpoint_past *past;  // borrowed; NULL: the run remembers nothing
    int64_t replicas_verified;     // how many copies of the parameters were compared since the last iteration; 0: none
};

#endif
