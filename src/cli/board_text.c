// Runs and their curves in the terminal. See board_text.h. Names and texts come from files that may be hostile: control
// characters do not reach the terminal.
#include "cli/board_text.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/checkpoint.h"
#include "report/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const struct json *object, const char *key) {
    const struct json *value = json_member(object, key);
    return value && value->type == JSON_STRING && value->length > 0 ? value->string : NULL;
}

static double number_of(const struct json *object, const char *key) {
    const struct json *value = json_member(object, key);
    return value && value->type == JSON_NUMBER ? value->number : (double)NAN;
}

static size_t count_of(const struct json *list) {
    return list && list->type == JSON_ARRAY ? list->count : 0;
}

static void print_plain(const char *before, const char *text) {
    char *plain = checkpoint_printable(text);
    printf("%s%s", before, plain);
    free(plain);
}

// The user's note about the run, line by line.
static void print_note(const char *note) {
    char *lines = memory_string(note), *rest = lines, *line;
    while (rest && (line = strsep(&rest, "\n"))) {
        print_plain("  ", line);
        printf("\n");
    }
    free(lines);
}

// "iteration 40 of 40, loss 3.1234, …"
static void print_progress(const struct json *run) {
    double train_iters = number_of(run, "train_iters"), loss = number_of(run, "loss"),
           updated = number_of(run, "updated");
    double validation = number_of(run, "validation"), speed = number_of(run, "tokens_per_second");
    double iteration = number_of(run, "iteration"), planned = number_of(run, "planned_tokens_per_second");
    double balance = number_of(run, "expert_balance");
    char time[32] = "";
    printf("  iteration %.0f", isfinite(iteration) ? iteration : 0);
    if (train_iters > 0)
        printf(" of %.0f", train_iters);
    if (isfinite(loss))
        printf(", loss %.4f", loss);
    if (isfinite(validation))
        printf(", validation %.4f", validation);
    if (balance > 0)
        printf(", expert balance %.2f", balance);
    if (speed > 0)
        printf(", %.0f tokens/s", speed);
    if (speed > 0 && planned > 0)
        printf(" (planned %.0f)", planned);
    if (updated > 0)
        clock_format(updated, time, sizeof time);
    time[strlen(time) > 19 ? 19 : strlen(time)] = '\0';
    printf("%s%s\n", *time ? ", last line " : "", time);
}

// "live, done in 2 h 5 min", "failed: the loss is nan …"
static void print_state(const struct json *run) {
    const char *state = text_of(run, "state"), *why = text_of(run, "why"), *host = text_of(run, "host");
    double left = number_of(run, "eta_seconds"), ranks = number_of(run, "ranks");
    if (!state)
        return;
    print_plain("  ", state);
    if (host)
        print_plain(" on ", host);
    if (ranks > 1)
        printf(", %.0f ranks", ranks);
    if (strcmp(state, "live") == 0 && left > 0 && left < 1e9)
        printf(", done in %.0f h %02d min", floor(left / 3600), (int)fmod(left / 60, 60));
    if (why)
        print_plain(": ", why);
    printf("\n");
}

// The numbers of the run's jobs, without repetitions; only the last ones of many.
static void print_jobs(const struct json *detail) {
    enum { MOST = 16 };
    const struct json *starts = json_member(detail, "starts");
    const char *jobs[MOST] = {NULL}, *log = text_of(detail, "log"), *last = NULL;
    size_t count = 0;
    for (size_t i = 0; i < count_of(starts); i++) {
        const char *job = text_of(&starts->items[i], "job");
        if (!job || (last && strcmp(job, last) == 0))
            continue;
        last = jobs[count++ % MOST] = job;
    }
    if (count == 0)
        return;
    printf("  Slurm job%s ", count > 1 ? "s" : "");
    for (size_t i = count > MOST ? count - MOST : 0, first = i; i < count; i++)
        print_plain(i > first ? ", " : first > 0 ? "…, " : "", jobs[i % MOST]);
    if (log)
        print_plain("; log ", log);
    printf("\n");
}

// Losses, and the balance of experts over all layers; event files write it with a hyphen.
static bool is_drawn(const char *tag) {
    return (strstr(tag, "loss") && !strstr(tag, "scale") && !strstr(tag, " vs ") && !strstr(tag, "ppl")) ||
           strcmp(tag, "expert balance") == 0 || strcmp(tag, "expert-balance") == 0;
}

// A point of one value shows that; a point of several shows the lowest and the highest.
static size_t read_points(const struct json *points, double *x, double *y) {
    size_t count = 0;
    for (size_t i = 0; i < count_of(points); i++) {
        const struct json *point = &points->items[i];
        if (count_of(point) < 4 || point->items[0].type != JSON_NUMBER)
            continue;
        for (size_t k = 2; k < 4; k++) {
            bool has_value = point->items[k].type == JSON_NUMBER;
            if (has_value && k == 3 && point->items[2].number == point->items[3].number)
                continue;
            x[count] = point->items[0].number;
            y[count++] = has_value ? point->items[k].number : (double)NAN;
        }
    }
    return count;
}

static void draw_curve(const struct json *curve, const struct board_text_options *options) {
    const struct json *points = json_member(curve, "points");
    const char *tag = text_of(curve, "tag");
    // A single evaluation is no curve; the summary shows its value.
    if (!tag || count_of(points) < 2)
        return;
    double *x = memory_alloc(2 * points->count * sizeof *x), *y = memory_alloc(2 * points->count * sizeof *y);
    char *title = checkpoint_printable(tag);
    struct plot plot = {.title = title,
                        .x = x,
                        .y = y,
                        .width = options->width > 0 ? options->width : plot_terminal_width(stdout),
                        .height = options->height};
    struct buffer text = {0};
    plot.count = read_points(points, x, y);
    buffer_append_byte(&text, '\n');
    plot_draw(&text, &plot);
    fputs(buffer_string(&text), stdout);
    buffer_free(&text);
    free(title);
    free(x);
    free(y);
}

static int draw_curves(struct board_store *store, const struct json *run, const struct board_text_options *options) {
    const struct json *tags = json_member(run, "tags");
    const char *id = text_of(run, "id");
    struct buffer text = {0};
    struct json *root = NULL;
    int status = 0;
    for (size_t i = 0; status == 0 && i < count_of(tags); i++) {
        if (tags->items[i].type != JSON_STRING || !is_drawn(tags->items[i].string))
            continue;
        struct curve_query query = {.ids = &id, .id_count = 1, .tags = &tags->items[i].string, .tag_count = 1};
        buffer_clear(&text);
        status = board_store_curves(store, &query, &text);
        if (status == 0)
            status = json_parse(&root, buffer_string(&text), text.length, "curves");
        const struct json *curves = status == 0 ? json_member(root, "curves") : NULL;
        for (size_t k = 0; k < count_of(curves); k++)
            draw_curve(&curves->items[k], options);
        json_free(root);
        root = NULL;
    }
    buffer_free(&text);
    return status;
}

static int print_run(struct board_store *store, const struct json *run, const struct board_text_options *options) {
    const char *id = text_of(run, "id"), *below = text_of(run, "folder"), *title = text_of(run, "title"),
               *note = text_of(run, "note");
    struct buffer text = {0};
    struct json *detail = NULL;
    TRY(board_store_run(store, id ? id : "", &text));
    int status = json_parse(&detail, buffer_string(&text), text.length, "run");
    buffer_free(&text);
    TRY(status);
    char *path = below ? file_join(options->logdir, below) : memory_string(options->logdir);
    print_plain("", path);
    if (title)
        print_plain(": ", title);
    printf("\n");
    print_note(note);
    free(path);
    print_progress(run);
    print_state(run);
    print_jobs(detail);
    double bad_lines = number_of(detail, "bad_lines");
    if (bad_lines > 0)
        printf("  %.0f lines could not be parsed\n", bad_lines);
    json_free(detail);
    status = draw_curves(store, run, options);
    printf("\n");
    return status;
}

static int compare_names(const void *a, const void *b) {
    const char *left = text_of(*(const struct json *const *)a, "name"),
               *right = text_of(*(const struct json *const *)b, "name");
    return strcmp(left ? left : "", right ? right : "");
}

int board_text(struct board_store *store, const struct board_text_options *options) {
    struct buffer text = {0};
    struct json *root = NULL;
    TRY(board_store_runs(store, &text));
    int status = json_parse(&root, buffer_string(&text), text.length, "runs");
    buffer_free(&text);
    TRY(status);
    const struct json *runs = json_member(root, "runs");
    size_t count = count_of(runs);
    const struct json **sorted = memory_alloc((count + 1) * sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &runs->items[i];
    qsort(sorted, count, sizeof sorted[0], compare_names);
    for (size_t i = 0; status == 0 && i < count; i++)
        status = print_run(store, sorted[i], options);
    free(sorted);
    json_free(root);
    return status;
}
