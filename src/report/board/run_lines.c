// Adds lines of metrics.jsonl to a run: values to its pyramids, marks for other lines, and the summary. A line at an
// earlier iteration replaces it and all that follows: a resumed run writes such lines.
#include "report/board/run.h"

#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Position of one line.
struct line_bytes {
    uint32_t file;
    uint64_t begin;
    const char *text;
    size_t length;  // without the newline
};

static const char *text_of(const struct json *root, const char *key) {
    const struct json *value = json_member(root, key);
    return value && value->type == JSON_STRING && strlen(value->string) == value->length ? value->string : NULL;
}

static double number_of(const struct json *root, const char *key) {
    const struct json *value = json_member(root, key);
    return value && value->type == JSON_NUMBER && value->number > 0 && isfinite(value->number) ? value->number : 0;
}

static int64_t count_of(const struct json *root, const char *key) {
    double number = number_of(root, key);
    return number < 0x1p53 ? (int64_t)number : 0;
}

// A position on every axis. Tokens and FLOPs grow with the samples since the last "train" line, because a resumed run
// may have longer samples or another model.
static void set_work(const struct board_run *run, double samples, struct pyramid_place *place) {
    const struct pyramid *train = &run->groups[0].pyramid;
    const struct run_summary *summary = &run->summary;
    struct pyramid_place before = {0};
    if (train->count > 0)
        before = train->bins[train->count - 1].last;
    if (samples < 0)
        samples = before.samples;
    place->samples = samples;
    double tokens = (samples - before.samples) * summary->tokens_per_sample;
    double flops = tokens * summary->flops_per_token;
    place->tokens = before.tokens + (isfinite(tokens) ? tokens : 0);
    place->flops = before.flops + (isfinite(flops) ? flops : 0);
}

static void add_values(struct board_run *run, enum board_line_kind kind, const struct line_bytes *line) {
    const struct board_line_row *row = &run->row;
    if (row->count == 0)
        return;
    int group = kind == LINE_TRAIN ? 0 : run->tags[row->values[0].tag].group;
    struct pyramid *pyramid = &run->groups[group].pyramid;
    if (row->iteration <= pyramid_last_step(pyramid))
        run_cut(run, group, row->iteration - 1);
    struct pyramid_place place = {.step = row->iteration,
                                  .time = row->time,
                                  .begin = line->begin,
                                  .end = line->begin + line->length + 1,
                                  .file = line->file};
    set_work(run, row->samples, &place);
    run->summary.has_tokens = run->summary.has_tokens || place.tokens > 0;
    run->summary.has_flops = run->summary.has_flops || place.flops > 0;
    pyramid_add(pyramid, &place);
    for (int i = 0; i < row->count; i++) {
        const struct run_tag *tag = &run->tags[row->values[i].tag];
        if (tag->group == group)
            pyramid_value(pyramid, tag->column, row->values[i].value);
    }
}

static void note_train(struct board_run *run) {
    struct run_summary *summary = &run->summary;
    const struct board_line_row *row = &run->row;
    summary->iteration = row->iteration;
    if (row->train_iters > 0)
        summary->train_iters = row->train_iters;
    double distance = row->time - summary->updated;
    if (row->time > 0 && summary->updated > 0 && distance >= 0)
        summary->distance = summary->distance > 0 ? 0.9 * summary->distance + 0.1 * distance : distance;
}

static void note_start(struct board_run *run, const struct json *root) {
    struct run_summary *summary = &run->summary;
    const char *version = text_of(root, "version"), *program = text_of(root, "program");
    const struct json *config = json_member(root, "config");
    run_set_string(&summary->host, text_of(root, "host"));
    run_set_string(&summary->job, text_of(root, "job"));
    run_set_string(&summary->job_log, text_of(root, "job_log"));
    run_set_string(&summary->version, version ? version : program);
    run_set_string(&summary->why, NULL);
    summary->ranks = count_of(root, "ranks");
    summary->pid = count_of(root, "pid");
    // A start at iteration 0 is a new run, even in the folder of another one.
    bool is_first = run->row.iteration == 0 || summary->started <= 0;
    summary->restarts = is_first ? 0 : summary->restarts + 1;
    summary->started = is_first ? run->row.time : summary->started;
    summary->iteration = run->row.iteration;
    summary->end = RUN_END_NONE;
    summary->distance = 0;
    double tokens = number_of(root, "tokens_per_sample");
    summary->tokens_per_sample = tokens > 0 ? tokens : number_of(config, "seq_length");
    summary->flops_per_token = number_of(root, "flops_per_token");
    if (count_of(config, "train_iters") > 0)
        summary->train_iters = count_of(config, "train_iters");
    for (int i = 0; i < run->group_count; i++)
        run_cut(run, i, run->row.iteration);
    run_cut_marks(run, run->row.iteration);
}

static void note_event(struct board_run *run, const struct json *root) {
    static const struct {
        const char *name;
        enum run_end end;
    } ends[] = {{"finished", RUN_END_FINISHED}, {"stopped", RUN_END_STOPPED}, {"failed", RUN_END_FAILED}};
    const char *event = text_of(root, "event");
    for (size_t i = 0; event && i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(ends[i].name, event) != 0)
            continue;
        run->summary.end = ends[i].end;
        run_set_string(&run->summary.why, text_of(root, "text"));
    }
}

static void add_mark(struct board_run *run, enum run_mark_kind kind, const struct line_bytes *line) {
    struct run_mark mark = {.begin = line->begin,
                            .bytes = (uint32_t)line->length,
                            .file = line->file,
                            .step = run->row.iteration,
                            .time = run->row.time};
    run_add_mark(run, kind, &mark);
}

static void add_line(struct board_run *run, enum board_line_kind kind, const struct json *root,
                     const struct line_bytes *line) {
    switch (kind) {
    case LINE_BAD:
        run->bad_lines++;
        return;
    case LINE_TRAIN:
        note_train(run);
        add_values(run, kind, line);
        break;
    case LINE_EVAL:
        add_values(run, kind, line);
        break;
    case LINE_RUN:
        note_start(run, root);
        add_mark(run, RUN_MARK_START, line);
        break;
    case LINE_EVENT:
        note_event(run, root);
        add_mark(run, RUN_MARK_EVENT, line);
        break;
    case LINE_RANKS:
        add_mark(run, RUN_MARK_RANKS, line);
        break;
    case LINE_SAMPLE:
        add_mark(run, RUN_MARK_SAMPLE, line);
        break;
    case LINE_UNKNOWN:
        return;
    }
    if (run->row.time > 0)
        run->summary.updated = run->row.time;
}

// A line that needs the slow path.
static void add_other(struct board_run *run, const struct line_bytes *line) {
    OWNED struct json *root = NULL;
    enum board_line_kind kind = line_read_head(line->text, line->length, &run->row);
    if (kind == LINE_UNKNOWN) {
        kind = LINE_BAD;
        if (json_parse(&root, line->text, line->length, "line") == 0)
            kind = line_read_tree(&run->lines, root, &run->row);
    }
    add_line(run, kind, root, line);
    error_clear();
}

size_t run_read_lines(struct board_run *run, int file, const char *bytes, size_t size) {
    const char *last = memrchr(bytes, '\n', size), *at = bytes;
    if (!last)
        return 0;
    const char *end = last + 1;
    struct line_bytes line = {.file = (uint32_t)file};
    while (at < end) {
        const char *next = line_read_fast(&run->lines, at, end, &run->row);
        bool is_fast = next != NULL;
        if (!next)
            next = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
        line.text = at;
        line.length = (size_t)(next - at - 1);
        line.begin = run->files[file].offset + (uint64_t)(at - bytes);
        if (is_fast)
            add_line(run, LINE_TRAIN, NULL, &line);
        else
            add_other(run, &line);
        run->line_count++;
        at = next;
    }
    return (size_t)(end - bytes);
}

// Between the ends of two bins tokens and FLOPs grow with the samples.
static void set_work_again(const struct run_again *again, double samples, struct pyramid_place *place) {
    struct pyramid_place before = {0}, after = again->bin->last;
    if (again->before)
        before = *again->before;
    double span = after.samples - before.samples;
    double share = span > 0 && samples >= 0 ? (samples - before.samples) / span : 1;
    place->samples = samples >= 0 ? samples : after.samples;
    place->tokens = before.tokens + share * (after.tokens - before.tokens);
    place->flops = before.flops + share * (after.flops - before.flops);
}

static void add_again(const struct board_run *run, const struct run_again *again, const struct board_line_row *row,
                      const struct line_bytes *line) {
    if (row->count == 0 || run->tags[row->values[0].tag].group != again->group ||
        row->iteration < again->bin->first_step || row->iteration > again->last_step)
        return;
    struct pyramid_bin torn;
    if (row->iteration <= pyramid_last_step(again->into))
        (void)pyramid_cut(again->into, row->iteration - 1, &torn);
    struct pyramid_place place = {.step = row->iteration,
                                  .time = row->time,
                                  .begin = line->begin,
                                  .end = line->begin + line->length + 1,
                                  .file = line->file};
    set_work_again(again, row->samples, &place);
    pyramid_add(again->into, &place);
    for (int i = 0; i < row->count; i++) {
        int column = again->column_of[row->values[i].tag];
        if (column >= 0)
            pyramid_value(again->into, column, row->values[i].value);
    }
}

// The tag of this name if the run has it. Code that reads lines again keeps pointers to its groups, so none may be
// added, even if the lines have been overwritten.
static int find_known_tag(void *owner, const char *name, const char *set) {
    const struct board_run *run = owner;
    char whole[RUN_MOST_TAG_BYTES + 100];
    snprintf(whole, sizeof whole, "%s%s%s", name, set ? " " : "", set ? set : "");
    return run_tag_named(run, whole);
}

void run_lines_again(struct board_run *run, const struct run_again *again, const char *bytes, size_t size) {
    const char *at = bytes, *end = bytes + size;
    struct line_bytes line = {.file = again->bin->last.file};
    // Not the run's row, whose line may be the reason for reading these again.
    struct board_line_row row;
    struct board_line_reader reader = {.find_tag = find_known_tag, .owner = run};
    while (at < end) {
        enum board_line_kind kind = LINE_TRAIN;
        const char *next = line_read_fast(&reader, at, end, &row);
        if (!next) {
            const char *newline = memchr(at, '\n', (size_t)(end - at));
            if (!newline)
                break;
            OWNED struct json *root = NULL;
            kind = LINE_BAD;
            if (json_parse(&root, at, (size_t)(newline - at), "line") == 0)
                kind = line_read_tree(&reader, root, &row);
            next = newline + 1;
        }
        line.length = (size_t)(next - at - 1);
        line.begin = again->bin->last.begin + (uint64_t)(at - bytes);
        struct pyramid_bin torn;
        if (kind == LINE_TRAIN || kind == LINE_EVAL)
            add_again(run, again, &row, &line);
        else if (kind == LINE_RUN)
            (void)pyramid_cut(again->into, row.iteration, &torn);
        at = next;
    }
    line_reader_free(&reader);
    error_clear();
}
