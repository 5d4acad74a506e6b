// The log lines of Megatron-LM, character for character, so that scripts that read its logs can read these. Only
// --log-throughput departs from them: below 1 TFLOP/s the throughput has four decimals instead of one, and two more
// columns follow Megatron's last, " tokens per second: 1234 | time left: 0:01:02 |". Each function appends to a buffer,
// including the newline.
#ifndef REPORT_CONSOLE_H
#define REPORT_CONSOLE_H

#include "base/buffer.h"
#include "report/metrics.h"

// " [2026-01-02 03:04:05.678901] iteration      100/     500 | consumed samples: …"
void console_train(struct buffer *out, const struct metrics *metrics);
// The dashed block " validation loss at iteration 100 | lm loss value: … | lm loss PPL: … | ".
void console_eval(struct buffer *out, const struct metrics_eval *eval);

// " sample at iteration 100 | "prompt" | "text"", both as strings of JSON: control characters are escaped.
void console_sample(struct buffer *out, const struct metrics_sample *sample);

// "saving checkpoint at iteration      10 to DIR in bevatron format"
void console_saving(struct buffer *out, double wall_seconds, int64_t iteration, const char *folder);
// A checkpoint, and the numbers of ranks along the tensor and pipeline axes.
struct console_checkpoint {
    int64_t iteration;
    const char *folder;
    int tensor_ranks, pipeline_ranks;
};
// "  successfully saved checkpoint from iteration      10 to DIR [ t 1/1, p 1/1 ]"
void console_saved(struct buffer *out, double wall_seconds, const struct console_checkpoint *checkpoint);
// "[after model is built] datetime: 2026-01-02 03:04:05.678901 " (the trailing space is Megatron's).
void console_datetime(struct buffer *out, const char *event, double wall_seconds);

// The log lines of fairseq's --log-format json, for scripts that read them: "TIME | INFO | train_inner | {…}", with all
// values as strings of six digits and losses in bits (base 2). fairseq's epochs are left out.
struct fairseq_clock {
    double train_wall;  // seconds of training since the last line
    double wall;        // seconds since the start
};

void fairseq_train(struct buffer *out, const struct metrics *metrics, const struct fairseq_clock *clock);
void fairseq_eval(struct buffer *out, const struct metrics_eval *eval);

#endif
