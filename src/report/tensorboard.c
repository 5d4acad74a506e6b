// The event file and Megatron's tags. Records gather in memory and are written at each flush, whole records only, so
// the file of a killed run ends between two records or in one torn record, which TensorBoard skips.
#include "report/tensorboard.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/process.h"
#include "report/appender.h"

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

// ---- messages ----

// TensorBoard's events. Only fields that TensorBoard reads are written:
//
//   Event    1 wall_time double · 2 step int64 · 3 file_version string · 5 summary Summary
//   Summary  1 value Value, repeated
//   Value    1 tag string · 2 simple_value float · 8 tensor TensorProto · 9 metadata SummaryMetadata
//   SummaryMetadata  1 plugin_data { 1 plugin_name string }
//   TensorProto      1 dtype enum (7 string) · 2 tensor_shape { 2 dim { 1 size int64 } } · 8 string_val bytes, repeated
//
// The frame: u64 length, masked CRC-32C of those 8 bytes, the event, masked CRC-32C of the event; little-endian.
//
// Wire type 0 is a varint, 1 eight bytes, 2 a length and as many bytes, 5 four bytes.

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_varint(struct buffer *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        buffer_append_byte(out, (char)(0x80 | (value & 0x7f)));
    buffer_append_byte(out, (char)value);
}

static void put_key(struct buffer *out, uint32_t field, uint32_t wire) {
    put_varint(out, field << 3 | wire);
}

void protobuf_int(struct buffer *out, uint32_t field, int64_t value) {
    put_key(out, field, WIRE_VARINT);
    put_varint(out, (uint64_t)value);
}

void protobuf_double(struct buffer *out, uint32_t field, double value) {
    put_key(out, field, WIRE_64);
    buffer_append(out, &value, 8);
}

void protobuf_float(struct buffer *out, uint32_t field, float value) {
    put_key(out, field, WIRE_32);
    buffer_append(out, &value, 4);
}

void protobuf_bytes(struct buffer *out, uint32_t field, const void *bytes, size_t length) {
    put_key(out, field, WIRE_BYTES);
    put_varint(out, length);
    buffer_append(out, bytes, length);
}

void protobuf_string(struct buffer *out, uint32_t field, const char *string) {
    protobuf_bytes(out, field, string, strlen(string));
}

void protobuf_message(struct buffer *out, uint32_t field, struct buffer *message) {
    protobuf_bytes(out, field, buffer_string(message), message->length);
    buffer_free(message);
}

// ---- events ----

// Frames a finished event and frees it.
static void put_record(struct buffer *out, struct buffer *event) {
    uint64_t length = event->length;
    uint32_t length_check = crc32c_masked(&length, sizeof length);
    uint32_t event_check = crc32c_masked(event->data, event->length);
    buffer_append(out, &length, sizeof length);
    buffer_append(out, &length_check, sizeof length_check);
    buffer_append(out, event->data, event->length);
    buffer_append(out, &event_check, sizeof event_check);
    buffer_free(event);
}

void event_version(struct buffer *out, double wall_seconds) {
    struct buffer event = {0};
    protobuf_double(&event, 1, wall_seconds);
    protobuf_string(&event, 3, "brain.Event:2");
    put_record(out, &event);
}

// Wraps a Value into a Summary into an Event into a frame.
static void put_value(struct buffer *out, struct event_place place, struct buffer *value) {
    struct buffer summary = {0}, event = {0};
    protobuf_message(&summary, 1, value);
    protobuf_double(&event, 1, place.wall_seconds);
    // Readers assume zero for a missing number; leaving it out is the canonical form.
    if (place.step != 0)
        protobuf_int(&event, 2, place.step);
    protobuf_message(&event, 5, &summary);
    put_record(out, &event);
}

void event_scalar(struct buffer *out, struct event_place place, const char *tag, double value) {
    struct buffer message = {0};
    protobuf_string(&message, 1, tag);
    protobuf_float(&message, 2, (float)value);
    put_value(out, place, &message);
}

void event_text(struct buffer *out, struct event_place place, const char *tag, const char *text) {
    struct buffer dimension = {0}, shape = {0}, tensor = {0}, plugin = {0}, metadata = {0}, message = {0};
    protobuf_int(&dimension, 1, 1);
    protobuf_message(&shape, 2, &dimension);
    protobuf_int(&tensor, 1, 7);
    protobuf_message(&tensor, 2, &shape);
    protobuf_string(&tensor, 8, text);
    protobuf_string(&plugin, 1, "text");
    protobuf_message(&metadata, 1, &plugin);
    protobuf_string(&message, 1, tag);
    protobuf_message(&message, 8, &tensor);
    protobuf_message(&message, 9, &metadata);
    put_value(out, place, &message);
}
