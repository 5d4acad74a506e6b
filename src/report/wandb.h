// --wandb-project: the run as an offline folder of Weights & Biases, which `wandb sync` uploads from a machine with a
// network and an account; this program sends nothing. The folder has the form of wandb's own library in offline mode:
// DIR/wandb/offline-run-YYYYMMDD_HHMMSS-ID/run-ID.wandb (docs/internals/tensorboard.md has the format). Names of
// metrics are Megatron's. As with all logs, a failed write is reported once and cannot end the run.
#ifndef REPORT_WANDB_H
#define REPORT_WANDB_H

#include "report/metrics.h"

struct wandb;

struct wandb_options {
    const char *folder;         // --wandb-save-dir, else SAVE/wandb
    const char *project;        // --wandb-project
    const char *name, *entity;  // --wandb-exp-name, --wandb-entity; NULL for none
    struct metrics_choice choice;
};
int wandb_open(struct wandb **wandb, const struct wandb_options *options);

// For a table of sinks: `wandb` is a struct wandb. Once, with the configuration.
void wandb_run(void *wandb, const struct metrics_start *start);
void wandb_train(void *wandb, const struct metrics *metrics);
// At the log interval: iteration-time and throughput, with --log-timers-to-tensorboard.
void wandb_interval(void *wandb, const struct metrics *metrics);
void wandb_eval(void *wandb, const struct metrics_eval *eval);
// The end of the run, once; other events are not written.
void wandb_event(void *wandb, const struct metrics_event *event);
void wandb_close(void *wandb);  // NULL is fine

#endif
