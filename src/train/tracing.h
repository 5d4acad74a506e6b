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

#include "comm/clocks.h"
#include "report/trace_file.h"
#include "train/rank_report.h"

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
