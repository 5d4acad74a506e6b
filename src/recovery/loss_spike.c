// Loss spikes by median and median absolute deviation. See loss_spike.h.
#include "recovery/loss_spike.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A standard deviation of the normal distribution in median absolute deviations.
static const double NORMAL = 1.4826;
// Less than this never counts as a standard deviation: 1 % of the loss, 5 % of the gradient norm. Without it, a run
// that has converged would cause false alarms.
static const double LEAST_LOSS = 0.01, LEAST_NORM = 0.05;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, int64_t count) {
    qsort(values, (size_t)count, sizeof values[0], compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

struct spike_level spike_level(const double *values, int64_t count, double threshold, double least) {
    double sorted[CHECKPOINT_WINDOW];
    memcpy(sorted, values, (size_t)count * sizeof sorted[0]);
    struct spike_level level = {.median = median_of(sorted, count)};
    for (int64_t i = 0; i < count; i++)
        sorted[i] = fabs(values[i] - level.median);
    level.limit = level.median + threshold * fmax(NORMAL * median_of(sorted, count), least);
    return level;
}

static void push(double *values, int64_t count, double value) {
    if (count == CHECKPOINT_WINDOW)
        memmove(values, values + 1, (CHECKPOINT_WINDOW - 1) * sizeof values[0]);
    values[count == CHECKPOINT_WINDOW ? count - 1 : count] = value;
}

// Norms of 0 happen where nothing is learnt.
static double log_of(double norm) {
    return log(fmax(norm, 1e-30));
}

bool spike_add(struct checkpoint_past *past, double threshold, double loss, double norm, struct spike_levels *levels) {
    int64_t count = past->window_count;
    bool is_far = false;
    if (count >= SPIKE_LEAST) {
        double logs[CHECKPOINT_WINDOW], sorted[CHECKPOINT_WINDOW];
        memcpy(sorted, past->losses, sizeof sorted);
        double usual = fabs(median_of(sorted, count));
        for (int64_t i = 0; i < count; i++)
            logs[i] = log_of(past->norms[i]);
        levels->loss = spike_level(past->losses, count, threshold, LEAST_LOSS * usual);
        levels->norm = spike_level(logs, count, threshold, LEAST_NORM);
        is_far = loss > levels->loss.limit || log_of(norm) > levels->norm.limit;
        levels->norm = (struct spike_level){exp(levels->norm.median), exp(levels->norm.limit)};
    }
    past->streak = is_far ? past->streak + 1 : 0;
    push(past->losses, count, loss);
    push(past->norms, count, norm);
    past->window_count = count < CHECKPOINT_WINDOW ? count + 1 : count;
    return past->streak == SPIKE_STREAK;
}
