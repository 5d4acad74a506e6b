// The training loop: data, steps, log lines, evaluation, checkpoints, and the ways in which a run ends.
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/error.h"
#include "config/config.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "train/automatic.h"
#include "train/plan_comparison.h"
#include "train/watchers.h"

struct trainer_options {
    struct config *config;  // validated; its padded vocabulary size is set here
    struct device *device;
    const struct mesh *mesh;
    int local_rank;
    const char *user_cache;         // see struct text_data_options
    const struct automatic *open;   // what the flags leave open
    bool dumps_arguments;           // write the arguments to stderr, once they are all known
    bool loads_copy;                // --load was the address of --save-to, and --save was filled from there
    const char *memory_path;        // of a launcher's memory for checkpoints, see store/vault.h; NULL for none
    bool plot;                      // draw the loss curve at the end
    const struct planner *planner;  // NULL: nothing is planned
    struct trainer_job job;
};

// Runs until all iterations are done or something ends the run. *exit_code is EXIT_CODE_OK, EXIT_CODE_STOPPED or, if a
// signal ended a run that saves nothing, 128 + its number. Returns -1 on error; then, if there are several ranks, what
// this one holds stays open, and the process must end, see session_failed.
int trainer_run(const struct trainer_options *options, enum exit_code *exit_code);

#endif
