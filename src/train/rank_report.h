// Breakdown of every rank's step time: always measured, gathered at every log interval, and written to metrics.jsonl
// together with the rank that holds up the others. With --timing-log-level, Megatron's timers are included.
//
// The measurements cost two looks at the clock per micro-batch and a few per iteration. On a device that waits for
// other ranks itself (GPUs over NCCL), its waits are known only for iterations with a trace: see tracing.h, which takes
// one per log interval.
#ifndef TRAIN_RANK_REPORT_H
#define TRAIN_RANK_REPORT_H

#include "ops/sensors.h"
#include "report/report.h"
#include "report/prometheus.h"
#include "step/step.h"
#include "train/plan_comparison.h"
#include "train/timers.h"

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

#endif
