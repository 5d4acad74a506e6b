// Reports a run to its watchers: its report (on the first rank), the command of --on-event, and messages when the run
// ends or fails.
#ifndef TRAIN_WATCHERS_H
#define TRAIN_WATCHERS_H

#include "report/report.h"
#include "step/step.h"
#include "train/plan_comparison.h"

// The scheduler's job that a run belongs to; its parts are NULL or 0 if there is none.
struct trainer_job {
    const char *number, *log;
    double kill_wait_seconds;  // between the scheduler's SIGTERM and its SIGKILL
};

struct watching {
    const struct config *config;
    const struct mesh *mesh;
    struct trainer_job job;
    struct report *report;  // NULL on other ranks and before watching_open_report
    struct on_event *on_event;
    struct farewell farewell;
    struct planned planned;  // on the first rank; set before watching_open_report
    char *wandb_folder;      // if no flag names it
};

// The run's name for watchers: the folder of --save, or its substitute; NULL if there is none.
const char *watching_name(const struct config *config);

// All ranks call these. The first: from now on an error that ends the process is told. The run's own file of metrics is
// not touched before farewell.metrics_path is set.
void watching_begin(struct watching *watching, const struct config *config, const struct mesh *mesh,
                    struct trainer_job job);
// Once the model and the iteration after which the run starts are known. *report stays NULL on other ranks.
int watching_open_report(struct watching *watching, const struct step *step, int64_t iteration, struct report **report);
// Reports the end of the run; `stopped` says what stopped it, "" if it is done.
void watching_tell_end(struct watching *watching, int64_t iteration, const char *stopped, enum exit_code code);
// It ends with the error that is set.
void watching_tell_failure(struct watching *watching);
void watching_end(struct watching *watching, bool has_failed);

#endif
