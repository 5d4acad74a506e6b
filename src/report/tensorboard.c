// The event file and Megatron's tags. Records gather in memory and are written at each flush, whole records only, so
// the file of a killed run ends between two records or in one torn record, which TensorBoard skips.
#include "report/tensorboard.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/process.h"
#include "report/appender.h"
#include "report/event.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLUSH_BYTES = 1 << 16 };

struct tensorboard {
    struct appender file;
    struct buffer pending;
    struct metrics_choice choice;
    int64_t iteration, samples;  // x of the values being written: over iterations, and over samples
};

static char *event_path(const char *folder) {
    char host[256];
    process_host(host, sizeof host);
    OWNED char *name =
        memory_printf("events.out.tfevents.%" PRId64 ".%s.%ld.0", (int64_t)clock_wall_seconds(), host, (long)getpid());
    return file_join(folder, name);
}

// Makes written records visible to readers.
static void flush(struct tensorboard *board) {
    if (board->pending.length > 0)
        (void)appender_write(&board->file, board->pending.data, board->pending.length);
    buffer_clear(&board->pending);
}

int tensorboard_open(struct tensorboard **board, const char *folder, const struct metrics_choice *choice) {
    *board = NULL;
    TRY(file_make_folders(folder));
    OWNED char *path = event_path(folder);
    struct appender file;
    TRY(appender_open(&file, path, "TensorBoard events", APPENDER_APPEND));
    *board = memory_alloc(sizeof **board);
    (*board)->file = file;
    (*board)->choice = *choice;
    event_version(&(*board)->pending, clock_wall_seconds());
    flush(*board);
    return 0;
}

void tensorboard_close(void *sink) {
    OWNED struct tensorboard *board = sink;
    if (!board)
        return;
    flush(board);
    appender_close(&board->file);
    buffer_free(&board->pending);
}

static void write_scalar(struct tensorboard *board, const char *tag, double value, int64_t step) {
    event_scalar(&board->pending, (struct event_place){clock_wall_seconds(), step}, tag, value);
    if (board->pending.length >= FLUSH_BYTES)
        flush(board);
}

static void write_text(struct tensorboard *board, const char *tag, const char *text, int64_t step) {
    // The name format of PyTorch's writer, which existing boards and scripts look for.
    OWNED char *full = memory_printf("%s/text_summary", tag);
    event_text(&board->pending, (struct event_place){clock_wall_seconds(), step}, full, text);
}

// A value over iterations, and over samples as a curve of its own.
static void put(void *context, const char *tag, double value, bool is_iterations_only) {
    struct tensorboard *board = context;
    write_scalar(board, tag, value, board->iteration);
    if (is_iterations_only)
        return;
    OWNED char *versus = memory_printf("%s vs samples", tag);
    write_scalar(board, versus, value, board->samples);
}

static struct metrics_taker taker_at(struct tensorboard *board, int64_t iteration, int64_t samples) {
    board->iteration = iteration;
    board->samples = samples;
    return (struct metrics_taker){put, board};
}

// A value as Python would print it, for comparing the text tab with Megatron's.
static void append_value(struct buffer *out, const struct json *value) {
    switch (value->type) {
    case JSON_NULL:
        buffer_append_string(out, "None");
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        buffer_append_string(out, value->type == JSON_TRUE ? "True" : "False");
        break;
    case JSON_NUMBER:
    case JSON_STRING:
        buffer_append(out, value->string, value->length);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        buffer_append_byte(out, '[');
        for (size_t i = 0; i < value->count; i++) {
            if (i > 0)
                buffer_append_string(out, ", ");
            append_value(out, &value->items[i]);
        }
        buffer_append_byte(out, ']');
        break;
    }
}

void tensorboard_run(void *sink, const struct metrics_start *start) {
    struct tensorboard *board = sink;
    OWNED struct json *root = NULL;
    if (!start->config_json || json_parse(&root, start->config_json, strlen(start->config_json), "config") < 0)
        return;
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (size_t i = 0; root->type == JSON_OBJECT && i < root->count; i++) {
        buffer_clear(&text);
        append_value(&text, &root->items[i]);
        write_text(board, root->keys[i].string, buffer_string(&text), start->iteration);
    }
    flush(board);
}

void tensorboard_train(void *sink, const struct metrics *m) {
    struct tensorboard *board = sink;
    const struct metrics_taker taker = taker_at(board, m->iteration, m->consumed_samples);
    metrics_each_tag(m, &board->choice, false, &taker);
    flush(board);
}

void tensorboard_interval(void *sink, const struct metrics *m) {
    struct tensorboard *board = sink;
    const struct metrics_taker taker = taker_at(board, m->iteration, m->consumed_samples);
    if (board->choice.timers)
        metrics_each_tag(m, &board->choice, true, &taker);
    if (board->choice.timers && m->planned_tokens_per_second > 0)
        write_scalar(board, "planned-iteration-time",
                     m->elapsed_ms / 1000 * m->tokens_per_second / m->planned_tokens_per_second, m->iteration);
    for (int i = 0; i < m->expert_layer_count; i++) {
        OWNED char *tag = memory_printf("expert-balance/layer-%" PRId64, m->expert_layers[i].layer);
        write_scalar(board, tag, m->expert_layers[i].balance, m->iteration);
    }
    flush(board);
}

void tensorboard_timer(void *sink, const char *name, double seconds, int64_t iteration) {
    struct tensorboard *board = sink;
    if (!board->choice.timers)
        return;
    OWNED char *tag = memory_printf("%s-time", name);
    write_scalar(board, tag, seconds, iteration);
}

void tensorboard_eval(void *sink, const struct metrics_eval *eval) {
    struct tensorboard *board = sink;
    const struct metrics_taker taker = taker_at(board, eval->iteration, eval->consumed_samples);
    metrics_each_eval_tag(eval, &board->choice, &taker);
    flush(board);
}

void tensorboard_sample(void *sink, const struct metrics_sample *sample) {
    struct tensorboard *board = sink;
    write_text(board, "sample", sample->text, sample->iteration);
    flush(board);
}
