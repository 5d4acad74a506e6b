// One value in, all sinks out. The live line stands on stderr below the log lines on stdout; if both are the same
// terminal it is taken away before a line is printed, and the next step draws it again.
#include "report/report.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/console.h"
#include "report/fairseq.h"
#include "report/live.h"
#include "report/metrics_file.h"
#include "report/plot.h"
#include <stdlib.h>
#include <string.h>

// Points kept for the plot. When they are all used, neighbours are averaged and each then stands for twice as many
// steps.
enum { MAX_POINTS = 4096 };

struct history {
    double x[MAX_POINTS], y[MAX_POINTS];
    size_t count;
    double sum_x, sum_y;  // of the steps gathered for the next point
    int64_t gathered, per_point;
};

struct report {
    FILE *console;
    bool has_metrics;
    struct metrics_file metrics;
    struct tensorboard *tensorboard;  // NULL for none
    int64_t tensorboard_interval;
    struct tensorboard_choice choice;
    bool has_live_line;
    struct live live;
    struct history history;
    bool is_fairseq;
    double opened;           // wall seconds
    int64_t last_iteration;  // of a line
};

int report_open(struct report **report, const struct report_options *options) {
    struct report *r = memory_alloc(sizeof *r);
    r->is_fairseq = options->is_fairseq;
    r->opened = clock_wall_seconds();
    r->last_iteration = options->first_iteration;
    *report = NULL;
    r->console = options->console;
    r->tensorboard_interval = options->tensorboard_interval > 0 ? options->tensorboard_interval : 1;
    r->choice = options->tensorboard;
    r->history.per_point = 1;
    int result = 0;
    if (options->metrics_path) {
        result = metrics_file_open(&r->metrics, options->metrics_path);
        r->has_metrics = result == 0;
    }
    if (result == 0 && options->tensorboard_folder)
        result = tensorboard_open(&r->tensorboard, options->tensorboard_folder);
    if (result < 0) {
        report_close(r);
        return -1;
    }
    bool has_work = options->first_iteration < options->train_iters;
    r->has_live_line = has_work && !options->no_live_line && live_open(&r->live, options->first_iteration);
    *report = r;
    return 0;
}

void report_close(struct report *report) {
    if (!report)
        return;
    if (report->has_live_line)
        live_hide();
    metrics_file_close(&report->metrics);
    tensorboard_close(report->tensorboard);
    free(report);
}

static void history_push(struct history *history, double x, double y) {
    if (history->count == MAX_POINTS) {
        for (size_t i = 0; i < MAX_POINTS / 2; i++) {
            history->x[i] = (history->x[2 * i] + history->x[2 * i + 1]) / 2;
            history->y[i] = (history->y[2 * i] + history->y[2 * i + 1]) / 2;
        }
        history->count = MAX_POINTS / 2;
        history->per_point *= 2;
    }
    history->sum_x += x;
    history->sum_y += y;
    if (++history->gathered < history->per_point)
        return;
    history->x[history->count] = history->sum_x / (double)history->gathered;
    history->y[history->count++] = history->sum_y / (double)history->gathered;
    history->sum_x = history->sum_y = 0;
    history->gathered = 0;
}

// A value as Python would print it, for the text tab that people compare with Megatron's.
static void append_value(struct buffer *out, const struct json *value) {
    switch (value->type) {
    case JSON_NULL:
        buffer_append_string(out, "None");
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        buffer_append_string(out, value->type == JSON_TRUE ? "True" : "False");
        break;
    case JSON_NUMBER:
    case JSON_STRING:
        buffer_append(out, value->string, value->length);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        buffer_append_byte(out, '[');
        for (size_t i = 0; i < value->count; i++) {
            if (i > 0)
                buffer_append_string(out, ", ");
            append_value(out, &value->items[i]);
        }
        buffer_append_byte(out, ']');
        break;
    }
}

static void write_arguments(struct tensorboard *board, int64_t iteration, const char *config_json) {
    struct json *root = NULL;
    if (json_parse(&root, config_json, strlen(config_json), "config") < 0)
        return;
    struct buffer text = {0};
    for (size_t i = 0; root->type == JSON_OBJECT && i < root->count; i++) {
        buffer_clear(&text);
        append_value(&text, &root->items[i]);
        tensorboard_text(board, root->keys[i].string, buffer_string(&text), iteration);
    }
    buffer_free(&text);
    json_free(root);
}

void report_run(struct report *report, int64_t iteration, const char *config_json) {
    if (!report)
        return;
    if (report->has_metrics)
        metrics_file_run(&report->metrics, clock_wall_seconds(), iteration, config_json);
    if (report->tensorboard && config_json) {
        write_arguments(report->tensorboard, iteration, config_json);
        tensorboard_flush(report->tensorboard);
    }
}

void report_step(struct report *report, const struct metrics *m) {
    if (!report)
        return;
    if (m->loss_count > 0)
        history_push(&report->history, (double)m->iteration, m->losses[0].value);
    if (report->has_live_line)
        live_update(&report->live, m);
    if (report->tensorboard && m->iteration % report->tensorboard_interval == 0) {
        tensorboard_train(report->tensorboard, m, &report->choice);
        tensorboard_flush(report->tensorboard);
    }
}

void report_print(struct report *report, const char *text) {
    if (!report || !report->console)
        return;
    if (report->has_live_line)
        live_hide();
    (void)fputs(text, report->console);
    // A closed pipe or a full disk behind stdout must not end the run; the stream is usable again once that is over.
    if (fflush(report->console) != 0)
        clearerr(report->console);
}

static void print_and_free(struct report *report, struct buffer *text) {
    report_print(report, buffer_string(text));
    buffer_free(text);
}

void report_interval(struct report *report, const struct metrics *m) {
    if (!report)
        return;
    struct buffer line = {0};
    struct fairseq_clock clock = {.train_wall = m->elapsed_ms / 1e3 * (double)(m->iteration - report->last_iteration),
                                  .wall = m->wall_seconds - report->opened};
    report->last_iteration = m->iteration;
    if (report->is_fairseq)
        fairseq_train(&line, m, &clock);
    else
        console_train(&line, m);
    print_and_free(report, &line);
    if (report->has_metrics)
        metrics_file_train(&report->metrics, m);
    if (report->tensorboard && report->choice.timers) {
        tensorboard_timers(report->tensorboard, m);
        tensorboard_flush(report->tensorboard);
    }
}

void report_eval(struct report *report, const struct metrics_eval *eval) {
    if (!report)
        return;
    struct buffer block = {0};
    (report->is_fairseq ? fairseq_eval : console_eval)(&block, eval);
    print_and_free(report, &block);
    if (report->has_metrics)
        metrics_file_eval(&report->metrics, eval);
    if (report->tensorboard) {
        tensorboard_eval(report->tensorboard, eval, &report->choice);
        tensorboard_flush(report->tensorboard);
    }
}

void report_plot_loss(struct report *report, FILE *out) {
    if (!report)
        return;
    if (report->has_live_line)
        live_hide();
    report_plot(out, report->history.x, report->history.y, report->history.count, "loss");
}
