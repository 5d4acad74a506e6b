// What a user sees while text is tokenized: a progress bar or Megatron's lines, and the first bad lines. The functions
// that are told of progress have the types of struct preprocess_run's callbacks.
#ifndef DATA_PREPROCESS_PROGRESS_H
#define DATA_PREPROCESS_PROGRESS_H

#include "base/progress.h"
#include "data/text_batch.h"

struct preprocess_progress {
    const char *bad_lines;            // name of the list of bad lines; this and the next are set by the caller
    double started;                   // clock_seconds when the command began
    int64_t log_interval;             // documents between two lines; 0 for a progress bar
    struct progress bar;              // if there is one
    struct text_counts counts;        // of this run
    uint64_t done_bytes, left_bytes;  // of input, by this run: done, and to do when it began; 0 if unknown
    int64_t next_log;                 // documents at which the next line is due
    int64_t bad_count;                // bad lines so far
};

void preprocess_progress_begin(struct preprocess_progress *progress, int64_t log_interval, uint64_t left_bytes);
void preprocess_progress_add(void *progress, const struct text_counts *more, uint64_t input_bytes);
void preprocess_progress_bad_line(void *progress, const char *problem);
void preprocess_progress_end(struct preprocess_progress *progress);

#endif
