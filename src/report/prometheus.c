// Metrics exported to Prometheus. See prometheus.h.
#include "report/prometheus.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_EVALS = 2 * 64 * METRICS_MAX_LOSSES, NAME_BYTES = 64 };

static const char *const event_names[] = {"saved",  "unsaved", "skipped",  "nan",     "spike",
                                          "rewind", "hang",    "finished", "stopped", "failed"};
enum { EVENT_NAMES = sizeof event_names / sizeof event_names[0] };
static const char *const states[] = {"running", "finished", "stopped", "failed"};
enum { STATES = sizeof states / sizeof states[0] };

struct prometheus_value {
    char loss[NAME_BYTES], set[NAME_BYTES];
    double value;
};

struct prometheus {
    struct prometheus_options options;
    pthread_mutex_t lock;  // protects all fields below
    char *labels;          // run="…",job="…" or "", without braces
    char host[256];
    struct metrics last;  // its losses are in `losses`
    bool has_last;
    struct prometheus_value losses[METRICS_MAX_LOSSES], evals[MOST_EVALS];
    int loss_count, eval_count;
    int64_t iteration, skipped, nan, events[EVENT_NAMES];
    int64_t saved_iteration;
    double started, saved_time, updated;
    int state;
    double written;   // time of the last write of the textfile, by its clock
    bool is_stale;    // the textfile lacks the last metrics
    bool has_failed;  // the last write of the textfile failed
    struct scrape *scrape;
};

// ---- the text ----

static void put_label(struct buffer *out, const char *name, const char *value) {
    OWNED_BY(buffer_free) struct buffer repaired = {0};
    buffer_append_repaired(&repaired, value, strlen(value));
    buffer_printf(out, "%s%s=\"", out->length > 0 ? "," : "", name);
    for (const char *at = buffer_string(&repaired); *at; at++) {
        if (*at == '\\' || *at == '"')
            buffer_append_byte(out, '\\');
        if (*at == '\n')
            buffer_append_string(out, "\\n");
        else
            buffer_append_byte(out, *at);
    }
    buffer_append_byte(out, '"');
}

static void put_value(struct buffer *out, double value) {
    if (isfinite(value))
        buffer_printf(out, " %.15g\n", value);
    else
        buffer_append_string(out, isnan(value) ? " NaN\n" : value > 0 ? " +Inf\n" : " -Inf\n");
}

static void put_family(struct buffer *out, const char *name, const char *type, const char *help) {
    buffer_printf(out, "# HELP bevatron_%s %s\n# TYPE bevatron_%s %s\n", name, help, name, type);
}

// One sample; `more` holds further labels besides those of the run, "" for none.
static void put_sample(const struct prometheus *p, struct buffer *out, const char *name, const char *more,
                       double value) {
    bool has_both = *p->labels && *more, has_any = *p->labels || *more;
    buffer_printf(out, "bevatron_%s%s%s%s%s%s", name, has_any ? "{" : "", p->labels, has_both ? "," : "", more,
                  has_any ? "}" : "");
    put_value(out, value);
}

// A metric with one sample. Counters have _total in their names.
static void put_one(const struct prometheus *p, struct buffer *out, const char *name, const char *help, double value) {
    size_t length = strlen(name);
    bool is_counter = length > 6 && strcmp(name + length - 6, "_total") == 0;
    put_family(out, name, is_counter ? "counter" : "gauge", help);
    put_sample(p, out, name, "", value);
}

static void put_values(const struct prometheus *p, struct buffer *out, const char *name,
                       const struct prometheus_value *values, int count) {
    for (int i = 0; i < count; i++) {
        OWNED_BY(buffer_free) struct buffer labels = {0};
        put_label(&labels, "loss", values[i].loss);
        if (values[i].set[0])
            put_label(&labels, "set", values[i].set);
        put_sample(p, out, name, buffer_string(&labels), values[i].value);
    }
}

static void put_run(const struct prometheus *p, struct buffer *out) {
    struct buffer labels = {0};
    put_label(&labels, "host", p->host);
    put_label(&labels, "version", BEVATRON_VERSION);
    put_family(out, "run_info", "gauge", "Host and version of the run; always 1.");
    put_sample(p, out, "run_info", buffer_string(&labels), 1);
    buffer_free(&labels);
    put_family(out, "run_state", "gauge", "1 for the current state of the run.");
    for (int i = 0; i < STATES; i++) {
        put_label(&labels, "state", states[i]);
        put_sample(p, out, "run_state", buffer_string(&labels), i == p->state);
        buffer_clear(&labels);
    }
    put_one(p, out, "start_time_seconds", "When this start of the run began, in seconds since the epoch.", p->started);
    put_one(p, out, "update_time_seconds", "When these values were written, in seconds since the epoch.", p->updated);
    put_one(p, out, "ranks", "Ranks of the run.", (double)p->options.ranks);
    put_one(p, out, "train_iterations", "Iterations of the whole run.", (double)p->options.train_iters);
    put_family(out, "events_total", "counter", "Events of this start, by kind.");
    for (int i = 0; i < EVENT_NAMES; i++) {
        put_label(&labels, "event", event_names[i]);
        put_sample(p, out, "events_total", buffer_string(&labels), (double)p->events[i]);
        buffer_clear(&labels);
    }
    buffer_free(&labels);
    if (p->saved_time > 0) {
        put_one(p, out, "checkpoint_iteration", "Iteration of the last checkpoint of this start.",
                (double)p->saved_iteration);
        put_one(p, out, "checkpoint_time_seconds", "When it was complete, in seconds since the epoch.", p->saved_time);
    }
}

static void put_metrics(const struct prometheus *p, struct buffer *out) {
    const struct metrics *m = &p->last;
    put_one(p, out, "iteration", "Iterations completed.", (double)p->iteration);
    if (!p->has_last)
        return;
    for (const struct metric_field *field = metric_fields; field->key; field++) {
        if (!field->family || (field->type != METRIC_LOSSES && !metric_is_there(field, m)))
            continue;
        if (field->type != METRIC_LOSSES) {
            double divisor = field->divisor > 0 ? field->divisor : 1;
            put_one(p, out, field->family, field->help, metric_value(field, m) / divisor);
        } else if (p->loss_count > 0) {
            put_family(out, field->family, "gauge", field->help);
            put_values(p, out, field->family, p->losses, p->loss_count);
        }
    }
    put_one(p, out, "skipped_iterations_total", "Iterations of this start without an update.", (double)p->skipped);
    put_one(p, out, "nan_iterations_total", "Iterations of this start whose loss was not finite.", (double)p->nan);
}

// Call with the lock held.
static void compose(const struct prometheus *p, struct buffer *out) {
    put_run(p, out);
    put_metrics(p, out);
    if (p->eval_count > 0)
        put_family(out, "evaluation_loss", "gauge", "Loss of the last evaluation, by set.");
    put_values(p, out, "evaluation_loss", p->evals, p->eval_count);
}

void prometheus_compose(void *prometheus, struct buffer *out) {
    struct prometheus *p = prometheus;
    pthread_mutex_lock(&p->lock);
    compose(p, out);
    pthread_mutex_unlock(&p->lock);
}

// ---- the textfile ----

static bool is_ours(const char *begin, size_t length) {
    static const char first[] = "# HELP bevatron_";
    size_t compared = length < sizeof first - 1 ? length : sizeof first - 1;
    return strncmp(begin, first, compared) == 0;
}

static bool write_and_close(int descriptor, const struct buffer *text) {
    bool is_written = file_put(descriptor, text->data, text->length) == text->length;
    int error = errno;
    bool is_closed = close(descriptor) == 0;
    errno = is_written ? errno : error;
    return is_written && is_closed;
}

// A scrape sees the old file or the new one. It is not synced: after a crash of the machine its numbers are obsolete.
static bool replace_file(const char *path, const struct buffer *text) {
    struct stat status;
    bool is_other = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
    if (is_other) {
        int device = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        return device >= 0 && write_and_close(device, text);
    }
    // The collector accepts only names that end with .prom.
    OWNED char *temporary = memory_printf("%s.%ld.tmp", path, (long)getpid());
    int descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool is_done = descriptor >= 0 && write_and_close(descriptor, text) && rename(temporary, path) == 0;
    int error = errno;
    if (!is_done && descriptor >= 0)
        unlink(temporary);
    errno = error;
    return is_done;
}

// Call with the lock held.
static void write_textfile(struct prometheus *p) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    p->written = clock_now(p->options.clock);
    p->is_stale = false;
    compose(p, &text);
    bool is_written = replace_file(p->options.textfile, &text);
    if (!is_written && !p->has_failed)
        log_warn("cannot write %s: %s; the run continues without it (--prometheus-textfile)", p->options.textfile,
                 strerror(errno));
    if (is_written && p->has_failed)
        log_info("%s is written again", p->options.textfile);
    p->has_failed = !is_written;
}

// Events are written at once. Metrics of fast steps do not all deserve a new file, which takes a third of a
// millisecond; collectors read every 15 seconds or so. Call with the lock held.
static void publish(struct prometheus *p, bool is_urgent) {
    const double least_seconds = 5;
    p->updated = clock_wall_seconds();
    if (!p->options.textfile)
        return;
    if (is_urgent || clock_now(p->options.clock) - p->written >= least_seconds)
        write_textfile(p);
    else
        p->is_stale = true;
}

// ---- events ----

int prometheus_open(struct prometheus **prometheus, const struct prometheus_options *options) {
    *prometheus = NULL;
    if (!options->textfile && options->port == 0)
        return 0;
    if (options->textfile)
        TRY(file_check_output(options->textfile, "a file of --prometheus-textfile", is_ours));
    struct prometheus *p = memory_alloc(sizeof *p);
    p->options = *options;
    pthread_mutex_init(&p->lock, NULL);
    process_host(p->host, sizeof p->host);
    p->started = p->updated = clock_wall_seconds();
    p->iteration = options->first_iteration;
    OWNED_BY(buffer_free) struct buffer labels = {0};
    if (options->run)
        put_label(&labels, "run", options->run);
    if (options->job)
        put_label(&labels, "job_id", options->job);
    p->labels = memory_string(buffer_string(&labels));
    if (options->textfile && file_make_parent(options->textfile) < 0)
        error_clear();
    publish(p, true);
    if (options->port > 0 &&
        scrape_open(&p->scrape, (struct scrape_source){prometheus_compose, p}, options->address, options->port) < 0) {
        log_warn("%s; the run continues without it (--prometheus-port)", error_message());
        error_clear();
    }
    *prometheus = p;
    return 0;
}

static void set_value(struct prometheus_value *value, const struct metrics_loss *loss, const char *set) {
    *value = (struct prometheus_value){.value = loss->value};
    snprintf(value->loss, sizeof value->loss, "%s", loss->name);
    snprintf(value->set, sizeof value->set, "%s", set);
}

void prometheus_train(void *sink, const struct metrics *m) {
    struct prometheus *p = sink;
    pthread_mutex_lock(&p->lock);
    p->last = *m;
    p->last.expert_layers = NULL;
    p->has_last = true;
    p->loss_count = m->loss_count;
    for (int i = 0; i < m->loss_count; i++)
        set_value(&p->losses[i], &m->losses[i], "");
    publish(p, false);
    pthread_mutex_unlock(&p->lock);
}

void prometheus_eval(void *sink, const struct metrics_eval *eval) {
    struct prometheus *p = sink;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < eval->loss_count; i++) {
        struct prometheus_value value;
        int at = 0;
        set_value(&value, &eval->losses[i], eval->set);
        while (at < p->eval_count &&
               (strcmp(p->evals[at].loss, value.loss) != 0 || strcmp(p->evals[at].set, value.set) != 0))
            at++;
        if (at == MOST_EVALS)
            continue;
        p->evals[at] = value;
        p->eval_count = at == p->eval_count ? at + 1 : p->eval_count;
    }
    publish(p, true);
    pthread_mutex_unlock(&p->lock);
}

void prometheus_step(void *sink, const struct metrics *m) {
    struct prometheus *p = sink;
    pthread_mutex_lock(&p->lock);
    p->iteration = m->iteration;
    p->skipped += m->is_skipped;
    p->nan += metrics_is_nan(m);
    pthread_mutex_unlock(&p->lock);
}

void prometheus_event(void *sink, const struct metrics_event *event) {
    struct prometheus *p = sink;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < EVENT_NAMES; i++)
        p->events[i] += strcmp(event_names[i], event->name) == 0;
    for (int i = 0; i < STATES; i++)
        p->state = strcmp(states[i], event->name) == 0 ? i : p->state;
    if (strcmp(event->name, "saved") == 0) {
        p->saved_iteration = event->iteration;
        p->saved_time = clock_wall_seconds();
    }
    publish(p, true);
    pthread_mutex_unlock(&p->lock);
}

void prometheus_close(void *sink) {
    OWNED struct prometheus *p = sink;
    if (!p)
        return;
    scrape_close(p->scrape);
    if (p->is_stale)
        write_textfile(p);
    pthread_mutex_destroy(&p->lock);
    free(p->labels);
}
