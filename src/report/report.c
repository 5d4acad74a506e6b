// One value in, all sinks out. On a terminal the live view is below everything else, and lines are shorter.
#include "report/report.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/progress.h"
#include "base/thread.h"
#include "report/console.h"
#include "report/fairseq.h"
#include "report/live.h"
#include "report/metrics_file.h"
#include "report/plot.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Points kept for the plot. When they are full, neighbours are averaged and each then stands for twice as many steps.
enum { MAX_POINTS = 4096 };

struct loss_curve {
    double x[MAX_POINTS], y[MAX_POINTS];
    size_t count;
    double sum_x, sum_y;  // of the steps gathered for the next point
    int64_t gathered, per_point;
};

struct report {
    pthread_mutex_t lock;  // around every call: a thread that ends the process reports here, too
    struct report_options options;
    struct prometheus *prometheus;  // NULL for none
    struct wandb *wandb;            // NULL for none
    int64_t steps, skipped, nan;    // since the last line
    FILE *console;
    bool has_metrics;
    struct metrics_file metrics;
    struct tensorboard *tensorboard;  // NULL for none
    int64_t tensorboard_interval;
    struct tensorboard_choice choice;
    bool has_live_view;
    bool has_short_lines;  // on the terminal that shows the view
    struct live live;
    struct metrics shown;    // by the view
    pthread_t clock_thread;  // redraws the view between iterations
    bool has_clock, is_closing;
    pthread_cond_t closing;
    struct loss_curve history;
    bool is_fairseq;
    double opened;           // wall seconds when it was opened
    int64_t last_iteration;  // iteration of the last line
    int64_t lines;           // number of iteration lines so far
};

// An output that cannot be opened is left out. A full or read-only disk must not prevent training from restarting at
// night.
static void leave_out(const char *flag) {
    log_warn("%s; the run continues without it (%s)", error_message(), flag);
    error_clear();
}

static int open_files(struct report *report, const struct report_options *options) {
    if (options->metrics_path) {
        TRY(metrics_file_check(options->metrics_path));
        report->has_metrics = metrics_file_open(&report->metrics, options->metrics_path) == 0;
        if (!report->has_metrics)
            leave_out("--metrics-file");
    }
    if (options->tensorboard_folder && tensorboard_open(&report->tensorboard, options->tensorboard_folder) < 0)
        leave_out("--tensorboard-dir");
    struct wandb_options wandb = options->wandb;
    wandb.choice = options->tensorboard;
    if (wandb.project && wandb_open(&report->wandb, &wandb) < 0)
        leave_out("--wandb-save-dir");
    struct prometheus_options prometheus = options->prometheus;
    prometheus.job = options->job;
    prometheus.first_iteration = options->first_iteration;
    prometheus.train_iters = options->train_iters;
    prometheus.ranks = options->ranks;
    return prometheus_open(&report->prometheus, &prometheus);
}

static void say_how_to_watch(const char *metrics_path) {
    char *folder = file_parent(metrics_path);
    log_info("to watch this run: bevatron board --logdir %s", folder);
    free(folder);
}

static struct live_losses losses_of(const struct report *report) {
    return (struct live_losses){report->history.y, report->history.count};
}

// An iteration may take minutes, and the window may change in the meantime.
static void *redraw_view(void *argument) {
    struct report *report = argument;
    double next = clock_seconds();
    pthread_mutex_lock(&report->lock);
    while (!report->is_closing) {
        next++;
        while (!report->is_closing && clock_wait(NULL, &report->closing, &report->lock, next))
            continue;
        if (!report->is_closing)
            live_tick(&report->live, &report->shown, losses_of(report));
    }
    pthread_mutex_unlock(&report->lock);
    return NULL;
}

static void open_view(struct report *report, const struct report_options *options) {
    bool has_work = options->first_iteration < options->train_iters;
    report->has_live_view = has_work && !options->no_live_view && live_open(&report->live, options->first_iteration);
    if (!report->has_live_view)
        return;
    report->has_short_lines = !report->is_fairseq && report->console && isatty(fileno(report->console));
    report->live.peak_teraflops = options->peak_teraflops;
    report->live.memory_bytes = options->device_bytes;
    report->has_clock = thread_start(&report->clock_thread, redraw_view, report);
}

static void close_view(struct report *report) {
    pthread_mutex_lock(&report->lock);
    report->is_closing = true;
    pthread_cond_signal(&report->closing);
    pthread_mutex_unlock(&report->lock);
    if (report->has_clock)
        pthread_join(report->clock_thread, NULL);
    if (report->has_live_view)
        live_hide();
}

int report_open(struct report **report, const struct report_options *options) {
    struct report *r = memory_alloc(sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->closing, NULL);
    r->options = *options;
    r->is_fairseq = options->is_fairseq;
    r->opened = clock_wall_seconds();
    r->last_iteration = options->first_iteration;
    *report = NULL;
    r->console = options->console;
    r->tensorboard_interval = options->tensorboard_interval > 0 ? options->tensorboard_interval : 1;
    r->choice = options->tensorboard;
    r->history.per_point = 1;
    if (open_files(r, options) < 0) {
        report_close(r);
        return -1;
    }
    if (r->has_metrics)
        say_how_to_watch(options->metrics_path);
    open_view(r, options);
    *report = r;
    return 0;
}

void report_close(struct report *report) {
    if (!report)
        return;
    close_view(report);
    metrics_file_close(&report->metrics);
    tensorboard_close(report->tensorboard);
    wandb_close(report->wandb);
    prometheus_close(report->prometheus);
    pthread_cond_destroy(&report->closing);
    pthread_mutex_destroy(&report->lock);
    free(report);
}

static void history_push(struct loss_curve *history, double x, double y) {
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

// A value as Python would print it, for comparing the text tab with Megatron's.
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
    const struct report_options *options = &report->options;
    char host[256];
    process_host(host, sizeof host);
    pthread_mutex_lock(&report->lock);
    if (report->has_metrics)
        metrics_file_run(&report->metrics, &(struct metrics_start){.wall_seconds = clock_wall_seconds(),
                                                                   .iteration = iteration,
                                                                   .config_json = config_json,
                                                                   .job = options->job,
                                                                   .job_log = options->job_log,
                                                                   .host = host,
                                                                   .process = getpid(),
                                                                   .ranks = options->ranks,
                                                                   .tokens_per_sample = options->tokens_per_sample,
                                                                   .flops_per_token = options->flops_per_token,
                                                                   .peak_teraflops = options->peak_teraflops,
                                                                   .planned_seconds = options->planned_seconds});
    if (report->tensorboard && config_json) {
        write_arguments(report->tensorboard, iteration, config_json);
        tensorboard_flush(report->tensorboard);
    }
    if (report->wandb)
        wandb_run(report->wandb, iteration, config_json);
    pthread_mutex_unlock(&report->lock);
    char text[96];
    snprintf(text, sizeof text, "%s after iteration %" PRId64 " of %" PRId64, iteration > 0 ? "resumed" : "started",
             iteration, options->train_iters);
    on_event_tell(options->on_event, &(struct metrics_event){.name = "started", .iteration = iteration, .text = text});
}

static void print(struct report *report, const char *text) {
    if (!report->console)
        return;
    log_print(report->console, text);
}

static void print_and_free(struct report *report, struct buffer *text) {
    print(report, buffer_string(text));
    buffer_free(text);
}

// Call with the lock held.
static void tell(struct report *report, const struct metrics_event *event, bool is_known) {
    if (report->has_metrics && !is_known)
        metrics_file_event(&report->metrics, event);
    if (report->prometheus)
        prometheus_event(report->prometheus, event);
    if (report->wandb && metrics_event_is_end(event->name))
        wandb_end(report->wandb, event->exit_code);
    if (!is_known)
        on_event_tell(report->options.on_event, event);
    if (report->has_live_view && strcmp(event->name, "saved") == 0)
        live_saved(&report->live, event->iteration);
    if (report->has_short_lines && strcmp(event->name, "saved") == 0) {
        struct buffer line = {0};
        live_event_line(&line, &report->live, event);
        print_and_free(report, &line);
    }
    if (metrics_event_is_end(event->name))
        lifeline_told_end();
}

void report_event(struct report *report, const struct metrics_event *event) {
    if (!report)
        return;
    pthread_mutex_lock(&report->lock);
    tell(report, event, false);
    pthread_mutex_unlock(&report->lock);
}

void report_known_event(struct report *report, const struct metrics_event *event) {
    if (!report)
        return;
    pthread_mutex_lock(&report->lock);
    tell(report, event, true);
    pthread_mutex_unlock(&report->lock);
}

void report_line(struct report *report, struct buffer *line) {
    if (report)
        pthread_mutex_lock(&report->lock);
    if (report && report->has_metrics)
        metrics_file_line(&report->metrics, line);
    if (report)
        pthread_mutex_unlock(&report->lock);
    buffer_free(line);
}

static void count_step(struct report *report, const struct metrics *m) {
    bool is_nan = m->loss_count > 0 && !isfinite(m->losses[0].value);
    report->steps++;
    report->skipped += m->is_skipped;
    report->nan += is_nan;
    if (report->prometheus)
        prometheus_step(report->prometheus, m, is_nan);
}

void report_step(struct report *report, const struct metrics *m) {
    if (!report)
        return;
    pthread_mutex_lock(&report->lock);
    count_step(report, m);
    if (m->loss_count > 0)
        history_push(&report->history, (double)m->iteration, m->losses[0].value);
    if (report->has_live_view) {
        report->shown = *m;
        report->shown.expert_layers = NULL;
        live_update(&report->live, m, losses_of(report));
    }
    bool is_due = m->iteration % report->tensorboard_interval == 0;
    if (report->tensorboard && is_due) {
        tensorboard_train(report->tensorboard, m, &report->choice);
        tensorboard_flush(report->tensorboard);
    }
    if (report->wandb && is_due)
        wandb_train(report->wandb, m);
    pthread_mutex_unlock(&report->lock);
}

// Iterations without an update are reported once per line: fp16 has some at its start, and a run that accepts them may
// have many. Call with the lock held.
static void tell_skipped(struct report *report, const struct metrics *m) {
    char text[160];
    if (report->nan > 0) {
        snprintf(text, sizeof text, "the loss was not finite in %" PRId64 " of the last %" PRId64 " iterations",
                 report->nan, report->steps);
        tell(report, &(struct metrics_event){.name = "nan", .iteration = m->iteration, .text = text}, false);
    }
    if (report->skipped > 0) {
        snprintf(text, sizeof text,
                 "%" PRId64 " of the last %" PRId64 " iterations made no update: the gradient was not finite",
                 report->skipped, report->steps);
        tell(report, &(struct metrics_event){.name = "skipped", .iteration = m->iteration, .text = text}, false);
    }
    report->steps = report->skipped = report->nan = 0;
}

// Call with the lock held.
void report_print(struct report *report, const char *text) {
    if (!report)
        return;
    pthread_mutex_lock(&report->lock);
    print(report, text);
    pthread_mutex_unlock(&report->lock);
}

void report_print_long(struct report *report, const char *text) {
    if (report && !report->has_short_lines)
        report_print(report, text);
}

// For readers of a file: once the time of an iteration is known, and at each tenth of the run. Console lines stay those
// of Megatron.
static void tell_time_left(const struct report *report, const struct metrics *m, int64_t before) {
    const int parts = 10;
    int64_t left = m->train_iters - m->iteration;
    if (report->has_live_view || m->has_throughput || left <= 0 || report->lines < 2)
        return;
    if (report->lines > 2 && m->iteration * parts / m->train_iters == before * parts / m->train_iters)
        return;
    struct buffer time = {0};
    progress_append_duration(&time, (double)left * m->elapsed_ms / 1e3);
    log_info("> time left: about %s for %" PRId64 " iterations", buffer_string(&time), left);
    buffer_free(&time);
}

// Call with the lock held.
static void print_line(struct report *report, const struct metrics *m) {
    struct buffer line = {0};
    int64_t before = report->last_iteration;
    struct fairseq_clock clock = {.train_wall = m->elapsed_ms / 1e3 * (double)(m->iteration - report->last_iteration),
                                  .wall = m->wall_seconds - report->opened};
    report->last_iteration = m->iteration;
    if (report->is_fairseq)
        fairseq_train(&line, m, &clock);
    else if (report->has_short_lines)
        live_train_line(&line, &report->live, m);
    else
        console_train(&line, m);
    print_and_free(report, &line);
    report->lines++;
    tell_time_left(report, m, before);
    if (report->has_metrics)
        metrics_file_train(&report->metrics, m);
}

void report_interval(struct report *report, const struct metrics *m) {
    if (!report)
        return;
    pthread_mutex_lock(&report->lock);
    print_line(report, m);
    if (report->tensorboard && (report->choice.timers || m->expert_layer_count > 0)) {
        if (report->choice.timers)
            tensorboard_timers(report->tensorboard, m);
        tensorboard_experts(report->tensorboard, m);
        tensorboard_flush(report->tensorboard);
    }
    if (report->wandb)
        wandb_interval(report->wandb, m);
    if (report->prometheus)
        prometheus_train(report->prometheus, m);
    tell_skipped(report, m);
    pthread_mutex_unlock(&report->lock);
}

void report_rest(struct report *report, const struct metrics *m) {
    if (!report)
        return;
    pthread_mutex_lock(&report->lock);
    print_line(report, m);
    pthread_mutex_unlock(&report->lock);
}

void report_eval(struct report *report, const struct metrics_eval *eval) {
    if (!report)
        return;
    pthread_mutex_lock(&report->lock);
    struct buffer block = {0};
    if (report->has_short_lines)
        live_eval_line(&block, &report->live, eval);
    else
        (report->is_fairseq ? fairseq_eval : console_eval)(&block, eval);
    print_and_free(report, &block);
    if (report->has_metrics)
        metrics_file_eval(&report->metrics, eval);
    if (report->tensorboard) {
        tensorboard_eval(report->tensorboard, eval, &report->choice);
        tensorboard_flush(report->tensorboard);
    }
    if (report->wandb)
        wandb_eval(report->wandb, eval);
    if (report->prometheus)
        prometheus_eval(report->prometheus, eval);
    pthread_mutex_unlock(&report->lock);
}

void report_timer(struct report *report, const char *name, double seconds, int64_t iteration) {
    if (!report || !report->tensorboard || !report->choice.timers)
        return;
    pthread_mutex_lock(&report->lock);
    tensorboard_timer(report->tensorboard, name, seconds, iteration);
    pthread_mutex_unlock(&report->lock);
}

void report_sample(struct report *report, const struct metrics_sample *sample) {
    if (!report)
        return;
    struct buffer line = {0};
    pthread_mutex_lock(&report->lock);
    console_sample(&line, sample);
    print_and_free(report, &line);
    if (report->has_metrics)
        metrics_file_sample(&report->metrics, sample);
    if (report->tensorboard) {
        tensorboard_text(report->tensorboard, "sample", sample->text, sample->iteration);
        tensorboard_flush(report->tensorboard);
    }
    pthread_mutex_unlock(&report->lock);
}

void report_plot_loss(struct report *report, FILE *out) {
    if (!report)
        return;
    pthread_mutex_lock(&report->lock);
    if (report->has_live_view)
        live_hide();
    report_plot(out, report->history.x, report->history.y, report->history.count, "loss");
    pthread_mutex_unlock(&report->lock);
}
