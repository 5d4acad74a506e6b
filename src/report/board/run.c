// Creates, resets and cuts the data of a run. See run.h.
#include "report/board/run.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- a first look at long files ----

// The list of runs while long files are still being read: a small run of the first and the last lines of the file
// replaces the real one. It may not know all starts.

enum { LEAST_BYTES = 4 << 20, END_BYTES = 64 << 10 };

// Parses the whole lines in `size` bytes of the file at `begin`.
static void read_part(struct board_run *peek, const struct board_run *run, uint64_t begin, bool is_first) {
    OWNED_BY(buffer_free) struct buffer bytes = {0};
    if (run_read_bytes(run, 0, begin, END_BYTES, &bytes) == 0) {
        const char *newline = is_first ? NULL : memchr(bytes.data, '\n', END_BYTES);
        size_t skipped = newline ? (size_t)(newline + 1 - bytes.data) : 0;
        peek->files[0].offset = begin + skipped;
        (void)run_read_lines(peek, 0, bytes.data + skipped, END_BYTES - skipped);
    }
}

void run_take_peek(struct board_run *run) {
    if (run->is_events || run->file_count != 1 || run->line_count > 0 || run->files[0].size < LEAST_BYTES)
        return;
    run_drop_peek(run);
    struct board_run *peek = run_new(run->path, run->name, false, PYRAMID_FEWEST_BINS);
    memcpy(peek->id, run->id, sizeof peek->id);
    run_add_file(peek, run->files[0].path);
    read_part(peek, run, 0, true);
    read_part(peek, run, run->files[0].size - END_BYTES, false);
    run->peek = peek;
}

void run_drop_peek(struct board_run *run) {
    if (run->peek)
        run_free(run->peek);
    run->peek = NULL;
}

const struct board_run *run_shown(const struct board_run *run) {
    return run->peek ? run->peek : run;
}

// ---- state ----

const char *const run_state_names[] = {[RUN_LIVE] = "live",
                                       [RUN_FINISHED] = "finished",
                                       [RUN_STOPPED] = "stopped",
                                       [RUN_FAILED] = "failed",
                                       [RUN_LOST] = "lost"};

enum board_run_state run_state(const struct board_run *run, double now) {
    const struct run_summary *summary = &run->summary;
    const double shortest = 60, times = 5;
    double patience = times * summary->distance > shortest ? times * summary->distance : shortest;
    switch (summary->end) {
    case RUN_END_FINISHED:
        return RUN_FINISHED;
    case RUN_END_STOPPED:
        return RUN_STOPPED;
    case RUN_END_FAILED:
        return RUN_FAILED;
    case RUN_END_NONE:
        break;
    }
    if (now - summary->updated < patience)
        return RUN_LIVE;
    // Event files do not say how a run ended, and earlier versions of ours did not either.
    if (run->is_events)
        return RUN_STOPPED;
    return summary->train_iters > 0 && summary->iteration >= summary->train_iters ? RUN_FINISHED : RUN_LOST;
}

// ---- a run ----

struct board_run *run_new(const char *path, const char *name, bool is_events, int bin_limit) {
    struct board_run *run = memory_alloc(sizeof *run);
    run->path = memory_string(path);
    run->name = memory_string(name);
    run->path_hash = hash_bytes(path, strlen(path), 0);
    run->is_events = is_events;
    run->bin_limit = bin_limit;
    run->lines.find_tag = run_find_tag;
    run->lines.owner = run;
    // Ids of runs are stable across versions of the program, so that links to the page are, too.
    snprintf(run->id, sizeof run->id, "%08x", crc32c(path, strlen(path)));
    pthread_mutex_init(&run->lock, NULL);
    run_clear(run);
    return run;
}

static void free_content(struct board_run *run) {
    for (int i = 0; i < run->tag_count; i++)
        free(run->tags[i].name);
    for (int i = 0; i < run->group_count; i++) {
        pyramid_free(&run->groups[i].pyramid);
        free(run->groups[i].set);
    }
    free(run->groups);
    for (int i = 0; i < RUN_MARK_KINDS; i++) {
        free(run->marks[i].items);
        run->marks[i] = (struct run_marks){0};
    }
    struct run_summary *summary = &run->summary;
    free(summary->host);
    free(summary->job);
    free(summary->job_log);
    free(summary->why);
    free(summary->version);
    *summary = (struct run_summary){0};
    line_reader_free(&run->lines);
    run_drop_peek(run);
    run->groups = NULL;
    run->tag_count = run->last_tag = run->group_count = 0;
}

void run_free(struct board_run *run) {
    free_content(run);
    for (int i = 0; i < run->file_count; i++)
        free(run->files[i].path);
    free(run->files);
    free(run->path);
    free(run->name);
    free(run->title);
    free(run->note);
    pthread_mutex_destroy(&run->lock);
    free(run);
}

void run_clear(struct board_run *run) {
    free_content(run);
    for (int i = 0; i < run->file_count; i++)
        run->files[i] = (struct run_file){.path = run->files[i].path};
    run->line_count = run->bad_lines = 0;
    run->refilled_bytes = run->cached_bytes = 0;
    run->done_bytes = run->curve_bytes = 0;
    if (!run->is_events)
        run_add_group(run, NULL);
}

void run_adopt(struct board_run *run, struct board_run *loaded) {
    free_content(run);
    struct run_file *files = run->files;
    int file_count = run->file_count;
    run->files = loaded->files;
    run->file_count = loaded->file_count;
    for (int i = 0; i < file_count; i++) {
        run_add_file(run, files[i].path);
        free(files[i].path);
    }
    free(files);
    memcpy(run->tags, loaded->tags, sizeof run->tags);
    memcpy(run->marks, loaded->marks, sizeof run->marks);
    run->tag_count = loaded->tag_count;
    run->groups = loaded->groups;
    run->group_count = loaded->group_count;
    run->summary = loaded->summary;
    run->line_count = loaded->line_count;
    run->bad_lines = loaded->bad_lines;
    run->refilled_bytes = loaded->refilled_bytes;
    run->cached_bytes = 0;
    for (int i = 0; i < run->file_count; i++)
        run->cached_bytes += run->files[i].offset;
    // `loaded` keeps nothing that is freed twice.
    memset(loaded->marks, 0, sizeof loaded->marks);
    loaded->files = NULL;
    loaded->groups = NULL;
    loaded->file_count = loaded->group_count = loaded->tag_count = 0;
    loaded->summary = (struct run_summary){0};
}

void run_lock(struct board_run *run) {
    run->waiting++;
    pthread_mutex_lock(&run->lock);
    run->waiting--;
}

void run_unlock(struct board_run *run) {
    pthread_mutex_unlock(&run->lock);
}

void run_add_file(struct board_run *run, const char *path) {
    for (int i = 0; i < run->file_count; i++)
        if (strcmp(run->files[i].path, path) == 0)
            return;
    if (run->file_count == RUN_MOST_FILES)
        return;
    size_t count = (size_t)run->file_count;
    run->files = memory_realloc(run->files, (count + 1) * sizeof run->files[0]);
    run->files[run->file_count++] = (struct run_file){.path = memory_string(path)};
}

int run_add_group(struct board_run *run, const char *set) {
    size_t count = (size_t)run->group_count;
    run->groups = memory_realloc(run->groups, (count + 1) * sizeof run->groups[0]);
    run->groups[count] = (struct run_group){.set = memory_string(set)};
    pyramid_init(&run->groups[count].pyramid, run->bin_limit);
    return run->group_count++;
}

int run_tag_named(const struct board_run *run, const char *name) {
    for (int i = 0; i < run->tag_count; i++)
        if (strcmp(run->tags[i].name, name) == 0)
            return i;
    return -1;
}

static int find_set(struct board_run *run, const char *set) {
    if (!set)
        return 0;
    for (int i = 1; i < run->group_count; i++)
        if (strcmp(run->groups[i].set, set) == 0)
            return i;
    return run->group_count <= RUN_MOST_SETS ? run_add_group(run, set) : -1;
}

int run_find_tag(void *owner, const char *name, const char *set) {
    struct board_run *run = owner;
    char whole[RUN_MOST_TAG_BYTES + 100];
    snprintf(whole, sizeof whole, "%s%s%s", name, set ? " " : "", set ? set : "");
    int group = find_set(run, set), tag = run_tag_named(run, whole);
    if (group < 0)
        return -1;
    if (tag >= 0)
        return run->tags[tag].group == group ? tag : -1;
    if (run->tag_count == LINE_MOST_VALUES)
        return -1;
    int column = pyramid_add_column(&run->groups[group].pyramid);
    if (column < 0)
        return -1;
    run->tags[run->tag_count] =
        (struct run_tag){.name = memory_string(whole), .kind = RUN_TAG_CURVE, .group = group, .column = column};
    return run->tag_count++;
}

// Number of marks kept per kind. Of texts the first ones, which are often the configuration, and the last ones; of all
// others the last.
static const struct {
    int most, first;
} mark_limits[RUN_MARK_KINDS] = {
    [RUN_MARK_START] = {500, 0}, [RUN_MARK_EVENT] = {2000, 0},   [RUN_MARK_SAMPLE] = {500, 0},
    [RUN_MARK_RANKS] = {200, 0}, [RUN_MARK_TEXT] = {1500, 1000},
};

void run_add_mark(struct board_run *run, enum run_mark_kind kind, const struct run_mark *mark) {
    enum { STEP = 64 };
    struct run_marks *marks = &run->marks[kind];
    int first = mark_limits[kind].first;
    if (marks->count == mark_limits[kind].most) {
        size_t moved = (size_t)(marks->count - first - 1);
        memmove(&marks->items[first], &marks->items[first + 1], moved * sizeof marks->items[0]);
        marks->count--;
    }
    if (marks->count % STEP == 0)
        marks->items = memory_realloc(marks->items, (size_t)(marks->count + STEP) * sizeof marks->items[0]);
    marks->items[marks->count++] = *mark;
}

void run_cut_marks(struct board_run *run, int64_t step) {
    static const enum run_mark_kind kinds[] = {RUN_MARK_SAMPLE, RUN_MARK_RANKS};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct run_marks *marks = &run->marks[kinds[i]];
        while (marks->count > 0 && marks->items[marks->count - 1].step > step)
            marks->count--;
    }
}

void run_count_curves(struct board_run *run) {
    uint64_t bytes = 0;
    for (int i = 0; i < run->group_count; i++)
        bytes += pyramid_bytes(&run->groups[i].pyramid);
    run->curve_bytes = bytes;
}

void run_shrink(struct board_run *run, int bin_limit) {
    run->bin_limit = bin_limit;
    for (int i = 0; i < run->group_count; i++)
        pyramid_shrink(&run->groups[i].pyramid, bin_limit);
    run_count_curves(run);
}

// Copies rows, each a bin of its own, to the end of a pyramid with the same columns.
static void append_rows(struct pyramid *pyramid, const struct pyramid *rows) {
    for (int i = 0; i < rows->count; i++) {
        pyramid_add(pyramid, &rows->bins[i].last);
        for (int column = 0; column < rows->column_count; column++) {
            const struct pyramid_cell *cell = &rows->columns[column][i];
            if (cell->count > 0 || isnan(cell->last))
                pyramid_value(pyramid, column, cell->count > 0 ? cell->sum : (double)NAN);
        }
    }
}

void run_cut(struct board_run *run, int group, int64_t step) {
    enum { FREE_BYTES = 64 << 20 };
    struct pyramid *pyramid = &run->groups[group].pyramid;
    struct pyramid_bin torn;
    if (!pyramid_cut(pyramid, step, &torn))
        return;
    // A file that keeps going back must not be read repeatedly without limit.
    uint64_t bytes = torn.last.end - torn.last.begin, read = 0;
    for (int i = 0; i < run->file_count; i++)
        read += run->files[i].offset;
    if (run->refilled_bytes + bytes > read + FREE_BYTES)
        return;
    run->refilled_bytes += bytes;
    int column_of[RUN_MOST_TAGS];
    for (int i = 0; i < run->tag_count; i++)
        column_of[i] = run->tags[i].group == group ? run->tags[i].column : -1;
    struct pyramid rows;
    pyramid_init(&rows, INT32_MAX);
    for (int i = 0; i < pyramid->column_count; i++)
        pyramid_add_column(&rows);
    const struct pyramid_place *before = pyramid->count > 0 ? &pyramid->bins[pyramid->count - 1].last : NULL;
    struct run_again again = {
        .group = group, .bin = &torn, .before = before, .last_step = step, .column_of = column_of, .into = &rows};
    if (run_read_again(run, &again) == 0)
        append_rows(pyramid, &rows);
    pyramid_free(&rows);
}

void run_set_string(char **string, const char *value) {
    enum { MOST_BYTES = 4096 };
    free(*string);
    *string = value ? memory_printf("%.*s", MOST_BYTES, value) : NULL;
}

double run_last_value(const struct board_run *run, int tag) {
    if (tag < 0 || run->tags[tag].kind != RUN_TAG_CURVE)
        return (double)NAN;
    const struct pyramid *pyramid = &run->groups[run->tags[tag].group].pyramid;
    const struct pyramid_cell *cells = pyramid->columns[run->tags[tag].column];
    for (int i = pyramid->count; i-- > 0;)
        if (cells[i].count > 0)
            return isnan(cells[i].last) ? cells[i].sum / cells[i].count : (double)cells[i].last;
    return (double)NAN;
}

// Common names of losses: "lm loss", "train/loss", "Loss/train", "loss/validation", "eval_loss".
int run_loss_tag(const struct board_run *run, bool is_validation) {
    for (int i = 0; i < run->tag_count; i++) {
        const char *name = run->tags[i].name;
        if (run->tags[i].kind != RUN_TAG_CURVE || !strcasestr(name, "loss") || strcasestr(name, "scale") ||
            strcasestr(name, " vs ") || strcasestr(name, " ppl"))
            continue;
        bool is_test = strcasestr(name, "test") != NULL;
        bool is_evaluation = strcasestr(name, "val") || strcasestr(name, "dev/");
        if (!is_test && is_evaluation == is_validation)
            return i;
    }
    return -1;
}
