// Short steps and the line through them. See steady.h.
#include "plan/steady.h"
#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

static int group_of(const struct schedule_shape *shape) {
    if (shape->kind != SCHEDULE_INTERLEAVED)
        return 1;
    return shape->group ? shape->group : shape->stages;
}

// The fewest micro-batches, at least `least`, that end with the same part of a group as the step.
static int like_the_end(const struct schedule_shape *shape, int64_t least) {
    int64_t group = group_of(shape), rest = shape->micro_batches % group;
    int64_t count = rest + (least - rest + group - 1) / group * group;
    return count < shape->micro_batches ? (int)count : shape->micro_batches;
}

// Parameters are gathered with the first micro-batch or group, and gradients sent with the last. Schedules delay work
// by more: weight gradients by several micro-batches, a backward by a group.
struct steady_counts steady_counts(const struct schedule_shape *shape) {
    enum { FEW = 4 };
    int group = group_of(shape), unit = group > shape->stages ? group : shape->stages;
    bool is_late = shape->kind == SCHEDULE_ZERO_BUBBLE || shape->has_pairs;
    int64_t least = group > 1 ? 2 * group : is_late ? FEW : 2;
    // Zero-bubble schedules delay weight gradients and take longest to fill.
    struct steady_counts counts = {.held = like_the_end(shape, 4 * (int64_t)unit)};
    counts.before = shape->has_pairs ? like_the_end(shape, group) : 1;
    counts.shorter = like_the_end(shape, least);
    counts.longer = like_the_end(shape, counts.shorter + (group > 1 ? group : is_late ? FEW : 1));
    if (counts.longer >= shape->micro_batches)
        counts.held = counts.shorter = counts.longer = shape->micro_batches;
    return counts;
}

struct steady_counts steady_all(const struct schedule_shape *shape) {
    int all = shape->micro_batches;
    return (struct steady_counts){.held = all, .before = all, .shorter = all, .longer = all};
}

int steady_passes(const struct schedule_shape *shape) {
    struct steady_counts counts = steady_counts(shape);
    return counts.before + counts.shorter + (counts.longer > counts.shorter ? counts.longer : 0);
}

double steady_extend(const struct steady_counts *counts, int micro_batches, double shorter, double longer) {
    if (counts->shorter == counts->longer)
        return longer;
    return shorter + (longer - shorter) * (micro_batches - counts->shorter) / (counts->longer - counts->shorter);
}

static int simulate(const struct schedule_shape *shape, int micro_batches, const struct schedule_cost *cost,
                    struct schedule_run *run, const struct schedule_watcher *watcher) {
    struct schedule schedule;
    struct schedule_shape shorter = *shape;
    shorter.micro_batches = micro_batches;
    TRY(schedule_build(&schedule, &shorter));
    int status = schedule_simulate(&schedule, cost, run, watcher);
    schedule_free(&schedule);
    return status;
}

int steady_simulate_all(const struct schedule_shape *shape, const struct schedule_cost *cost, struct schedule_run *run,
                        const struct schedule_watcher *watcher) {
    return simulate(shape, shape->micro_batches, cost, run, watcher);
}

// ---- pipelines that repeat themselves ----

// Data of a short run. Its pipeline fills during the first two periods and drains during the last two.
struct steady_run {
    const struct schedule_shape *shape;
    int64_t count, period;  // micro-batches of the run, and of a period, after which the lists repeat
    double *starts;         // (works, count, chunks, stages) starts of passes; negative: no such pass
    double *busy;           // (2, stages): of the run, and of a period of it
};

static double *start_of(const struct steady_run *short_run, int stage, struct schedule_item item) {
    int64_t row = ((int64_t)item.work * short_run->count + item.micro_batch) * short_run->shape->chunks + item.chunk;
    return &short_run->starts[row * short_run->shape->stages + stage];
}

static void see_span(void *context, const struct schedule_span *span) {
    const struct steady_run *short_run = context;
    double seconds = schedule_span_seconds(span);
    int64_t m = span->item.micro_batch, first = short_run->count - 3 * short_run->period;
    short_run->busy[span->stage] += seconds;
    if (span->item.work > WORK_BACKWARD_WEIGHT)
        return;
    *start_of(short_run, span->stage, span->item) = span->start;
    if (m >= first && m < first + short_run->period)
        short_run->busy[short_run->shape->stages + span->stage] += seconds;
}

// Delay of passes relative to those one period earlier: *least and *most, over two periods before the last two.
static void compare_periods(const struct steady_run *short_run, double *least, double *most) {
    *least = INFINITY;
    *most = 0;
    struct schedule_item item = {0};
    for (int work = WORK_FORWARD; work <= WORK_BACKWARD_WEIGHT; work++)
        for (int64_t m = short_run->count - 4 * short_run->period; m < short_run->count - 2 * short_run->period; m++)
            for (item.chunk = 0; item.chunk < short_run->shape->chunks; item.chunk++)
                for (int stage = 0; stage < short_run->shape->stages; stage++) {
                    item.work = (enum work)work;
                    item.micro_batch = (int)m;
                    double start = *start_of(short_run, stage, item);
                    item.micro_batch = (int)(m - short_run->period);
                    double later = start - *start_of(short_run, stage, item);
                    *least = start >= 0 && later < *least ? later : *least;
                    *most = start >= 0 && later > *most ? later : *most;
                }
}

// Adds periods of `seconds` each to a run.
static void extend_run(const struct steady_run *short_run, double times, double seconds, struct schedule_run *run) {
    run->seconds += times * seconds;
    run->bubble = 0;
    for (int stage = 0; stage < short_run->shape->stages; stage++) {
        double idle = run->seconds - short_run->busy[stage] - times * short_run->busy[short_run->shape->stages + stage];
        run->bubble = idle > run->bubble ? idle : run->bubble;
        run->idle = stage == 0 || idle < run->idle ? idle : run->idle;
    }
}

// Runs short_run->count micro-batches and, if all passes are delayed equally relative to those one period earlier, adds
// the others. If a pipeline does not settle, MOST_PASSES passes stand for all.
static int try_sample(struct steady_run *short_run, const struct schedule_cost *cost, struct schedule_run *run,
                      bool *is_done) {
    const double rounding = 1e-11;
    const int64_t MOST_PASSES = 1 << 21;
    const struct schedule_shape *shape = short_run->shape;
    int64_t passes = short_run->count * shape->chunks * shape->stages, slots = (WORK_BACKWARD_WEIGHT + 1) * passes;
    short_run->starts = memory_alloc(sizeof(double) * (size_t)slots);
    short_run->busy = memory_alloc(sizeof(double) * 2 * (size_t)shape->stages);
    for (int64_t i = 0; i < slots; i++)
        short_run->starts[i] = -1;
    int status = simulate(shape, (int)short_run->count, cost, run, &(struct schedule_watcher){see_span, short_run});
    double least = 0, most = 0;
    if (status == 0)
        compare_periods(short_run, &least, &most);
    *is_done = status < 0 || most - least <= rounding * run->seconds || passes > MOST_PASSES;
    if (status == 0 && *is_done)
        extend_run(short_run, (double)(shape->micro_batches - short_run->count) / (double)short_run->period, most, run);
    free(short_run->starts);
    free(short_run->busy);
    return status;
}

int steady_simulate(const struct schedule_shape *shape, const struct schedule_cost *cost, struct schedule_run *run,
                    const struct schedule_watcher *watcher) {
    int64_t group = group_of(shape), period = (shape->stages + group - 1) / group * group;
    for (int64_t least = 8 * period; !watcher && 2 * (least + period) <= shape->micro_batches; least *= 2) {
        // Whole periods are added.
        int64_t count = least + (shape->micro_batches - least) % period;
        struct steady_run short_run = {.shape = shape, .count = count, .period = period};
        bool is_done = false;
        TRY(try_sample(&short_run, cost, run, &is_done));
        if (is_done)
            return 0;
    }
    return steady_simulate_all(shape, cost, run, watcher);
}
