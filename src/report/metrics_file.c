// Writes metrics.jsonl. Each line is written by one system call at the end of the file, so a kill can tear only the
// last line. A torn line has no newline, by which it is recognised and cut off on the next start.
#include "report/metrics_file.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

// ---- the times of ranks ----

// To the microsecond: more digits are noise, and there may be many ranks.
static void key_ms(struct json_writer *json, const char *key, double ms) {
    json_put_double(json, key, round(ms * 1e3) / 1e3);
}

static void write_rank(struct json_writer *json, const struct ranks_line_rank *rank) {
    json_begin_object(json);
    json_put_int(json, "rank", rank->rank);
    json_put_string(json, "host", rank->host);
    key_ms(json, "step_ms", rank->step_ms);
    key_ms(json, "wait_ms", rank->wait_ms);
    key_ms(json, "data_ms", rank->data_ms);
    if (rank->memory_bytes > 0)
        json_put_int(json, "memory", rank->memory_bytes);
    json_end_object(json);
}

static int compare_own(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// The minimal own time of a listed rank; ties may list a few more.
static double find_limit(const struct ranks_line *line) {
    if (line->count <= RANKS_LINE_MOST)
        return -INFINITY;
    OWNED double *own = memory_alloc(sizeof *own * (size_t)line->count);
    for (int i = 0; i < line->count; i++)
        own[i] = line->ranks[i].step_ms - line->ranks[i].wait_ms;
    qsort(own, (size_t)line->count, sizeof *own, compare_own);
    return own[RANKS_LINE_MOST - 1];
}

void ranks_line_write(struct buffer *out, const struct ranks_line *line) {
    struct json_writer json = {.out = out};
    double limit = find_limit(line);
    int omitted = 0;
    metrics_line_begin(&json, "ranks", line->wall_seconds, line->iteration);
    json_put_int(&json, "steps", line->steps);
    json_key(&json, "ranks");
    json_begin_array(&json);
    for (int i = 0; i < line->count; i++) {
        bool is_listed = line->ranks[i].step_ms - line->ranks[i].wait_ms >= limit;
        if (is_listed)
            write_rank(&json, &line->ranks[i]);
        omitted += !is_listed;
    }
    json_end_array(&json);
    if (omitted > 0)
        json_put_int(&json, "omitted", omitted);
    if (line->slow >= 0) {
        json_key(&json, "slow");
        json_begin_object(&json);
        json_put_int(&json, "rank", line->ranks[line->slow].rank);
        json_put_string(&json, "host", line->ranks[line->slow].host);
        json_put_string(&json, "cause", line->slow_cause);
        json_put_string(&json, "text", line->slow_text);
        json_end_object(&json);
    }
    json_end_object(&json);
}

// ---- the file ----

// Offset after the last newline of the first `size` bytes, found in blocks from the end.
static int end_of_lines(int descriptor, off_t size, off_t *end) {
    char block[4096];
    while (size > 0) {
        size_t count = size < (off_t)sizeof block ? (size_t)size : sizeof block;
        ssize_t got = pread(descriptor, block, count, size - (off_t)count);
        if (got != (ssize_t)count)
            return -1;
        const char *newline = memrchr(block, '\n', count);
        if (newline) {
            *end = size - (off_t)count + (newline - block) + 1;
            return 0;
        }
        size -= (off_t)count;
    }
    *end = 0;
    return 0;
}

static int repair(struct metrics_file *file) {
    const struct appender *appender = &file->appender;
    off_t size = lseek(appender->descriptor, 0, SEEK_END), end = 0;
    if (size < 0 || end_of_lines(appender->descriptor, size, &end) < 0)
        return error_set("cannot read %s: %s", appender->path, strerror(errno));
    file->has_lines = end > 0;
    if (end == size)
        return 0;
    log_info("%s: removed %lld bytes of a line that an earlier run left unfinished", appender->path,
             (long long)(size - end));
    if (ftruncate(appender->descriptor, end) < 0)
        return error_set("cannot truncate the unfinished last line of %s: %s", appender->path, strerror(errno));
    return 0;
}

// A job submitted twice is detected by its log: the lock ends with the process that holds it. Without locks in the file
// system it is not detected.
static bool is_in_use(const struct appender *appender) {
    if (flock(appender->descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return false;
    log_warn("another process is writing to %s; if a second run uses this folder, lines and checkpoints mix: stop one, "
             "or give it another --save",
             appender->path);
    return true;
}

static bool is_metrics(const char *begin, size_t length) {
    static const char first[] = "{\"kind\":";
    size_t compared = length < sizeof first - 1 ? length : sizeof first - 1;
    return strncmp(begin, first, compared) == 0;
}

int metrics_file_check(const char *path) {
    return file_check_output(path, "a file of metrics", is_metrics);
}

int metrics_file_open(struct metrics_file *file, const char *path) {
    *file = (struct metrics_file){.appender = {.descriptor = -1}};
    // Lines are appended to it, and an unfinished one is cut off.
    TRY(metrics_file_check(path));
    TRY(file_make_parent(path));
    TRY(appender_open(&file->appender, path, "metrics", APPENDER_APPEND));
    if (!file->appender.is_regular || is_in_use(&file->appender) || repair(file) == 0)
        return 0;
    metrics_file_close(file);
    return -1;
}

void metrics_file_close(void *sink) {
    appender_close(&((struct metrics_file *)sink)->appender);
}

bool metrics_file_line(struct metrics_file *file, struct buffer *line) {
    buffer_append_byte(line, '\n');
    bool is_written = appender_write(&file->appender, line->data, line->length);
    buffer_free(line);
    return is_written;
}

void metrics_line_begin(struct json_writer *json, const char *kind, double wall_seconds, int64_t iteration) {
    json_begin_object(json);
    json_put_string(json, "kind", kind);
    json_put_double(json, "time", wall_seconds);
    json_put_int(json, "iteration", iteration);
}

static void write_losses(struct json_writer *json, const struct metrics_loss *losses, int count) {
    json_key(json, "losses");
    json_begin_object(json);
    for (int i = 0; i < count; i++)
        json_put_double(json, losses[i].name, losses[i].value);
    json_end_object(json);
}

// The caller's object inside ours, on one line: a line break can only be between the tokens of JSON.
static void write_config(struct json_writer *json, const char *config_json) {
    OWNED struct json *root = NULL;
    json_key(json, "config");
    if (!config_json || json_parse(&root, config_json, strlen(config_json), "config") < 0) {
        json_null(json);
        return;
    }
    for (const char *at = config_json; *at; at++)
        buffer_append_byte(json->out, *at == '\n' || *at == '\r' ? ' ' : *at);
    json->after_key = false;
}

static void key_string(struct json_writer *json, const char *key, const char *value) {
    if (value)
        json_put_string(json, key, value);
}

void metrics_file_run(void *sink, const struct metrics_start *start) {
    struct metrics_file *file = sink;
    if (start->iteration == 0 && file->has_lines)
        log_info(
            "note: %s has lines of an earlier run that this one does not resume; the new ones follow a line of kind "
            "\"run\"",
            file->appender.path);
    struct buffer line = {0};
    struct json_writer json = {.out = &line};
    metrics_line_begin(&json, "run", start->wall_seconds, start->iteration);
    key_string(&json, "program", "bevatron " BEVATRON_VERSION);
    key_string(&json, "version", BEVATRON_VERSION);
    key_string(&json, "host", start->host);
    if (start->process > 0) {
        json_put_int(&json, "pid", start->process);
        json_put_int(&json, "ranks", start->ranks);
    }
    if (start->tokens_per_sample > 0) {
        json_put_double(&json, "tokens_per_sample", start->tokens_per_sample);
        json_put_double(&json, "flops_per_token", start->flops_per_token);
    }
    file->peak_teraflops = start->peak_teraflops;
    if (start->peak_teraflops > 0)
        json_put_double(&json, "peak_teraflops", start->peak_teraflops);
    if (start->planned_seconds > 0)
        json_put_double(&json, "planned_ms", start->planned_seconds * 1e3);
    key_string(&json, "job", start->job);
    key_string(&json, "job_log", start->job_log);
    write_config(&json, start->config_json);
    json_end_object(&json);
    metrics_file_line(file, &line);
}

// Layers are members of an object, which readers show as curves. Most layers have no idle experts.
static void write_experts(struct json_writer *json, const struct metrics *m) {
    char layer[24];
    json_key(json, "expert_balance_of_layer");
    json_begin_object(json);
    for (int i = 0; i < m->expert_layer_count; i++) {
        snprintf(layer, sizeof layer, "%" PRId64, m->expert_layers[i].layer);
        json_put_double(json, layer, m->expert_layers[i].balance);
    }
    json_end_object(json);
    if (m->idle_experts == 0)
        return;
    json_key(json, "idle_experts_of_layer");
    json_begin_object(json);
    for (int i = 0; i < m->expert_layer_count; i++) {
        snprintf(layer, sizeof layer, "%" PRId64, m->expert_layers[i].layer);
        if (m->expert_layers[i].idle > 0)
            json_put_int(json, layer, m->expert_layers[i].idle);
    }
    json_end_object(json);
}

void metrics_file_train(void *sink, const struct metrics *m) {
    struct metrics_file *file = sink;
    struct buffer line = {0};
    struct json_writer json = {.out = &line};
    metrics_line_begin(&json, "train", m->wall_seconds, m->iteration);
    for (const struct metric_field *field = metric_fields; field->key; field++)
        if (field->type == METRIC_LOSSES)
            write_losses(&json, m->losses, m->loss_count);
        else if (field->type == METRIC_MFU && file->peak_teraflops > 0)
            json_put_double(&json, field->key, m->teraflops / file->peak_teraflops);
        else if (field->type == METRIC_COUNT && metric_is_there(field, m))
            json_put_int(&json, field->key, (int64_t)metric_value(field, m));
        else if (field->type == METRIC_REAL && metric_is_there(field, m))
            json_put_double(&json, field->key, metric_value(field, m));
    if (m->expert_layer_count > 0)
        write_experts(&json, m);
    json_end_object(&json);
    metrics_file_line(file, &line);
}

void metrics_file_eval(void *sink, const struct metrics_eval *eval) {
    struct buffer line = {0};
    struct json_writer json = {.out = &line};
    metrics_line_begin(&json, "eval", eval->wall_seconds, eval->iteration);
    json_put_int(&json, "consumed_samples", eval->consumed_samples);
    json_put_string(&json, "set", eval->set);
    json_put_bool(&json, "final", eval->is_final);
    write_losses(&json, eval->losses, eval->loss_count);
    json_put_double(&json, "elapsed_ms", eval->elapsed_ms);
    json_end_object(&json);
    metrics_file_line(sink, &line);
}

static void compose_event(struct buffer *line, const struct metrics_event *event) {
    struct json_writer json = {.out = line};
    metrics_line_begin(&json, "event", clock_wall_seconds(), event->iteration);
    key_string(&json, "event", event->name);
    key_string(&json, "text", event->text);
    if (metrics_event_is_end(event->name))
        json_put_int(&json, "exit_code", event->exit_code);
    json_end_object(&json);
}

void metrics_file_event(void *sink, const struct metrics_event *event) {
    struct buffer line = {0};
    compose_event(&line, event);
    metrics_file_line(sink, &line);
}

static bool is_end_line(const char *line, size_t length, double since) {
    OWNED struct json *root = NULL;
    const char *kind, *name;
    double time;
    return json_parse(&root, line, length, "a line") == 0 && json_get_string(root, "kind", &kind) == 0 &&
           strcmp(kind, "event") == 0 && json_get_string(root, "event", &name) == 0 && metrics_event_is_end(name) &&
           json_get_double(root, "time", &time) == 0 && time >= since;
}

bool metrics_file_has_end(const char *path, double since_wall_seconds) {
    // A run writes few lines after its end.
    enum { TAIL_BYTES = 1 << 16 };
    struct error_note *note = error_take();
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    off_t size = descriptor < 0 ? -1 : lseek(descriptor, 0, SEEK_END);
    OWNED char *tail = size > 0 ? memory_alloc(TAIL_BYTES) : NULL;
    ssize_t length = tail ? pread(descriptor, tail, TAIL_BYTES, size > TAIL_BYTES ? size - TAIL_BYTES : 0) : 0;
    bool has_end = false;
    const char *at = tail, *newline;
    while (length > 0 && !has_end && (newline = memchr(at, '\n', (size_t)length))) {
        has_end = is_end_line(at, (size_t)(newline - at), since_wall_seconds);
        length -= newline + 1 - at;
        at = newline + 1;
    }
    if (descriptor >= 0)
        close(descriptor);
    error_clear();
    if (note)
        (void)error_give(note);
    return has_end;
}

// The time of an iteration in a line of training, else 0.
static double step_of_line(const char *line, size_t length) {
    OWNED struct json *root = NULL;
    const char *kind;
    double milliseconds = 0;
    bool is_train = json_parse(&root, line, length, "a line") == 0 && json_get_string(root, "kind", &kind) == 0 &&
                    strcmp(kind, "train") == 0 && json_get_double(root, "elapsed_ms", &milliseconds) == 0;
    return is_train ? milliseconds : 0;
}

double metrics_file_last_step(const char *path) {
    struct file_map map;
    double milliseconds = 0;
    if (file_map_open(&map, path) < 0 || map.size == 0) {
        error_clear();
        return 0;
    }
    const char *begin = (const char *)map.data, *end = memrchr(begin, '\n', map.size);
    while (end && milliseconds == 0) {
        const char *before = memrchr(begin, '\n', (size_t)(end - begin));
        const char *line = before ? before + 1 : begin;
        milliseconds = step_of_line(line, (size_t)(end - line));
        end = before;
    }
    file_map_close(&map);
    error_clear();
    return milliseconds;
}

int metrics_file_add_event(const char *path, const struct metrics_event *event, bool may_create) {
    struct metrics_file file = {0};
    if (!may_create && !file_exists(path))
        return error_set("there is no %s", path);
    TRY(metrics_file_check(path));
    TRY(appender_open(&file.appender, path, "metrics", APPENDER_APPEND));
    struct buffer line = {0};
    compose_event(&line, event);
    bool is_written = metrics_file_line(&file, &line);
    metrics_file_close(&file);
    return is_written ? 0 : error_set("cannot write to %s", path);
}

void metrics_file_sample(void *sink, const struct metrics_sample *sample) {
    struct buffer line = {0};
    struct json_writer json = {.out = &line};
    metrics_line_begin(&json, "sample", sample->wall_seconds, sample->iteration);
    key_string(&json, "prompt", sample->prompt);
    key_string(&json, "text", sample->text);
    json_end_object(&json);
    metrics_file_line(sink, &line);
}
