// Writing metrics.jsonl. Each line is handed to the kernel in one write at the end of the file, so a kill can tear
// only the last line, and a torn last line has no newline: that is how it is known and cut off on the next start.
#include "report/metrics_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

// Offset behind the last newline of the first `size` bytes, found in blocks from the end.
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
    off_t size = lseek(file->descriptor, 0, SEEK_END), end = 0;
    if (size < 0 || end_of_lines(file->descriptor, size, &end) < 0)
        return error_set("cannot read %s: %s", file->path, strerror(errno));
    if (end == size)
        return 0;
    log_info("%s: cutting off %lld bytes of a line that an earlier run did not finish", file->path,
             (long long)(size - end));
    if (ftruncate(file->descriptor, end) < 0)
        return error_set("cannot cut off the unfinished last line of %s: %s", file->path, strerror(errno));
    return 0;
}

// A job that was submitted twice is noticed by its log: the lock goes with the process that holds it. File systems
// without locks notice nothing.
static bool is_in_use(const struct metrics_file *file) {
    if (flock(file->descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return false;
    log_warn(
        "another process writes to %s: is a second run going into the same folder? Their lines and checkpoints mix; "
        "stop one of them, or give it another --save",
        file->path);
    return true;
}

static bool is_metrics(const char *begin, size_t length) {
    static const char first[] = "{\"kind\":";
    size_t compared = length < sizeof first - 1 ? length : sizeof first - 1;
    return strncmp(begin, first, compared) == 0;
}

int metrics_file_open(struct metrics_file *file, const char *path) {
    *file = (struct metrics_file){.descriptor = -1, .path = memory_string(path)};
    char *parent = file_parent(path);
    // Lines are added to it, and an unfinished one is cut off.
    int result = file_check_output(path, "a file of metrics", is_metrics);
    if (result == 0)
        result = file_make_folders(parent);
    free(parent);
    if (result == 0) {
        file->descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (file->descriptor < 0)
            result =
                error_set("cannot open %s for writing: %s; name another with --metrics-file", path, strerror(errno));
        else if (!is_in_use(file))
            result = repair(file);
    }
    if (result < 0)
        metrics_file_close(file);
    return result;
}

void metrics_file_close(struct metrics_file *file) {
    // Descriptor 0 in a zeroed struct is not ours; an open file always has a path.
    if (file->path && file->descriptor >= 0)
        close(file->descriptor);
    free(file->path);
    *file = (struct metrics_file){.descriptor = -1};
}

static void write_line(struct metrics_file *file, struct buffer *line) {
    buffer_append_byte(line, '\n');
    size_t done = 0;
    while (!file->has_failed && done < line->length) {
        ssize_t count = write(file->descriptor, line->data + done, line->length - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            log_warn("cannot write to %s: %s; no more metrics are written there", file->path, strerror(errno));
            file->has_failed = true;
        } else {
            done += (size_t)count;
        }
    }
    buffer_free(line);
}

static void key_int(struct json_writer *json, const char *key, int64_t value) {
    json_key(json, key);
    json_int(json, value);
}

static void key_double(struct json_writer *json, const char *key, double value) {
    json_key(json, key);
    json_double(json, value);
}

static void begin_line(struct json_writer *json, const char *kind, double wall_seconds, int64_t iteration) {
    json_begin_object(json);
    json_key(json, "kind");
    json_cstring(json, kind);
    key_double(json, "time", wall_seconds);
    key_int(json, "iteration", iteration);
}

static void write_losses(struct json_writer *json, const struct metrics_loss *losses, int count) {
    json_key(json, "losses");
    json_begin_object(json);
    for (int i = 0; i < count; i++)
        key_double(json, losses[i].name, losses[i].value);
    json_end_object(json);
}

// The caller's object inside ours, on one line: a line break can stand only between the tokens of JSON.
static void write_config(struct json_writer *json, const char *config_json) {
    struct json *root = NULL;
    json_key(json, "config");
    if (!config_json || json_parse(&root, config_json, strlen(config_json), "config") < 0) {
        json_null(json);
        return;
    }
    json_free(root);
    for (const char *at = config_json; *at; at++)
        buffer_append_byte(json->out, *at == '\n' || *at == '\r' ? ' ' : *at);
    json->after_key = false;
}

void metrics_file_run(struct metrics_file *file, double wall_seconds, int64_t iteration, const char *config_json) {
    struct buffer line = {0};
    struct json_writer json = {.out = &line};
    begin_line(&json, "run", wall_seconds, iteration);
    json_key(&json, "program");
    json_cstring(&json, "bevatron " BEVATRON_VERSION);
    write_config(&json, config_json);
    json_end_object(&json);
    write_line(file, &line);
}

void metrics_file_train(struct metrics_file *file, const struct metrics *m) {
    struct buffer line = {0};
    struct json_writer json = {.out = &line};
    begin_line(&json, "train", m->wall_seconds, m->iteration);
    key_int(&json, "train_iters", m->train_iters);
    key_int(&json, "consumed_samples", m->consumed_samples);
    key_int(&json, "skipped_samples", m->skipped_samples);
    write_losses(&json, m->losses, m->loss_count);
    key_double(&json, "learning_rate", m->learning_rate);
    if (m->has_decoupled)
        key_double(&json, "decoupled_learning_rate", m->decoupled_learning_rate);
    key_int(&json, "global_batch_size", m->global_batch_size);
    key_double(&json, "elapsed_ms", m->elapsed_ms);
    key_double(&json, "tokens_per_second", m->tokens_per_second);
    if (m->has_throughput)
        key_double(&json, "teraflops", m->teraflops);
    key_double(&json, "loss_scale", m->loss_scale);
    if (m->has_grad_norm)
        key_double(&json, "grad_norm", m->grad_norm);
    if (m->has_num_zeros)
        key_double(&json, "num_zeros", m->num_zeros);
    if (m->has_params_norm)
        key_double(&json, "params_norm", m->params_norm);
    key_int(&json, "skipped_iterations", m->skipped_iterations);
    key_int(&json, "nan_iterations", m->nan_iterations);
    json_end_object(&json);
    write_line(file, &line);
}

void metrics_file_eval(struct metrics_file *file, const struct metrics_eval *eval) {
    struct buffer line = {0};
    struct json_writer json = {.out = &line};
    begin_line(&json, "eval", eval->wall_seconds, eval->iteration);
    key_int(&json, "consumed_samples", eval->consumed_samples);
    json_key(&json, "set");
    json_cstring(&json, eval->set);
    json_key(&json, "final");
    json_bool(&json, eval->is_final);
    write_losses(&json, eval->losses, eval->loss_count);
    key_double(&json, "elapsed_ms", eval->elapsed_ms);
    json_end_object(&json);
    write_line(file, &line);
}
