// Merges the traces of all ranks into one file. Files may be torn, or may not be traces at all: each line is parsed and
// rewritten, and lines that are not events are counted and left out.
#include "report/trace_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/extract/codec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 };  // of the merged file, compressed by itself
static const double MOST_MICROSECONDS = 1e14;

struct merged_file {
    struct file_writer file;
    struct buffer text;
    bool is_packed;
    int64_t events;
};

static int write_text(struct merged_file *merged, size_t at_least) {
    if (merged->text.length < at_least || merged->text.length == 0)
        return 0;
    OWNED_BY(buffer_free) struct buffer packed = {0};
    int status = merged->is_packed ? pack_gzip(&packed, merged->text.data, merged->text.length) : 0;
    const struct buffer *bytes = merged->is_packed ? &packed : &merged->text;
    if (status == 0)
        status = file_write(&merged->file, bytes->data, bytes->length);
    buffer_clear(&merged->text);
    return status;
}

static bool get_time(const struct json *event, const char *key, double *value) {
    const struct json *member = json_member(event, key);
    if (!member || member->type != JSON_NUMBER || !(fabs(member->number) < MOST_MICROSECONDS))
        return false;
    *value = member->number;
    return true;
}

static void write_time(struct json_writer *json, double microseconds) {
    char text[40];
    snprintf(text, sizeof text, "%.3f", round(microseconds * 8) / 8);
    json_number(json, text);
}

static bool is_phase(const struct json *event, const char *phase) {
    const struct json *member = json_member(event, "ph");
    return member && member->type == JSON_STRING && strcmp(member->string, phase) == 0;
}

// The members of a span, its times stretched by `slope` after `from`.
static bool write_span(struct buffer *out, const struct json *event, double from, double slope) {
    double start, duration;
    if (!get_time(event, "ts", &start) || !get_time(event, "dur", &duration) || duration < 0)
        return false;
    double end = start + duration - slope * (start + duration - from);
    start -= slope * (start - from);
    start = round(start * 8) / 8;
    end = round(end * 8) / 8;
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    for (size_t i = 0; i < event->count; i++) {
        const char *key = event->keys[i].string;
        json_key_bytes(&json, key, event->keys[i].length);
        if (strcmp(key, "ts") == 0)
            write_time(&json, start);
        else if (strcmp(key, "dur") == 0)
            write_time(&json, end > start ? end - start : 0);
        else
            json_value(&json, &event->items[i]);
    }
    json_end_object(&json);
    return true;
}

bool trace_merge_line(struct buffer *out, const char *line, size_t length, double from, double slope) {
    OWNED struct json *event = NULL;
    while (length > 0 && (line[length - 1] == ',' || line[length - 1] == '\r'))
        length--;
    if (length == 0 || json_parse(&event, line, length, "trace") < 0) {
        error_clear();
        return false;
    }
    bool is_event = event->type == JSON_OBJECT;
    if (is_event && is_phase(event, "X")) {
        is_event = write_span(out, event, from, slope);
    } else if (is_event && is_phase(event, "M")) {
        struct json_writer json = {.out = out};
        json_value(&json, event);
    } else {
        is_event = false;
    }
    return is_event;
}

// The comparisons of a rank's clock, of which the first is already included in its times.
struct clock_line {
    double at, offset;
};

static bool read_clock(const char *line, size_t length, struct clock_line *clock) {
    static const char name[] = "\"bevatron_clock\"";
    OWNED struct json *event = NULL;
    if (!memmem(line, length, name, sizeof name - 1))
        return false;
    while (length > 0 && line[length - 1] == ',')
        length--;
    if (json_parse(&event, line, length, "trace") < 0) {
        error_clear();
        return false;
    }
    const struct json *arguments = json_member(event, "args");
    return get_time(arguments, "at_us", &clock->at) && get_time(arguments, "offset_us", &clock->offset);
}

// The drift of the clock from the first rank's, by its first and last comparison.
static double find_drift(const struct file_map *map, double *from) {
    struct clock_line clock, first = {0}, last = {0};
    bool has_first = false;
    const char *at = (const char *)map->data, *end = at + map->size;
    for (const char *newline; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
        if (!read_clock(at, (size_t)(newline - at), &clock))
            continue;
        if (!has_first)
            first = clock;
        has_first = true;
        last = clock;
    }
    *from = first.at;
    double slope = last.at > first.at ? (last.offset - first.offset) / (last.at - first.at) : 0;
    // No real clock drifts by a thousandth: the comparison was bad.
    return fabs(slope) < 1e-3 ? slope : 0;
}

static int merge_rank(struct merged_file *merged, struct trace_merge *merge, const char *path) {
    struct file_map map;
    double from;
    if (file_map_open(&map, path) < 0) {
        error_clear();
        merge->missing++;
        return 0;
    }
    double slope = find_drift(&map, &from);
    const char *at = (const char *)map.data, *end = at + map.size;
    int status = 0;
    while (status == 0 && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at), before = merged->text.length;
        bool is_start = length == 1 && *at == '[';
        if (!is_start && merged->events > 0)
            buffer_append_string(&merged->text, ",\n");
        if (!is_start && trace_merge_line(&merged->text, at, length, from, slope)) {
            merged->events++;
        } else if (!is_start) {
            merged->text.length = before;
            merge->bad_lines += length > 0;
        }
        at += length + 1;
        status = write_text(merged, PIECE_BYTES);
    }
    file_map_close(&map);
    return status;
}

static int merge_all(struct merged_file *merged, struct trace_merge *merge) {
    buffer_append_string(&merged->text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int i = 0; i < merge->count; i++) {
        OWNED char *path = trace_file_path(merge->folder, merge->ranks[i]);
        TRY(merge_rank(merged, merge, path));
    }
    buffer_append_string(&merged->text, "\n]}\n");
    TRY(write_text(merged, 0));
    return file_commit(&merged->file);
}

static void remove_rank_files(const struct trace_merge *merge) {
    for (int i = 0; i < merge->count; i++) {
        OWNED char *path = trace_file_path(merge->folder, merge->ranks[i]);
        (void)unlink(path);
    }
}

int trace_merge(struct trace_merge *merge) {
    struct merged_file merged = {0};
    OWNED_BY(buffer_free) struct buffer trial = {0};
    merged.is_packed = pack_gzip(&trial, "", 0) == 0;
    error_clear();
    merge->path = file_join(merge->folder, merged.is_packed ? "trace.json.gz" : "trace.json");
    merge->events = merge->bad_lines = 0;
    merge->missing = 0;
    int status = file_create(&merged.file, merge->path);
    if (status == 0)
        status = merge_all(&merged, merge);
    if (status < 0)
        file_abort(&merged.file);
    buffer_free(&merged.text);
    merge->events = merged.events;
    if (status == 0)
        remove_rank_files(merge);
    return status;
}
