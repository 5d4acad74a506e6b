// Rates are those of this run: what an earlier, stopped run had done does not count.
#include "data/preprocess_progress.h"
#include "base/clock.h"
#include "base/log.h"
#include <inttypes.h>
#include <math.h>

enum { SHOWN_PROBLEMS = 10 };

// Never 0, so that rates are finite.
static double seconds_since(double started) {
    return fmax(clock_seconds() - started, 1e-9);
}

// Megatron's own line, for scripts that watch for it, and what it does not say. Its MB are of 2^20 bytes.
static void log_line(const struct preprocess_progress *progress, double seconds) {
    const struct text_counts *counts = &progress->counts;
    double documents = (double)counts->documents / seconds, text = (double)counts->text_bytes / seconds / 1048576;
    struct buffer line = {0};
    buffer_printf(&line, "Processed %" PRId64 " documents (%.*f docs/s, %.*f MB/s). ", counts->documents,
                  documents < 100 ? 2 : 0, documents, text < 100 ? 1 : 0, text);
    progress_append_count(&line, (double)counts->tokens / seconds);
    buffer_append_string(&line, " tok/s");
    if (progress->left_bytes > progress->done_bytes && progress->done_bytes > 0) {
        double left = (double)(progress->left_bytes - progress->done_bytes);
        buffer_append_string(&line, ", ETA ");
        progress_append_duration(&line, seconds * left / (double)progress->done_bytes);
    }
    log_info("%s", buffer_string(&line));
    buffer_free(&line);
}

static void append_rates(struct buffer *note, const struct preprocess_progress *progress) {
    double seconds = seconds_since(progress->bar.started);
    progress_append_count(note, (double)progress->counts.documents / seconds);
    buffer_append_string(note, " docs/s, ");
    progress_append_count(note, (double)progress->counts.tokens / seconds);
    buffer_append_string(note, " tokens/s");
}

void preprocess_progress_begin(struct preprocess_progress *progress, int64_t log_interval, uint64_t left_bytes) {
    progress->log_interval = log_interval > 0 ? log_interval : 0;
    progress->next_log = progress->log_interval;
    progress->left_bytes = left_bytes;
    if (progress->log_interval == 0)
        progress_begin(&progress->bar, "tokenizing", "MB", (double)left_bytes / 1e6);
}

void preprocess_progress_add(void *context, const struct text_counts *more, uint64_t input_bytes) {
    struct preprocess_progress *progress = context;
    text_counts_add(&progress->counts, more);
    progress->done_bytes += input_bytes;
    int64_t documents = progress->counts.documents;
    if (progress->log_interval == 0) {
        struct buffer note = {0};
        append_rates(&note, progress);
        progress_update(&progress->bar, (double)progress->done_bytes / 1e6, buffer_string(&note));
        buffer_free(&note);
    } else if (documents >= progress->next_log) {
        log_line(progress, seconds_since(progress->started));
        progress->next_log = (documents / progress->log_interval + 1) * progress->log_interval;
    }
}

void preprocess_progress_bad_line(void *context, const char *problem) {
    struct preprocess_progress *progress = context;
    if (progress->bad_count++ < SHOWN_PROBLEMS)
        log_warn("skipped %s", problem);
    else if (progress->bad_count == SHOWN_PROBLEMS + 1)
        log_warn("further bad lines are only listed, in %s at the end", progress->bad_lines);
}

void preprocess_progress_end(struct preprocess_progress *progress) {
    if (progress->log_interval > 0)
        return;
    struct buffer note = {0};
    append_rates(&note, progress);
    progress_end(&progress->bar, buffer_string(&note));
    buffer_free(&note);
}
