// Short steps and the line through them. See steady.h.
#include "plan/steady.h"
#include "base/error.h"

#include <math.h>
#include <stddef.h>

static int group_of(const struct schedule_shape *shape) {
    if (shape->kind != SCHEDULE_INTERLEAVED)
        return 1;
    return shape->group ? shape->group : shape->stages;
}

// The fewest micro-batches from `least` on that end with the same part of a group as the step.
static int like_the_end(const struct schedule_shape *shape, int64_t least) {
    int64_t group = group_of(shape), rest = shape->micro_batches % group;
    int64_t count = rest + (least - rest + group - 1) / group * group;
    return count < shape->micro_batches ? (int)count : shape->micro_batches;
}

struct steady_counts steady_counts(const struct schedule_shape *shape) {
    enum { FEW = 4 };
    int group = group_of(shape), unit = group > shape->stages ? group : shape->stages;
    // Zero-bubble schedules put off gradients of weights, and are full last.
    struct steady_counts counts = {.held = like_the_end(shape, 4 * (int64_t)unit)};
    counts.shorter = like_the_end(shape, group > 1 ? 2 * (int64_t)group : FEW);
    counts.longer = like_the_end(shape, counts.shorter + (group > 1 ? group : FEW));
    return counts.longer < shape->micro_batches ? counts : steady_all(shape);
}

struct steady_counts steady_all(const struct schedule_shape *shape) {
    return (struct steady_counts){shape->micro_batches, shape->micro_batches, shape->micro_batches};
}

int steady_passes(const struct schedule_shape *shape) {
    struct steady_counts counts = steady_counts(shape);
    // The first step is the one before those that count.
    return 2 * counts.shorter + (counts.longer > counts.shorter ? counts.longer : 0);
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

// Whether three runs, each longer than the one before by equally many micro-batches, lie on a line.
static bool is_line(const struct schedule_run runs[3]) {
    const double rounding = 1e-10;
    double first = runs[1].seconds - runs[0].seconds, second = runs[2].seconds - runs[1].seconds;
    double first_idle = runs[1].idle - runs[0].idle, second_idle = runs[2].idle - runs[1].idle;
    return fabs(second - first) <= rounding * runs[2].seconds &&
           fabs(second_idle - first_idle) <= rounding * runs[2].seconds;
}

int steady_simulate(const struct schedule_shape *shape, const struct schedule_cost *cost, struct schedule_run *run,
                    const struct schedule_watcher *watcher) {
    int64_t group = group_of(shape), stages = shape->stages, further = (stages + group - 1) / group * group;
    for (int64_t least = 4 * further; !watcher; least *= 2) {
        struct schedule_run runs[3];
        int64_t count = like_the_end(shape, least);
        if (count + 2 * further > shape->micro_batches / 2)
            break;
        for (int i = 0; i < 3; i++)
            TRY(simulate(shape, (int)(count + i * further), cost, &runs[i], NULL));
        if (is_line(runs)) {
            double times = (double)(shape->micro_batches - count) / (double)further;
            *run = runs[0];
            run->seconds += times * (runs[1].seconds - runs[0].seconds);
            run->bubble += times * (runs[1].bubble - runs[0].bubble);
            run->idle += times * (runs[1].idle - runs[0].idle);
            return 0;
        }
    }
    return steady_simulate_all(shape, cost, run, watcher);
}
