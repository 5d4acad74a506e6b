// Writes TensorBoard event files natively: TFRecord frames around protocol-buffer Events
// (docs/internals/tensorboard.md). Tags are Megatron's; each scalar is also written as "TAG vs samples" over consumed
// samples. A failed write is reported once and then ignored: a full disk must not end a run.
#ifndef REPORT_TENSORBOARD_H
#define REPORT_TENSORBOARD_H

#include "report/metrics.h"
#include <stddef.h>

struct tensorboard;

// Creates FOLDER/events.out.tfevents.SECONDS.HOST.PID.0.
int tensorboard_open(struct tensorboard **board, const char *folder);
void tensorboard_close(struct tensorboard *board);  // flushes; NULL is fine
void tensorboard_flush(struct tensorboard *board);  // makes written records visible to readers

// Scalars besides the tags of training.
void tensorboard_text(struct tensorboard *board, const char *tag, const char *text, int64_t step);

struct tensorboard_choice {
    bool no_loss_scale;   // --no-log-loss-scale-to-tensorboard
    bool timers;          // --log-timers-to-tensorboard: iteration-time, throughput
    bool validation_ppl;  // --log-validation-ppl-to-tensorboard
    int64_t world_size;   // above 0: --log-world-size-to-tensorboard
};
// Every --tensorboard-log-interval iterations.
void tensorboard_train(struct tensorboard *board, const struct metrics *metrics,
                       const struct tensorboard_choice *choice);
// The duration of a phase of the step in seconds, like Megatron's timers: tag "NAME-time".
void tensorboard_timer(struct tensorboard *board, const char *name, double seconds, int64_t iteration);
// iteration-time and throughput, at the log interval.
void tensorboard_timers(struct tensorboard *board, const struct metrics *metrics);
// The balance of experts layer by layer, at the log interval.
void tensorboard_experts(struct tensorboard *board, const struct metrics *metrics);
void tensorboard_eval(struct tensorboard *board, const struct metrics_eval *eval,
                      const struct tensorboard_choice *choice);

#endif
