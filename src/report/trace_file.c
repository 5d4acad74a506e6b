// The trace of one rank. Spans are gathered over an iteration and sorted, so that a span precedes those within it and
// tracks can be assigned, then written in one go: a rank that is killed leaves whole lines and at most one torn.
#include "report/trace_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/extract/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_LANE = 10 };  // lower thread numbers are those of enum trace_track

static const char *const kind_names[TRACE_KINDS] = {
    [TRACE_COMPUTE] = "compute",     [TRACE_COMMUNICATION] = "communication",
    [TRACE_IDLE] = "idle",           [TRACE_DATA] = "data",
    [TRACE_FILES] = "files",         [TRACE_LAUNCH] = "launch",
    [TRACE_ITERATION] = "iteration",
};

// Name of a span on its track. It includes an iteration's number, to be seen without opening it.
static void write_name(struct json_writer *json, const struct trace_event *event) {
    OWNED char *text = NULL;
    json_key(json, "name");
    if (event->kind == TRACE_ITERATION)
        text = memory_printf("iteration %lld", (long long)event->iteration);
    else if (event->kind == TRACE_IDLE)
        text = memory_printf("wait: %s", event->name);
    json_cstring(json, text ? text : event->name);
}

// Eighths of a microsecond since the origin.
static int64_t eighths(const struct trace_file *file, double seconds) {
    return (int64_t)round((seconds - file->origin) * 8e6);
}

static void write_time(struct json_writer *json, const char *key, int64_t count) {
    char text[32];
    snprintf(text, sizeof text, "%.3f", (double)count / 8);
    json_key(json, key);
    json_number(json, text);
}

static struct json_writer begin_event(struct trace_file *file, const char *phase, int thread) {
    struct json_writer json = {.out = &file->text};
    json_begin_object(&json);
    json_put_string(&json, "ph", phase);
    json_put_int(&json, "pid", file->rank);
    json_put_int(&json, "tid", thread);
    return json;
}

static void end_event(struct trace_file *file, struct json_writer *json) {
    json_end_object(json);
    buffer_append_string(&file->text, ",\n");
}

// One of the format's events about the trace itself, with a text or a number.
static void write_meta(struct trace_file *file, int thread, const char *name, const char *text, int number) {
    struct json_writer json = begin_event(file, "M", thread);
    json_put_string(&json, "name", name);
    json_key(&json, "args");
    json_begin_object(&json);
    if (text)
        json_put_string(&json, "name", text);
    else
        json_put_int(&json, "sort_index", number);
    json_end_object(&json);
    end_event(file, &json);
}

static void name_thread(struct trace_file *file, int thread, const char *name) {
    write_meta(file, thread, "thread_name", name, 0);
    write_meta(file, thread, "thread_sort_index", NULL, thread);
}

// A lane of this name that is free after `start`; -1 if there are too many.
static int find_lane(struct trace_file *file, const char *name, double start) {
    int same = 0;
    for (int i = 0; i < file->lane_count; i++) {
        if (strcmp(file->lanes[i].name, name) != 0)
            continue;
        if (file->lanes[i].end <= start)
            return i;
        same++;
    }
    if (file->lane_count == TRACE_MOST_LANES)
        return -1;
    file->lanes[file->lane_count] = (struct trace_lane){.name = name, .number = same};
    OWNED char *text = same > 0 ? memory_printf("%s %d", name, same + 1) : memory_string(name);
    name_thread(file, FIRST_LANE + file->lane_count, text);
    return file->lane_count++;
}

static int find_thread(struct trace_file *file, const struct trace_event *event) {
    bool has_lane = event->track == TRACK_COLLECTIVES || event->track == TRACK_LOADER;
    if (!has_lane)
        return event->track;
    int lane = find_lane(file, event->group ? event->group : "data loader", event->start);
    if (lane >= 0)
        file->lanes[lane].end = event->end;
    return lane < 0 ? -1 : FIRST_LANE + lane;
}

static void write_arguments(struct json_writer *json, const struct trace_event *event) {
    json_key(json, "args");
    json_begin_object(json);
    json_put_int(json, "iteration", event->iteration);
    if (event->micro_batch >= 0)
        json_put_int(json, "micro_batch", event->micro_batch);
    if (event->chunk >= 0)
        json_put_int(json, "chunk", event->chunk);
    if (event->group) {
        json_put_string(json, "group", event->group);
        json_put_string(json, "collective", event->how);
        json_put_int(json, "bytes", event->bytes);
    }
    json_end_object(json);
}

static void write_span(struct trace_file *file, const struct trace_event *event) {
    int thread = find_thread(file, event);
    if (thread < 0) {
        file->lost++;
        return;
    }
    int64_t start = eighths(file, event->start), end = eighths(file, event->end);
    struct json_writer json = begin_event(file, "X", thread);
    write_time(&json, "ts", start);
    write_time(&json, "dur", end > start ? end - start : 0);
    json_put_string(&json, "cat", kind_names[event->kind]);
    write_name(&json, event);
    write_arguments(&json, event);
    end_event(file, &json);
}

// Between two items the device is idle.
static void write_gap(struct trace_file *file, const struct trace_event *event) {
    if (event->track != TRACK_DEVICE || event->is_inner)
        return;
    struct trace_event gap = *event;
    gap.name = "work";
    gap.kind = TRACE_IDLE;
    gap.micro_batch = gap.chunk = -1;
    gap.start = file->device_end;
    gap.end = event->start;
    if (file->device_end > 0 && gap.end > gap.start)
        write_span(file, &gap);
    file->device_end = event->end;
}

static void write_clock(struct trace_file *file, double at, double offset, double error) {
    struct json_writer json = begin_event(file, "M", 0);
    json_put_string(&json, "name", "bevatron_clock");
    json_key(&json, "args");
    json_begin_object(&json);
    write_time(&json, "at_us", eighths(file, at));
    json_put_double(&json, "offset_us", offset * 1e6);
    json_put_double(&json, "error_us", error * 1e6);
    json_end_object(&json);
    end_event(file, &json);
}

static void write_out(struct trace_file *file) {
    if (file->is_text)
        return;
    if (!file->has_failed && file_put(file->descriptor, file->text.data, file->text.length) < file->text.length) {
        log_warn("cannot write to %s: %s; the profile of rank %d ends here", file->path, strerror(errno), file->rank);
        file->has_failed = true;
    }
    buffer_clear(&file->text);
}

char *trace_file_path(const char *folder, int rank) {
    return memory_printf("%s/trace-rank-%d.json", folder, rank);
}

static bool is_open(const struct trace_file *file) {
    return file->path || file->is_text;
}

static void begin(struct trace_file *file, const struct trace_place *place) {
    buffer_append_string(&file->text, "[\n");
    OWNED char *name =
        memory_printf("rank %d on %s%s%s", place->rank, place->host, place->layout[0] ? ": " : "", place->layout);
    write_meta(file, 0, "process_name", name, 0);
    write_meta(file, 0, "process_sort_index", NULL, place->rank);
    name_thread(file, TRACK_ITERATIONS, "iterations");
    name_thread(file, TRACK_HOST, place->has_device ? "host" : "host: compute");
    if (place->has_device)
        name_thread(file, TRACK_DEVICE, "device: compute stream");
    write_clock(file, place->origin, place->clock_offset, place->clock_error);
    write_out(file);
}

void trace_file_open_text(struct trace_file *file, const struct trace_place *place) {
    *file = (struct trace_file){.descriptor = -1, .is_text = true, .rank = place->rank, .origin = place->origin};
    begin(file, place);
}

int trace_file_open(struct trace_file *file, const char *folder, const struct trace_place *place) {
    *file = (struct trace_file){.descriptor = -1, .rank = place->rank, .origin = place->origin};
    TRY(file_make_folders(folder));
    char *path = trace_file_path(folder, place->rank);
    file->descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file->descriptor < 0) {
        error_set("cannot write the profile %s: %s; give another folder with --profile-dir", path, strerror(errno));
        free(path);
        return -1;
    }
    file->path = path;
    begin(file, place);
    return 0;
}

void trace_file_add(struct trace_file *file, const struct trace_event *event) {
    if (!is_open(file))
        return;
    MEMORY_GROW(file->events, file->count, file->capacity);
    file->events[file->count++] = *event;
}

// Earlier first; for equal starts, the one that contains the others.
static int compare_events(const void *a, const void *b) {
    const struct trace_event *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return (int)x->is_inner - (int)y->is_inner;
}

void trace_file_flush(struct trace_file *file) {
    if (!is_open(file))
        return;
    if (file->count > 0)
        qsort(file->events, file->count, sizeof *file->events, compare_events);
    for (size_t i = 0; i < file->count; i++) {
        write_gap(file, &file->events[i]);
        write_span(file, &file->events[i]);
    }
    file->count = 0;
    write_out(file);
}

void trace_file_clock(struct trace_file *file, double at, double clock_offset, double clock_error) {
    if (!is_open(file))
        return;
    write_clock(file, at, clock_offset, clock_error);
    write_out(file);
}

void trace_file_close(struct trace_file *file) {
    if (file->path) {
        trace_file_flush(file);
        close(file->descriptor);
    }
    free(file->path);
    free(file->events);
    buffer_free(&file->text);
    *file = (struct trace_file){.descriptor = -1};
}

// ---- merging ----

// Merges the traces of all ranks into one file. Files may be torn, or may not be traces at all: each line is parsed and
// rewritten, and lines that are not events are counted and left out.

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

static void copy_time(struct json_writer *json, double microseconds) {
    char text[40];
    snprintf(text, sizeof text, "%.3f", round(microseconds * 8) / 8);
    json_number(json, text);
}

static bool is_phase(const struct json *event, const char *phase) {
    const struct json *member = json_member(event, "ph");
    return member && member->type == JSON_STRING && strcmp(member->string, phase) == 0;
}

// The members of a span, its times stretched by `slope` after `from`.
static bool copy_span(struct buffer *out, const struct json *event, double from, double slope) {
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
            copy_time(&json, start);
        else if (strcmp(key, "dur") == 0)
            copy_time(&json, end > start ? end - start : 0);
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
        is_event = copy_span(out, event, from, slope);
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
