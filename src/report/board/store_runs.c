// The list of runs as JSON, and the log of one.
#include "report/board/internal.h"
#include "report/board/store.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Names of tags, those of losses first, as the most wanted.
static void write_tags(struct json_writer *w, const struct board_run *run) {
    json_key(w, "tags");
    json_begin_array(w);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < run->tag_count; i++) {
            const char *name = run->tags[i].name;
            bool is_loss = strcasestr(name, "loss") && !strcasestr(name, "scale");
            if (run->tags[i].kind == RUN_TAG_CURVE && is_loss == (pass == 0))
                json_cstring(w, name);
        }
    }
    json_end_array(w);
}

static void write_axes(struct json_writer *w, const struct board_run *run) {
    const bool has[BOARD_X_COUNT] = {true, true, run->summary.has_tokens, run->summary.has_flops};
    json_key(w, "x");
    json_begin_array(w);
    for (int i = 0; i < BOARD_X_COUNT; i++)
        if (has[i])
            json_cstring(w, board_x_names[i]);
    json_end_array(w);
}

static const char *why(const struct board_run *run, enum board_run_state state) {
    if (run->summary.why && state != RUN_LIVE)
        return run->summary.why;
    if (state == RUN_LOST && run->summary.updated > 0)
        return "no new lines for a long time, and no end recorded: the process may have been killed";
    return state == RUN_STOPPED && run->is_events ? "event files do not say how a run ended" : NULL;
}

// The iteration of a run of event files: that of its loss, since other tags may count samples or tokens.
static int64_t last_iteration(const struct board_run *run) {
    if (!run->is_events)
        return run->summary.iteration;
    int loss = run_loss_tag(run, false);
    int64_t last = 0;
    for (int i = 0; i < run->tag_count; i++) {
        if (run->tags[i].kind != RUN_TAG_CURVE || (loss >= 0 && i != loss) || strstr(run->tags[i].name, " vs "))
            continue;
        int64_t step = pyramid_last_step(&run->groups[run->tags[i].group].pyramid);
        last = step > last ? step : last;
    }
    return last;
}

static void write_progress(struct json_writer *w, const struct board_run *run, enum board_run_state state) {
    const struct run_summary *summary = &run->summary;
    int64_t iteration = last_iteration(run);
    double elapsed_ms = run_last_value(run, run_tag_named(run, "elapsed ms"));
    double left = (double)(summary->train_iters - iteration) * elapsed_ms / 1000;
    json_put_int(w, "iteration", iteration);
    json_put_int(w, "train_iters", summary->train_iters);
    json_put_double(w, "loss", run_last_value(run, run_loss_tag(run, false)));
    json_put_double(w, "validation", run_last_value(run, run_loss_tag(run, true)));
    json_put_double(w, "tokens_per_second", run_last_value(run, run_tag_named(run, "tokens per second")));
    json_put_double(w, "planned_tokens_per_second",
                    run_last_value(run, run_tag_named(run, "planned tokens per second")));
    json_put_double(w, "expert_balance", run_last_value(run, run_tag_named(run, "expert balance")));
    json_put_double(w, "mfu", run_last_value(run, run_tag_named(run, "mfu")));
    json_put_double(w, "eta_seconds", state == RUN_LIVE && summary->train_iters > 0 && left >= 0 ? left : (double)NAN);
}

// `run` is the known run of `found`, if any.
static void write_run(struct json_writer *w, const struct board_run *found, const struct board_run *run, double now) {
    const struct run_summary *summary = &run->summary;
    enum board_run_state state = run_state(run, now);
    json_begin_object(w);
    json_put_string(w, "id", run->id);
    json_put_string(w, "name", found->name);
    json_put_string(w, "folder", found->is_top ? "" : found->name);
    json_put_string(w, "title", found->title);
    json_put_string(w, "note", found->note);
    json_put_string(w, "kind", run->is_events ? "tensorboard" : "bevatron");
    json_put_string(w, "state", run_state_names[state]);
    json_put_string(w, "why", why(run, state));
    json_put_string(w, "host", summary->host);
    json_put_string(w, "job", summary->job);
    json_put_int(w, "ranks", summary->ranks);
    json_put_double(w, "started", summary->started);
    json_put_int(w, "restarts", summary->restarts);
    json_put_double(w, "updated", summary->updated);
    write_progress(w, run, state);
    write_tags(w, run);
    write_axes(w, run);
    json_end_object(w);
}

// A run and the position of its object in the text of all runs.
struct run_text {
    double updated;
    const char *name;
    size_t begin, end;
};

static int compare_runs(const void *a, const void *b) {
    const struct run_text *first = a, *second = b;
    if (first->updated != second->updated)
        return first->updated < second->updated ? 1 : -1;
    return strcmp(first->name, second->name);
}

static void write_scanning(struct json_writer *w, struct board_run **runs, size_t count) {
    uint64_t total = 0, done = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t own = runs[i]->total_bytes, read = runs[i]->done_bytes;
        total += own;
        done += read < own ? read : own;
    }
    // A live run always has a few new lines; they deserve no progress bar.
    enum { LEAST_BYTES = 1 << 20 };
    json_key(w, "scanning");
    if (done + LEAST_BYTES > total) {
        json_null(w);
        return;
    }
    json_begin_object(w);
    json_put_int(w, "bytes_done", (int64_t)done);
    json_put_int(w, "bytes_total", (int64_t)total);
    json_end_object(w);
}

int board_store_runs(struct board_store *store, struct buffer *json) {
    int64_t revision = board_store_revision(store);
    size_t count;
    OWNED struct board_run **runs = store_runs(store, &count);
    OWNED struct run_text *texts = calloc(count + 1, sizeof texts[0]);
    OWNED_BY(buffer_free) struct buffer all = {0};
    double now = clock_wall_seconds();
    CHECK(texts != NULL);
    for (size_t i = 0; i < count; i++) {
        struct json_writer one = {.out = &all};
        run_lock(runs[i]);
        const struct board_run *shown = run_shown(runs[i]);
        texts[i] = (struct run_text){.updated = shown->summary.updated, .name = runs[i]->name, .begin = all.length};
        write_run(&one, runs[i], shown, now);
        run_unlock(runs[i]);
        texts[i].end = all.length;
    }
    qsort(texts, count, sizeof texts[0], compare_runs);
    struct json_writer w = {.out = json};
    json_begin_object(&w);
    json_put_double(&w, "now", now);
    json_put_int(&w, "revision", revision);
    write_scanning(&w, runs, count);
    json_put_string(&w, "logdir", store->logdir);
    json_key(&w, "runs");
    json_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        json_raw(&w, all.data + texts[i].begin, texts[i].end - texts[i].begin);
    json_end_array(&w);
    json_end_object(&w);
    return 0;
}

static bool has_log_name(const char *path) {
    static const char *const suffixes[] = {".log", ".out", ".err", ".txt"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcmp(dot, suffixes[i]) == 0)
            return true;
    return false;
}

// Opens the log named in a metrics file.
static int open_log(const struct board_run *run, const char *path) {
    return path[0] == '/' && has_log_name(path) && !strstr(path, "/../") ? run_open_beside(run, path) : -1;
}

// The last bytes of a file, from the beginning of a line unless that is too far back.
static void read_tail(int descriptor, struct buffer *tail) {
    enum { TAIL_BYTES = 256 << 10 };
    struct stat status;
    if (fstat(descriptor, &status) < 0)
        return;
    off_t begin = status.st_size > TAIL_BYTES ? status.st_size - TAIL_BYTES : 0;
    (void)run_read_at(descriptor, (uint64_t)begin, TAIL_BYTES, tail);
    const char *newline = begin > 0 ? memchr(tail->data, '\n', tail->length) : NULL;
    if (newline) {
        size_t cut = (size_t)(newline + 1 - tail->data);
        memmove(tail->data, tail->data + cut, tail->length - cut);
        tail->length -= cut;
    }
}

static void write_lines(struct json_writer *w, const struct buffer *tail, int lines) {
    const char *end = tail->data + tail->length, *begin = end;
    if (tail->length > 0 && end[-1] == '\n')
        begin = --end;
    for (int found = 0; tail->length > 0 && begin > tail->data; begin--)
        if (begin[-1] == '\n' && ++found == lines)
            break;
    while (tail->length > 0 && begin <= end) {
        const char *newline = memchr(begin, '\n', (size_t)(end - begin));
        const char *stop = newline ? newline : end;
        json_string(w, begin, (size_t)(stop - begin));
        begin = stop + 1;
    }
}

int board_store_log(struct board_store *store, const char *id, int lines, struct buffer *json) {
    enum { MOST_LINES = 1000 };
    struct board_run *run = store_find(store, id);
    if (!run)
        return -1;
    lines = lines < 1 ? 1 : lines > MOST_LINES ? MOST_LINES : lines;
    run_lock(run);
    OWNED char *path = run->summary.job_log ? strdup(run->summary.job_log) : NULL;
    run_unlock(run);
    int descriptor = path ? open_log(run, path) : -1;
    OWNED_BY(buffer_free) struct buffer tail = {0};
    if (descriptor >= 0) {
        read_tail(descriptor, &tail);
        close(descriptor);
    }
    struct json_writer w = {.out = json};
    json_begin_object(&w);
    json_put_string(&w, "path", descriptor >= 0 ? path : NULL);
    json_key(&w, "lines");
    json_begin_array(&w);
    if (tail.length > 0)
        write_lines(&w, &tail, lines);
    json_end_array(&w);
    json_end_object(&w);
    return 0;
}
