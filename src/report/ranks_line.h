// The lines of kind "ranks" in metrics.jsonl: the parts of a step's time on every rank, averaged over a log interval,
// and the rank that delays the others.
//
//     {"kind": "ranks", "time": …, "iteration": 100, "steps": 10,
//      "ranks": [{"rank": 0, "host": "a", "step_ms": …, "wait_ms": …, "data_ms": …, "memory": bytes}, …],
//      "slow": {"rank": 3, "host": "b", "cause": "data", "text": "…"}}
//
// "slow" is missing if no rank stands out. Of very many ranks only those with the longest own time (step minus wait)
// are listed, and "omitted" counts the others.
#ifndef REPORT_RANKS_LINE_H
#define REPORT_RANKS_LINE_H

#include "base/buffer.h"
#include <stdint.h>

enum { RANKS_LINE_MOST = 1024 };

struct ranks_line_rank {
    int rank;
    const char *host;
    double step_ms, wait_ms, data_ms;
    int64_t memory_bytes;  // of the device, or of the host on a CPU; left out if 0
};

struct ranks_line {
    double wall_seconds;
    int64_t iteration, steps;
    const struct ranks_line_rank *ranks;  // (count), by rank
    int count;
    int slow;  // index of the rank that stands out; -1 if none does
    const char *slow_cause, *slow_text;
};

void ranks_line_write(struct buffer *out, const struct ranks_line *line);

#endif
