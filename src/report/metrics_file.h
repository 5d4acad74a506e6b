// metrics.jsonl: one JSON object per line, appended and flushed, so that a run can be watched and a killed run loses
// nothing. "kind" is "run" (once per start), "train", "eval", "sample" or "event"; report_line adds further kinds, and
// readers skip those that they do not know. A line cut short by a kill is removed when the file is opened again, and
// readers skip it. A resumed run repeats some iterations of an earlier start; readers use the later line.
#ifndef REPORT_METRICS_FILE_H
#define REPORT_METRICS_FILE_H

#include "base/buffer.h"
#include "base/json.h"
#include "report/appender.h"
#include "report/metrics.h"
#include <stddef.h>
#include <stdint.h>

struct metrics_file {
    struct appender appender;
    bool has_lines;         // of earlier runs, when it was opened
    double peak_teraflops;  // of the last start
};

// -1 if an existing file of that name is not a file of metrics.
int metrics_file_check(const char *path);
// Opens the file for appending, creating folders and file if missing, and removes an incomplete last line.
int metrics_file_open(struct metrics_file *file, const char *path);
void metrics_file_close(void *file);  // safe on a zeroed or closed one

// For a table of sinks: `file` is a struct metrics_file.
void metrics_file_run(void *file, const struct metrics_start *start);
void metrics_file_train(void *file, const struct metrics *metrics);
void metrics_file_eval(void *file, const struct metrics_eval *eval);
void metrics_file_event(void *file, const struct metrics_event *event);
void metrics_file_sample(void *file, const struct metrics_sample *sample);

// Lines of other kinds: metrics_line_begin opens the object with the members that all lines have, the caller adds its
// own and closes it, and metrics_file_line writes and frees it, and returns whether it was written.
void metrics_line_begin(struct json_writer *json, const char *kind, double wall_seconds, int64_t iteration);
bool metrics_file_line(struct metrics_file *file, struct buffer *line);

// For a process that does not write the metrics itself: a rank that fails, the supervisor of a killed run. Whether a
// line at the end of the file, not older than this, reports the end of the run. False if the file cannot be read.
bool metrics_file_has_end(const char *path, double since_wall_seconds);
// Adds an event to an existing file, or, with may_create, to a new one; -1 if it cannot be written.
int metrics_file_add_event(const char *path, const struct metrics_event *event, bool may_create);

// Milliseconds per iteration in the last line of training; 0 if there is none. Lines that are torn or invalid are
// skipped.
double metrics_file_last_step(const char *path);

// The lines of kind "ranks" in metrics.jsonl: the parts of a step's time on every rank, averaged over a log interval,
// and the rank that delays the others.
//
//     {"kind": "ranks", "time": …, "iteration": 100, "steps": 10,
//      "ranks": [{"rank": 0, "host": "a", "step_ms": …, "wait_ms": …, "data_ms": …, "memory": bytes}, …],
//      "slow": {"rank": 3, "host": "b", "cause": "data", "text": "…"}}
//
// "slow" is missing if no rank stands out. Of very many ranks only those with the longest own time (step minus wait)
// are listed, and "omitted" counts the others.
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
