// metrics.jsonl: one JSON object per line, appended and flushed, so that a run can be watched and a killed run loses
// nothing. "kind" is "run" (once per start), "train" or "eval". A line torn by a kill is cut off when the file is
// opened again and passed over by the reader. A run that resumes writes iterations again that an earlier start had
// already written: the reader lets the later line count.
#ifndef REPORT_METRICS_FILE_H
#define REPORT_METRICS_FILE_H

#include "report/metrics.h"
#include <stddef.h>

struct metrics_file {
    int descriptor;  // -1 where closed
    char *path;
    bool has_failed;  // a write failed: said once, then the file is left alone, for a full disk must not end a run
};

// Opens for appending, creating folders and file where missing, and cuts off a torn last line.
int metrics_file_open(struct metrics_file *file, const char *path);
void metrics_file_close(struct metrics_file *file);  // safe on a zeroed or closed one

// config_json is one JSON object or NULL.
void metrics_file_run(struct metrics_file *file, double wall_seconds, int64_t iteration, const char *config_json);
void metrics_file_train(struct metrics_file *file, const struct metrics *metrics);
void metrics_file_eval(struct metrics_file *file, const struct metrics_eval *eval);

// A curve: y over iterations, rising.
struct metrics_curve {
    char *name;  // "lm loss", "lm loss validation"
    double *x, *y;
    size_t count, capacity;
};
struct metrics_history {
    struct metrics_curve *curves;
    size_t count;
    int64_t last_iteration, train_iters;  // 0 where unknown
    double last_wall_seconds, last_tokens_per_second, last_elapsed_ms;
    size_t bad_lines;  // lines that were no JSON of ours and were passed over
};

// Reads the loss curves back. Lines that cannot be understood are counted and passed over.
int metrics_history_read(struct metrics_history *history, const char *path);
void metrics_history_free(struct metrics_history *history);

#endif
