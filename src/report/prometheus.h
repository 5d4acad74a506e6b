// The state of a run for Prometheus, in its text format 0.0.4: --prometheus-textfile writes a file for node_exporter's
// textfile collector at each log interval, at most every 5 seconds, and --prometheus-port serves the same text at
// /metrics. docs/events.md lists the names, which are stable. Nothing here can end or delay a run: a file that cannot
// be written, or a port that is taken, is reported once.
#ifndef REPORT_PROMETHEUS_H
#define REPORT_PROMETHEUS_H

#include "base/buffer.h"
#include "report/metrics.h"

#include <stdatomic.h>
#include <stdbool.h>

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

// ---- the server ----

// A small web server for Prometheus: GET /metrics, nothing else; or a switch that GET / toggles. It runs on a thread of
// its own, with a limit on connections, on the size of a request and on the time of each, so that clients can neither
// block it nor exhaust its memory.

struct scrape;

// Listens on this address, and answers with what `compose` appends; -1 with an error on failure.
struct scrape_source {
    void (*compose)(void *context, struct buffer *out);
    void *context;
};
int scrape_open(struct scrape **scrape, struct scrape_source source, const char *address, int port);
// A switch for programs on this machine only: each GET / toggles *is_on, and the answer reports the state of `what`.
// The address is 127.0.0.1.
int scrape_open_switch(struct scrape **scrape, atomic_bool *is_on, const char *what, int port);
void scrape_close(struct scrape *scrape);  // NULL is fine

enum { SCRAPE_REQUEST_BYTES = 8192 };
// The kind of a request, of which these bytes have arrived so far.
enum scrape_request {
    SCRAPE_INCOMPLETE,
    SCRAPE_METRICS,
    SCRAPE_METRICS_HEAD,  // without the body
    SCRAPE_INDEX,         // /: a line with the path of the metrics
    SCRAPE_NOT_FOUND,
    SCRAPE_BAD_METHOD,
    SCRAPE_BAD_REQUEST,
    SCRAPE_TOO_LARGE,
    SCRAPE_OTHER_HOST,  // sent by a page of another site
};
// `host` is the address that the server listens on, if only this machine can reach it: then a Host header must name it
// or this machine. NULL: names are not checked, since other machines may use any name for this one.
enum scrape_request scrape_parse(const char *bytes, size_t length, const char *host);

// A page of another site that a user's browser has open can send requests to this machine, and read the answers if the
// attacker's DNS lets its own name point here. Such a request has that name in its Host header.
// localhost, 127.0.0.0/8 or ::1.
bool host_is_loopback(const char *address);
// Whether the header, with or without a port, names this machine or `own`; NULL for none of either.
bool host_header_is_ours(const char *own, const char *header);

#endif
