// Reads metrics.jsonl back into curves. The run may still be writing the file, may have been killed in a line, or may
// have resumed from an earlier iteration; each "run" line has its start's first iteration, and points beyond it are
// dropped.
#include "report/metrics_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A run has a few losses; more names than this are garbage and are skipped.
enum { MAX_CURVES = 64 };

void metrics_history_free(struct metrics_history *history) {
    for (size_t i = 0; i < history->count; i++) {
        free(history->curves[i].name);
        free(history->curves[i].x);
        free(history->curves[i].y);
    }
    free(history->curves);
    free(history->jobs);
    free(history->job_log);
    *history = (struct metrics_history){0};
}

static struct metrics_curve *curve_named(struct metrics_history *history, const char *name) {
    for (size_t i = 0; i < history->count; i++) {
        if (strcmp(history->curves[i].name, name) == 0)
            return &history->curves[i];
    }
    if (history->count == MAX_CURVES)
        return NULL;
    history->curves = memory_realloc(history->curves, (history->count + 1) * sizeof history->curves[0]);
    struct metrics_curve *curve = &history->curves[history->count++];
    *curve = (struct metrics_curve){.name = memory_string(name)};
    return curve;
}

// Drops points beyond x, so that the curve can continue from there.
static void curve_cut(struct metrics_curve *curve, double x) {
    while (curve->count > 0 && curve->x[curve->count - 1] > x)
        curve->count--;
}

static void curve_add(struct metrics_curve *curve, double x, double y) {
    curve_cut(curve, x - 0.5);
    if (curve->count == curve->capacity) {
        curve->capacity = curve->capacity ? curve->capacity * 2 : 256;
        curve->x = memory_realloc(curve->x, curve->capacity * sizeof curve->x[0]);
        curve->y = memory_realloc(curve->y, curve->capacity * sizeof curve->y[0]);
    }
    curve->x[curve->count] = x;
    curve->y[curve->count++] = y;
}

static int add_losses(struct metrics_history *history, const struct json *root, const char *suffix, int64_t iteration) {
    const struct json *losses = json_member(root, "losses");
    if (!losses || losses->type != JSON_OBJECT)
        return -1;
    for (size_t i = 0; i < losses->count; i++) {
        const struct json *value = &losses->items[i];
        if (value->type != JSON_NUMBER && value->type != JSON_NULL)
            return -1;
        char *name = memory_printf("%s%s", losses->keys[i].string, suffix);
        struct metrics_curve *curve = curve_named(history, name);
        free(name);
        if (curve)
            curve_add(curve, (double)iteration, value->type == JSON_NULL ? (double)NAN : value->number);
    }
    return 0;
}

static double number_or_zero(const struct json *root, const char *key) {
    const struct json *value = json_member(root, key);
    return value && value->type == JSON_NUMBER ? value->number : 0;
}

static int add_train(struct metrics_history *history, const struct json *root, int64_t iteration) {
    if (add_losses(history, root, "", iteration) < 0)
        return -1;
    double train_iters = number_or_zero(root, "train_iters");
    history->last_iteration = iteration;
    history->train_iters = train_iters >= 0 && train_iters < 0x1p62 ? (int64_t)train_iters : 0;
    history->last_wall_seconds = number_or_zero(root, "time");
    history->last_tokens_per_second = number_or_zero(root, "tokens_per_second");
    history->last_elapsed_ms = number_or_zero(root, "elapsed_ms");
    return 0;
}

static const char *text_or_null(const struct json *root, const char *key) {
    const struct json *value = json_member(root, key);
    return value && value->type == JSON_STRING ? value->string : NULL;
}

// A requeued job keeps its number, which is then not added again. Only the last numbers are useful.
static void add_job(struct metrics_history *history, const char *job, const char *log) {
    enum { LONGEST = 40, MOST = 200 };
    if (!job || !*job || strlen(job) > LONGEST)
        return;
    size_t length = history->jobs ? strlen(history->jobs) : 0, own = strlen(job);
    bool is_last = length >= own && strcmp(history->jobs + length - own, job) == 0 &&
                   (length == own || history->jobs[length - own - 1] == ' ');
    if (!is_last) {
        const char *before = history->jobs ? history->jobs : "";
        const char *cut = length > MOST ? strstr(before + length - MOST, ", ") : NULL;
        char *jobs = memory_printf("%s%s%s%s", cut ? "…" : "", cut ? cut : before, length ? ", " : "", job);
        free(history->jobs);
        history->jobs = jobs;
    }
    free(history->job_log);
    history->job_log = log ? memory_string(log) : NULL;
}

static int add_line(struct metrics_history *history, const struct json *root) {
    const char *kind = NULL, *set = NULL;
    int64_t iteration = 0;
    if (json_get_string(root, "kind", &kind) < 0)
        return -1;
    if (strcmp(kind, "train") != 0 && strcmp(kind, "eval") != 0 && strcmp(kind, "run") != 0 &&
        strcmp(kind, "event") != 0)
        return 0;
    if (json_get_int(root, "iteration", &iteration) < 0 || iteration < 0)
        return -1;
    if (strcmp(kind, "train") == 0)
        return add_train(history, root, iteration);
    // Every line has the run's iteration, also between intervals of the log.
    history->last_iteration = iteration;
    if (strcmp(kind, "eval") == 0) {
        if (json_get_string(root, "set", &set) < 0 || strlen(set) > 64)
            return -1;
        char *suffix = memory_printf(" %s", set);
        int result = add_losses(history, root, suffix, iteration);
        free(suffix);
        return result;
    }
    // Lines of other kinds have no curves.
    if (strcmp(kind, "run") != 0)
        return 0;
    for (size_t i = 0; i < history->count; i++)
        curve_cut(&history->curves[i], (double)iteration);
    add_job(history, text_or_null(root, "job"), text_or_null(root, "job_log"));
    return 0;
}

int metrics_history_read(struct metrics_history *history, const char *path) {
    *history = (struct metrics_history){0};
    struct file_map map;
    TRY(file_map_open(&map, path));
    if (map.size == 0)
        return 0;
    const char *at = (const char *)map.data, *end = at + map.size;
    // Text after the last newline is still being written, or was torn by a kill.
    const char *newline;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        struct json *root = NULL;
        if (json_parse(&root, at, (size_t)(newline - at), path) < 0 || add_line(history, root) < 0)
            history->bad_lines++;
        json_free(root);
        at = newline + 1;
    }
    file_map_close(&map);
    error_clear();
    return 0;
}
