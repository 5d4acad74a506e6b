// bevatron board --text: the loss curves of all runs below a folder, drawn in the terminal from their metrics.jsonl.
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "config/flag.h"
#include "report/metrics_file.h"
#include "report/plot.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 16 };

struct options {
    struct flag_given given;
    char *logdir;
    bool text;
    int64_t width, height;
};

#define OFFSET(member) offsetof(struct options, member)

static const struct flag rows[] = {
    {.name = "--logdir",
     .type = FLAG_STRING,
     .offset = OFFSET(logdir),
     .value_name = "DIR",
     .required = true,
     .help = "every metrics.jsonl in this folder and below is a run"},
    {.name = "--text", .type = FLAG_BOOL, .offset = OFFSET(text), .help = "draw in the terminal"},
    {.name = "--width",
     .type = FLAG_INT,
     .offset = OFFSET(width),
     .initial = "0",
     .minimum = 0,
     .maximum = 400,
     .help = "columns of a picture; 0 is the terminal's width, or 80"},
    {.name = "--height",
     .type = FLAG_INT,
     .offset = OFFSET(height),
     .initial = "16",
     .minimum = 6,
     .maximum = 100,
     .help = "lines of a picture"},
};

static bool is_metrics_name(const char *name) {
    static const char suffix[] = "metrics.jsonl";
    size_t length = strlen(name);
    return length >= sizeof suffix - 1 && strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

// Adds the metrics files below a folder. Links to folders are not followed: they could lead in circles.
static int find_runs(const char *folder, int depth, struct string_list *found) {
    DIR *stream = opendir(folder);
    if (!stream)
        return error_set("cannot list the folder %s: %s; check --logdir", folder, strerror(errno));
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(stream))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *path = file_join(folder, entry->d_name);
        struct stat status;
        bool is_there = lstat(path, &status) == 0;
        if (is_there && S_ISDIR(status.st_mode) && depth < MAX_DEPTH)
            result = find_runs(path, depth + 1, found);
        else if (is_there && !S_ISDIR(status.st_mode) && is_metrics_name(entry->d_name))
            string_list_add(found, path);
        free(path);
    }
    closedir(stream);
    return result;
}

static int compare_strings(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Last finite value of the first training curve, or of the first evaluation curve; NAN if there is none.
static double last_value(const struct metrics_history *history, bool is_validation) {
    for (size_t i = 0; i < history->count; i++) {
        const struct metrics_curve *curve = &history->curves[i];
        bool has_suffix = strstr(curve->name, " validation") != NULL || strstr(curve->name, " test") != NULL;
        for (size_t k = curve->count; has_suffix == is_validation && k-- > 0;) {
            if (isfinite(curve->y[k]))
                return curve->y[k];
        }
    }
    return (double)NAN;
}

static void print_summary(const char *path, const struct metrics_history *history) {
    char time[32] = "";
    if (history->last_wall_seconds > 0)
        clock_format(history->last_wall_seconds, time, sizeof time);
    time[strlen(time) > 19 ? 19 : strlen(time)] = '\0';
    printf("%s\n", path);
    printf("  iteration %" PRId64, history->last_iteration);
    if (history->train_iters > 0)
        printf(" of %" PRId64, history->train_iters);
    double loss = last_value(history, false), validation = last_value(history, true);
    if (isfinite(loss))
        printf(", loss %.4f", loss);
    if (isfinite(validation))
        printf(", validation %.4f", validation);
    if (history->last_tokens_per_second > 0)
        printf(", %.0f tokens/s", history->last_tokens_per_second);
    printf("%s%s\n", *time ? ", last line " : "", time);
    if (history->bad_lines > 0)
        printf("  %zu lines could not be understood\n", history->bad_lines);
}

static int show_run(const char *path, const struct options *options) {
    struct metrics_history history;
    TRY(metrics_history_read(&history, path));
    print_summary(path, &history);
    struct buffer text = {0};
    for (size_t i = 0; i < history.count; i++) {
        const struct metrics_curve *curve = &history.curves[i];
        struct plot plot = {.title = curve->name,
                            .x = curve->x,
                            .y = curve->y,
                            .count = curve->count,
                            .width = options->width > 0 ? (int)options->width : plot_terminal_width(stdout),
                            .height = (int)options->height};
        // A single evaluation is no curve; its value stands in the summary.
        if (curve->count < 2)
            continue;
        buffer_clear(&text);
        buffer_append_byte(&text, '\n');
        plot_draw(&text, &plot);
        fputs(buffer_string(&text), stdout);
    }
    printf("\n");
    buffer_free(&text);
    metrics_history_free(&history);
    return 0;
}

static int show_all(const struct options *options) {
    if (!options->text)
        return error_set_code(EXIT_CODE_USAGE, "the web board is not in this version; use board --text --logdir %s",
                              options->logdir);
    struct string_list found = {0};
    int result = find_runs(options->logdir, 0, &found);
    if (result == 0 && found.count == 0)
        result =
            error_set("there is no metrics.jsonl in %s or below; train writes one into its --save folder, or where "
                      "--metrics-file says",
                      options->logdir);
    if (found.count > 0)
        qsort(found.items, (size_t)found.count, sizeof found.items[0], compare_strings);
    for (int64_t i = 0; result == 0 && i < found.count; i++)
        result = show_run(found.items[i], options);
    string_list_free(&found);
    return result;
}

int cmd_board(int argc, char **argv) {
    const struct flag_table table = {.flags = rows, .count = sizeof rows / sizeof rows[0], .given = OFFSET(given)};
    const struct flag_command command = {
        .name = "board",
        .argument_flag = "--logdir",
        .summary = "Draws the loss curves of all runs below a folder.",
        .epilogue = "Example:\n  bevatron board --text --logdir runs\n",
        .tables = &table,
        .table_count = 1,
    };
    struct options options;
    int status = flags_parse(&command, &options, argc, argv);
    if (status == 0)
        status = show_all(&options);
    int exit_code = status < 0 ? command_failed() : EXIT_CODE_OK;
    flags_free(&command, &options);
    return exit_code;
}
