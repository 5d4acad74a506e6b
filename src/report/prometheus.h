// The state of a run for Prometheus, in its text format 0.0.4: --prometheus-textfile writes a file for node_exporter's
// textfile collector at each log interval, at most every 5 seconds, and --prometheus-port serves the same text at
// /metrics. docs/events.md lists the names, which are stable. Nothing here can end or delay a run: a file that cannot
// be written, or a port that is taken, is reported once.
#ifndef REPORT_PROMETHEUS_H
#define REPORT_PROMETHEUS_H

#include "base/buffer.h"
#include "report/metrics.h"

struct prometheus;

struct prometheus_options {
    const char *textfile;  // NULL for none
    const char *address;   // of --prometheus-host, a number or a name
    int port;              // 0 for none
    const char *run;       // labels: the name of the run, the scheduler's number of its job; NULL for none
    const char *job;
    int64_t first_iteration, train_iters, ranks;
    struct clock *clock;  // for the pauses between two writes, see base/clock.h
};
// *prometheus is NULL if neither output is requested. -1 only if the textfile would replace a file of another kind.
int prometheus_open(struct prometheus **prometheus, const struct prometheus_options *options);

// For a table of sinks: `prometheus` is a struct prometheus.
void prometheus_step(void *prometheus, const struct metrics *metrics);  // each iteration
void prometheus_train(void *prometheus, const struct metrics *metrics);
void prometheus_eval(void *prometheus, const struct metrics_eval *eval);
void prometheus_event(void *prometheus, const struct metrics_event *event);
void prometheus_close(void *prometheus);  // NULL is fine; the textfile stays

// Appends the current text; safe from any thread.
void prometheus_compose(void *prometheus, struct buffer *out);

#endif
