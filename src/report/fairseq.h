// The log lines of fairseq's --log-format json, for scripts that read them: "TIME | INFO | train_inner | {…}", with all
// values as strings of six digits and losses in bits (base 2). fairseq's epochs are left out.
#ifndef REPORT_FAIRSEQ_H
#define REPORT_FAIRSEQ_H

#include "base/buffer.h"
#include "report/metrics.h"

struct fairseq_clock {
    double train_wall;  // seconds of training since the last line
    double wall;        // seconds since the start
};

void fairseq_train(struct buffer *out, const struct metrics *metrics, const struct fairseq_clock *clock);
void fairseq_eval(struct buffer *out, const struct metrics_eval *eval);

#endif
