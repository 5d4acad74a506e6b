// metrics.jsonl: one JSON object per line, appended and flushed, so that a run can be watched and a killed run loses
// nothing. "kind" is "run" (once per start), "train" or "eval". A line cut short by a kill is removed when the file is
// opened again, and readers skip it. A resumed run writes again some iterations that an earlier start had already
// written; readers use the later line.
#ifndef REPORT_METRICS_FILE_H
#define REPORT_METRICS_FILE_H

#include "report/metrics.h"
#include <stddef.h>

struct metrics_file {
    int descriptor;  // -1 if closed
    char *path;
    bool has_failed;  // a write failed: reported once and never retried, because a full disk must not end a run
};

// Opens the file for appending, creating folders and file if missing, and removes an incomplete last line.
int metrics_file_open(struct metrics_file *file, const char *path);
void metrics_file_close(struct metrics_file *file);  // safe on a zeroed or closed one

// config_json is one JSON object or NULL.
void metrics_file_run(struct metrics_file *file, double wall_seconds, int64_t iteration, const char *config_json);
void metrics_file_train(struct metrics_file *file, const struct metrics *metrics);
void metrics_file_eval(struct metrics_file *file, const struct metrics_eval *eval);

// A curve: y over increasing iterations.
struct metrics_curve {
    char *name;  // "lm loss", "lm loss validation"
    double *x, *y;
    size_t count, capacity;
};
struct metrics_history {
    struct metrics_curve *curves;
    size_t count;
    int64_t last_iteration, train_iters;  // 0 if unknown
    double last_wall_seconds, last_tokens_per_second, last_elapsed_ms;
    size_t bad_lines;  // lines that were not valid and were skipped
};

// Reads the loss curves back. Lines that cannot be understood are counted and skipped.
int metrics_history_read(struct metrics_history *history, const char *path);
void metrics_history_free(struct metrics_history *history);

#endif
