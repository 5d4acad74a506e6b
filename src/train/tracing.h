// Traces of iterations: when the spans of base/trace.h are collected, and where they go.
//
//  - With --profile, those of the iterations after --profile-step-start up to --profile-step-end are written to a file
//    per rank, and merged into one at the end. The profile begins and ends between two iterations, with none pending.
//  - With --timing-log-level, those of all iterations are added up by rank_report.c.
//  - On a device that waits for other ranks itself, one iteration per log interval is traced, to learn how long it
//    waits.
//
// In all other cases there is no trace.
#ifndef TRAIN_TRACING_H
#define TRAIN_TRACING_H

#include "base/buffer.h"
#include "comm/clocks.h"
#include "ops/sensors.h"
#include "report/report.h"
#include "report/prometheus.h"
#include "report/trace_file.h"
#include "step/step.h"
#include "train/plan_comparison.h"
#include <stdint.h>

// ---- timers ----

// Megatron's timers: how long the phases of a step take, averaged over a log interval, on all ranks. A span of the step
// (step/spans.h) counts for the timers that contain it, and against those from which Megatron leaves it out. Only
// phases that our step has are listed: it has no copies between gradients of two types, for instance.

// In the order in which Megatron prints them.
enum timer {
    TIMER_FORWARD_BACKWARD,
    TIMER_FORWARD,
    TIMER_BACKWARD,
    TIMER_BATCH,
    TIMER_FORWARD_RECEIVE,
    TIMER_FORWARD_SEND,
    TIMER_BACKWARD_RECEIVE,
    TIMER_BACKWARD_SEND,
    TIMER_STREAM_GRADIENTS,
    TIMER_SHARED_GRADIENTS,
    TIMER_GRADIENTS,
    TIMER_GATHER,
    TIMER_CLIP,
    TIMER_UPDATE,
    TIMER_OPTIMIZER,
    TIMER_COUNT
};

struct timers {
    double seconds[TIMER_COUNT];
};

void timers_add(struct timers *timers, int tag, double seconds);
const char *timer_name(enum timer timer);  // "forward-backward"
int timer_level(enum timer timer);         // of --timing-log-level, from which it is measured

// One timer on all ranks, in milliseconds; 0 on a rank that has no such phase.
struct timer_row {
    const char *name;
    const double *ms;  // (ranks)
};
// Megatron's output for --timing-log-option "minmax", "max" or "all", with a newline at the end. Rows without a
// positive time are left out; nothing is written if all are.
void timers_print(struct buffer *out, const struct timer_row *rows, int count, int ranks, const char *option);

// ---- times of all ranks ----

// Breakdown of every rank's step time: always measured, gathered at every log interval, and written to metrics.jsonl
// together with the rank that holds up the others. With --timing-log-level, Megatron's timers are included.
//
// The measurements cost two looks at the clock per micro-batch and a few per iteration. On a device that waits for
// other ranks itself (GPUs over NCCL), its waits are known only for iterations with a trace, one per log interval.

// Times of this rank so far, in seconds.
struct rank_usage {
    double waited;  // the host's waits for other ranks
    double data;
    double ran;  // of the main thread
};

// Sums over the iterations since the run is warm, which lines do not cut.
struct rank_warm {
    double seconds, waited, data;
    int64_t steps;
};

struct rank_report {
    const struct config *config;
    const struct mesh *mesh;
    struct step *step;
    struct report *report;  // NULL except on the reporting rank
    char host[65];          // of this rank
    struct rank_usage last;
    // Sums over the iterations since the last line.
    struct rank_usage used;
    double seconds;
    double awaited_device;     // in which the host waited for results
    double device_waited;      // in which the device waited for other ranks, in the iterations with a trace
    int64_t steps, traced;     // how many iterations, and how many with a trace
    struct timers timers;      // of traced iterations
    int slow_rank, slow_seen;  // who stood out in the last line, and in how many lines in a row
    bool has_warned;           // of that rank
    struct planned planned;    // on the reporting rank: what is compared once the run is warm; may be empty
    bool is_compared;          // or would be, if there were a plan
    int64_t iterations;        // since the report was opened
    struct rank_warm warm;
    double probed;  // when links were last probed; 0: never
    // The clock of the GPU, read from the line on in which a rank was found that computes for longer.
    bool reads_clock;
    struct sensors sensors;        // if `reads_clock`
    double clock_sum, clock_read;  // MHz of the readings since the last line, and when the last one was
    int64_t clock_readings;
    atomic_bool prints;   // the reporting rank prints the lines of --log-straggler
    struct scrape *port;  // toggles `prints`; NULL for none
};

// Opens the port of --straggler-ctrlr-port if there is to be one. The report stays where it is from now on.
void rank_report_open(struct rank_report *report);
void rank_report_close(struct rank_report *report);

// No iteration is pending, and the next one begins.
void rank_report_begin(struct rank_report *report);
// An iteration has ended that took this many seconds, during the last of which the host waited for its result.
void rank_report_end(struct rank_report *report, double seconds, double awaited_device);
// After a log interval: all ranks call.
void rank_report_write(struct rank_report *report, int64_t iteration);
// A phase between iterations, which Megatron logs by itself; only with --timing-log-level above 0. All ranks call.
void rank_report_phase(struct rank_report *report, const char *name, double seconds);

struct tracing {
    struct rank_report ranks;
    struct trace_file file;          // closed unless a profile runs and this rank is part of it
    char *folder;                    // of the profile
    bool is_profiling, is_profiled;  // a profile runs; it has run
    bool has_clock;                  // the device's clock runs
    size_t capacity;                 // of the ring
    int64_t lost;                    // spans that a profile lacks
};

struct tracing_options {
    const struct config *config;
    const struct mesh *mesh;
    struct step *step;
    struct report *report;
    struct planned planned;  // what the run is compared with; empty for nothing
};
void tracing_open(struct tracing *tracing, const struct tracing_options *options);
// Whether no later iteration may be queued before all results up to this iteration are known.
bool tracing_needs_results(const struct tracing *tracing, int64_t iteration);
// Call before an iteration is queued after this many pending ones. All ranks call all of these.
void tracing_begin(struct tracing *tracing, int64_t iteration, int pending);
// Its result is known: it took from `started` to `ended`, and the host waited for it since `awaited`.
struct tracing_times {
    double started, awaited, ended;
};
void tracing_end(struct tracing *tracing, int64_t iteration, struct tracing_times times);
// Something between iterations has ended, with none pending: "evaluate", "save-checkpoint".
void tracing_phase(struct tracing *tracing, const char *name, double started);
// Merges a profile that has not come to its end, unless the run has failed: then the files of the ranks stay.
void tracing_close(struct tracing *tracing, bool has_failed);

#endif
