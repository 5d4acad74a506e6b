// --wandb-project: the run as an offline folder of Weights & Biases, which `wandb sync` uploads from a machine with a
// network and an account; this program sends nothing. The folder has the form of wandb's own library in offline mode:
// DIR/wandb/offline-run-YYYYMMDD_HHMMSS-ID/run-ID.wandb (docs/internals/tensorboard.md has the format). Names of
// metrics are Megatron's. As with all logs, a failed write is reported once and cannot end the run.
#ifndef REPORT_WANDB_H
#define REPORT_WANDB_H

#include "report/metrics.h"
#include "report/tensorboard.h"

struct wandb;

struct wandb_options {
    const char *folder;         // --wandb-save-dir, else SAVE/wandb
    const char *project;        // --wandb-project
    const char *name, *entity;  // --wandb-exp-name, --wandb-entity; NULL for none
    struct tensorboard_choice choice;
};
int wandb_open(struct wandb **wandb, const struct wandb_options *options);
// Once, with the configuration as one JSON object, or NULL.
void wandb_run(struct wandb *wandb, int64_t iteration, const char *config_json);
void wandb_train(struct wandb *wandb, const struct metrics *metrics);
// At the log interval: iteration-time and throughput, with --log-timers-to-tensorboard.
void wandb_interval(struct wandb *wandb, const struct metrics *metrics);
void wandb_eval(struct wandb *wandb, const struct metrics_eval *eval);
// The end of the run, once.
void wandb_end(struct wandb *wandb, int exit_code);
void wandb_close(struct wandb *wandb);  // NULL is fine

#endif
