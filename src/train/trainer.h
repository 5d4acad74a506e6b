// The training loop: data in, steps, log lines, evaluation, checkpoints, and the ways a run ends.
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/error.h"
#include "config/config.h"
#include "ops/device.h"
#include "parallel/mesh.h"

struct trainer_options {
    struct config *config;  // validated; the padded vocabulary is set here
    struct device *device;
    const struct mesh *mesh;
    int local_rank;
    bool plot;  // draw the loss curve at the end
};

// Runs until the iterations are done or something ends it. *exit_code is EXIT_CODE_OK or EXIT_CODE_STOPPED; -1 on
// error, and then what one of several ranks holds stays open: the process must end, see session_failed.
int trainer_run(const struct trainer_options *options, enum exit_code *exit_code);

#endif
