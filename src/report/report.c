// One value in, all sinks out: a sink is a row of a table. On a terminal the live view is below everything else, and
// lines are shorter.
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
#include "base/interrupt.h"
#include "report/console.h"
#include "report/metrics_file.h"
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

// A sink is a file or a server of metrics, and what it takes; NULL for what it does not.
struct report_sink {
    const char *flag;  // that asks for it
    // *sink stays NULL if it is not asked for. -1 if it cannot be opened; REFUSED if the run must not start.
    int (*open)(void **sink, const struct report_options *options);
    void (*close)(void *sink);
    void (*run)(void *sink, const struct metrics_start *start);
    void (*step)(void *sink, const struct metrics *metrics);   // every iteration
    void (*chart)(void *sink, const struct metrics *metrics);  // every --tensorboard-log-interval
    void (*interval)(void *sink, const struct metrics *metrics);
    void (*eval)(void *sink, const struct metrics_eval *eval);
    void (*event)(void *sink, const struct metrics_event *event);
    void (*sample)(void *sink, const struct metrics_sample *sample);
    void (*timer)(void *sink, const char *name, double seconds, int64_t iteration);
    bool is_log;  // has a line for the iterations after the last interval; another process may add events to it
};
enum { REFUSED = -2 };

static int open_metrics(void **sink, const struct report_options *options) {
    if (!options->metrics_path)
        return 0;
    if (metrics_file_check(options->metrics_path) < 0)
        return REFUSED;
    struct metrics_file *file = memory_alloc(sizeof *file);
    int status = metrics_file_open(file, options->metrics_path);
    if (status == 0)
        *sink = file;
    else
        free(file);
    return status;
}

static void close_metrics(void *sink) {
    metrics_file_close(sink);
    free(sink);
}

static int open_tensorboard(void **sink, const struct report_options *options) {
    struct tensorboard *board = NULL;
    if (options->tensorboard_folder)
        TRY(tensorboard_open(&board, options->tensorboard_folder, &options->tensorboard));
    *sink = board;
    return 0;
}

static int open_wandb(void **sink, const struct report_options *options) {
    struct wandb_options own = options->wandb;
    struct wandb *wandb = NULL;
    own.choice = options->tensorboard;
    if (own.project)
        TRY(wandb_open(&wandb, &own));
    *sink = wandb;
    return 0;
}

static int open_prometheus(void **sink, const struct report_options *options) {
    struct prometheus_options own = options->prometheus;
    struct prometheus *prometheus = NULL;
    own.job = options->job;
    own.first_iteration = options->first_iteration;
    own.train_iters = options->train_iters;
    own.ranks = options->ranks;
    if (prometheus_open(&prometheus, &own) < 0)
        return REFUSED;
    *sink = prometheus;
    return 0;
}

enum { METRICS, TENSORBOARD, WANDB, PROMETHEUS, SINKS };
static const struct report_sink kinds[SINKS] = {
    [METRICS] = {.flag = "--metrics-file",
                 .open = open_metrics,
                 .close = close_metrics,
                 .run = metrics_file_run,
                 .interval = metrics_file_train,
                 .eval = metrics_file_eval,
                 .event = metrics_file_event,
                 .sample = metrics_file_sample,
                 .is_log = true},
    [TENSORBOARD] = {.flag = "--tensorboard-dir",
                     .open = open_tensorboard,
                     .close = tensorboard_close,
                     .run = tensorboard_run,
                     .chart = tensorboard_train,
                     .interval = tensorboard_interval,
                     .eval = tensorboard_eval,
                     .sample = tensorboard_sample,
                     .timer = tensorboard_timer},
    [WANDB] = {.flag = "--wandb-save-dir",
               .open = open_wandb,
               .close = wandb_close,
               .run = wandb_run,
               .chart = wandb_train,
               .interval = wandb_interval,
               .eval = wandb_eval,
               .event = wandb_event},
    [PROMETHEUS] = {.flag = "--prometheus-textfile",
                    .open = open_prometheus,
                    .close = prometheus_close,
                    .step = prometheus_step,
                    .interval = prometheus_train,
                    .eval = prometheus_eval,
                    .event = prometheus_event},
};

struct report {
    pthread_mutex_t lock;  // around every call: a thread that ends the process reports here, too
    struct report_options options;
    void *sinks[SINKS];           // NULL: not open
    int64_t steps, skipped, nan;  // since the last line
    bool has_live_view;
    bool has_short_lines;  // on the terminal that shows the view
    struct live live;
    struct metrics shown;    // by the view
    pthread_t clock_thread;  // redraws the view between iterations
    bool has_clock, is_closing;
    pthread_cond_t closing;
    struct loss_curve history;
    double opened;           // wall seconds when it was opened
    int64_t last_iteration;  // iteration of the last line
    int64_t lines;           // number of iteration lines so far
};

// Calls a function of every open sink that has it.
#define TO_SINKS(report, function, ...)                                                                                \
    do {                                                                                                               \
        for (int i = 0; i < SINKS; i++)                                                                                \
            if ((report)->sinks[i] && kinds[i].function)                                                               \
                kinds[i].function((report)->sinks[i], __VA_ARGS__);                                                    \
    } while (0)

// False if there is no report.
static bool lock(struct report *report) {
    if (report)
        pthread_mutex_lock(&report->lock);
    return report != NULL;
}

// An output that cannot be opened is left out. A full or read-only disk must not prevent training from restarting at
// night.
static int open_sinks(struct report *report) {
    for (int i = 0; i < SINKS; i++) {
        int status = kinds[i].open(&report->sinks[i], &report->options);
        if (status == REFUSED)
            return -1;
        if (status == 0)
            continue;
        log_warn("%s; the run continues without it (%s)", error_message(), kinds[i].flag);
        error_clear();
    }
    return 0;
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
    report->has_short_lines = !options->is_fairseq && options->console && isatty(fileno(options->console));
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
    if (r->options.tensorboard_interval <= 0)
        r->options.tensorboard_interval = 1;
    r->opened = clock_wall_seconds();
    r->last_iteration = options->first_iteration;
    *report = NULL;
    r->history.per_point = 1;
    if (open_sinks(r) < 0) {
        report_close(r);
        return -1;
    }
    if (r->sinks[METRICS]) {
        OWNED char *folder = file_parent(options->metrics_path);
        log_info("to watch this run: bevatron board --logdir %s", folder);
    }
    open_view(r, options);
    *report = r;
    return 0;
}

void report_close(struct report *report) {
    if (!report)
        return;
    close_view(report);
    for (int i = 0; i < SINKS; i++)
        if (report->sinks[i])
            kinds[i].close(report->sinks[i]);
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

void report_run(struct report *report, int64_t iteration, const char *config_json) {
    if (!report)
        return;
    const struct report_options *options = &report->options;
    char host[256];
    process_host(host, sizeof host);
    pthread_mutex_lock(&report->lock);
    const struct metrics_start start = {.wall_seconds = clock_wall_seconds(),
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
                                        .planned_seconds = options->planned_seconds};
    TO_SINKS(report, run, &start);
    pthread_mutex_unlock(&report->lock);
    char text[96];
    snprintf(text, sizeof text, "%s after iteration %" PRId64 " of %" PRId64, iteration > 0 ? "resumed" : "started",
             iteration, options->train_iters);
    on_event_tell(options->on_event, &(struct metrics_event){.name = "started", .iteration = iteration, .text = text});
}

static void print(struct report *report, const char *text) {
    if (report->options.console)
        log_print(report->options.console, text);
}

static void print_and_free(struct report *report, struct buffer *text) {
    print(report, buffer_string(text));
    buffer_free(text);
}

// Call with the lock held.
static void tell(struct report *report, const struct metrics_event *event, bool is_known) {
    for (int i = 0; i < SINKS; i++)
        if (report->sinks[i] && kinds[i].event && !(is_known && kinds[i].is_log))
            kinds[i].event(report->sinks[i], event);
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

static void tell_locked(struct report *report, const struct metrics_event *event, bool is_known) {
    if (!lock(report))
        return;
    tell(report, event, is_known);
    pthread_mutex_unlock(&report->lock);
}

void report_event(struct report *report, const struct metrics_event *event) {
    tell_locked(report, event, false);
}

void report_known_event(struct report *report, const struct metrics_event *event) {
    tell_locked(report, event, true);
}

void report_line(struct report *report, struct buffer *line) {
    if (!report || !report->sinks[METRICS]) {
        buffer_free(line);
        return;
    }
    pthread_mutex_lock(&report->lock);
    metrics_file_line(report->sinks[METRICS], line);
    pthread_mutex_unlock(&report->lock);
}

void report_step(struct report *report, const struct metrics *m) {
    if (!lock(report))
        return;
    report->steps++;
    report->skipped += m->is_skipped;
    report->nan += metrics_is_nan(m);
    if (m->loss_count > 0)
        history_push(&report->history, (double)m->iteration, m->losses[0].value);
    if (report->has_live_view) {
        report->shown = *m;
        report->shown.expert_layers = NULL;
        live_update(&report->live, m, losses_of(report));
    }
    TO_SINKS(report, step, m);
    if (m->iteration % report->options.tensorboard_interval == 0)
        TO_SINKS(report, chart, m);
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

void report_print(struct report *report, const char *text) {
    if (!lock(report))
        return;
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
    OWNED_BY(buffer_free) struct buffer time = {0};
    progress_append_duration(&time, (double)left * m->elapsed_ms / 1e3);
    log_info("> time left: about %s for %" PRId64 " iterations", buffer_string(&time), left);
}

// Call with the lock held.
static void print_line(struct report *report, const struct metrics *m) {
    struct buffer line = {0};
    int64_t before = report->last_iteration;
    struct fairseq_clock clock = {.train_wall = m->elapsed_ms / 1e3 * (double)(m->iteration - report->last_iteration),
                                  .wall = m->wall_seconds - report->opened};
    report->last_iteration = m->iteration;
    if (report->options.is_fairseq)
        fairseq_train(&line, m, &clock);
    else if (report->has_short_lines)
        live_train_line(&line, &report->live, m);
    else
        console_train(&line, m);
    print_and_free(report, &line);
    report->lines++;
    tell_time_left(report, m, before);
}

void report_interval(struct report *report, const struct metrics *m) {
    if (!lock(report))
        return;
    print_line(report, m);
    TO_SINKS(report, interval, m);
    tell_skipped(report, m);
    pthread_mutex_unlock(&report->lock);
}

void report_rest(struct report *report, const struct metrics *m) {
    if (!lock(report))
        return;
    print_line(report, m);
    if (report->sinks[METRICS])
        metrics_file_train(report->sinks[METRICS], m);
    pthread_mutex_unlock(&report->lock);
}

void report_eval(struct report *report, const struct metrics_eval *eval) {
    if (!lock(report))
        return;
    struct buffer block = {0};
    if (report->has_short_lines)
        live_eval_line(&block, &report->live, eval);
    else
        (report->options.is_fairseq ? fairseq_eval : console_eval)(&block, eval);
    print_and_free(report, &block);
    TO_SINKS(report, eval, eval);
    pthread_mutex_unlock(&report->lock);
}

void report_timer(struct report *report, const char *name, double seconds, int64_t iteration) {
    if (!lock(report))
        return;
    TO_SINKS(report, timer, name, seconds, iteration);
    pthread_mutex_unlock(&report->lock);
}

void report_sample(struct report *report, const struct metrics_sample *sample) {
    if (!report)
        return;
    struct buffer line = {0};
    pthread_mutex_lock(&report->lock);
    console_sample(&line, sample);
    print_and_free(report, &line);
    TO_SINKS(report, sample, sample);
    pthread_mutex_unlock(&report->lock);
}

void report_plot_loss(struct report *report, FILE *out) {
    if (!lock(report))
        return;
    if (report->has_live_view)
        live_hide();
    report_plot(out, report->history.x, report->history.y, report->history.count, "loss");
    pthread_mutex_unlock(&report->lock);
}
