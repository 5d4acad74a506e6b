// Writes TensorBoard event files natively: TFRecord frames around protocol-buffer Events
// (docs/internals/tensorboard.md). Tags are Megatron's; each scalar is also written as "TAG vs samples" over consumed
// samples. A failed write is reported once and then ignored: a full disk must not end a run.
#ifndef REPORT_TENSORBOARD_H
#define REPORT_TENSORBOARD_H

#include "base/buffer.h"
#include "report/metrics.h"

#include <stddef.h>
#include <stdint.h>

struct tensorboard;

// Creates FOLDER/events.out.tfevents.SECONDS.HOST.PID.0.
int tensorboard_open(struct tensorboard **board, const char *folder, const struct metrics_choice *choice);

// For a table of sinks: `board` is a struct tensorboard. The configuration, member by member, as text.
void tensorboard_run(void *board, const struct metrics_start *start);
// Every --tensorboard-log-interval iterations.
void tensorboard_train(void *board, const struct metrics *metrics);
// iteration-time and throughput, and the balance of experts layer by layer, at the log interval.
void tensorboard_interval(void *board, const struct metrics *metrics);
void tensorboard_eval(void *board, const struct metrics_eval *eval);
void tensorboard_sample(void *board, const struct metrics_sample *sample);
// The duration of a phase of the step in seconds, like Megatron's timers: tag "NAME-time". Only with choice.timers.
void tensorboard_timer(void *board, const char *name, double seconds, int64_t iteration);
void tensorboard_close(void *board);  // NULL is fine

// ---- Weights & Biases ----

// --wandb-project: the run as an offline folder of Weights & Biases, which `wandb sync` uploads from a machine with a
// network and an account; this program sends nothing. The folder has the form of wandb's own library in offline mode:
// DIR/wandb/offline-run-YYYYMMDD_HHMMSS-ID/run-ID.wandb (docs/internals/tensorboard.md has the format). Names of
// metrics are Megatron's. As with all logs, a failed write is reported once and cannot end the run.

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

// ---- events ----

// One TensorBoard event as bytes: a protocol-buffer Event in a TFRecord frame. Internal to this folder, and separate
// from the file so that the bytes can be tested.

struct event_place {
    double wall_seconds;
    int64_t step;
};

// Each appends one framed record. The version record must be the first of a file.
void event_version(struct buffer *out, double wall_seconds);
void event_scalar(struct buffer *out, struct event_place place, const char *tag, double value);
void event_text(struct buffer *out, struct event_place place, const char *tag, const char *text);

// Protocol buffers by hand: a message is a run of fields, each a varint (number << 3 | wire type) and its value.
// Internal to this folder.
void protobuf_int(struct buffer *out, uint32_t field, int64_t value);
void protobuf_double(struct buffer *out, uint32_t field, double value);
void protobuf_float(struct buffer *out, uint32_t field, float value);
void protobuf_bytes(struct buffer *out, uint32_t field, const void *bytes, size_t length);
void protobuf_string(struct buffer *out, uint32_t field, const char *string);
// Puts a finished message into a field of another and frees it.
void protobuf_message(struct buffer *out, uint32_t field, struct buffer *message);

#endif
