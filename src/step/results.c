// Transfers the results of steps to the host. Steps are queued ahead of the device. The numbers of each step are copied
// after it to a separate row of host memory, and read once its event has passed, so the host waits for that step and
// not for those queued after it. In the other direction, each row carries the rates of its step's update, see
// optim/updates.h.
//
// Rows are taken in the order in which they were queued; a row is reused only after it was taken.
#include "step/internal.h"
#include "base/error.h"
#include "ops/device.h"

#include <math.h>
#include <stddef.h>

enum { NUMBER_NORM, NUMBER_SCALE, NUMBER_TOTALS };

int results_open(struct step *step) {
    struct step_results *results = &step->results;
    size_t numbers = (size_t)(NUMBER_TOTALS + step->total_first[TOTAL_KINDS] + OWN_COUNT);
    size_t row_floats =
        numbers + UPDATES_MOST_RATES * (size_t)updates_rate_count(&step->params, step->params.group_count);
    results->memory = device_host_alloc(step->device, STEP_ROWS * row_floats * sizeof(float));
    if (!results->memory)
        return -1;
    for (int i = 0; i < STEP_ROWS; i++) {
        struct step_row *row = &results->rows[i];
        row->numbers = results->memory + (size_t)i * row_floats;
        row->rates = row->numbers + numbers;
        row->done = step->device->ops->event_create(step->device);
    }
    return 0;
}

void results_close(struct step *step) {
    for (int i = 0; i < STEP_ROWS; i++)
        if (step->results.rows[i].done)
            step->device->ops->event_free(step->device, step->results.rows[i].done);
    device_host_free(step->device, step->results.memory);
}

int step_lookahead(const struct step *step) {
    return step->device->ops->is_host_memory ? 0 : STEP_MOST_AHEAD;
}

int step_pending(const struct step *step) {
    return (int)(step->results.queued - step->results.taken);
}

static struct step_row *row_of(struct step *step, int64_t number) {
    return &step->results.rows[number % STEP_ROWS];
}

void results_make_room(struct step *step) {
    while (step_pending(step) > STEP_MOST_AHEAD)
        (void)step_take_result(step);
}

void results_send_rates(struct step *step, const struct pace *paces) {
    CHECK(step_pending(step) <= STEP_MOST_AHEAD);
    struct step_row *row = row_of(step, step->results.queued);
    updates_make_rates(&step->updates, paces, step_pending(step) + 1, row->rates);
    device_copy_in(step->device, step->updates.rates, row->rates);
}

static void bring(struct step *step, float *to_host, struct tensor from) {
    step->device->ops->copy_out(step->device, to_host, from.data, tensor_bytes(from), STREAM_COMPUTE);
}

// Copies the totals and this rank's own values, which follow them.
static void bring_totals(struct step *step, float *to_host) {
    step->device->ops->copy_out(step->device, to_host, step->totals.data,
                                tensor_bytes(step->totals) + tensor_bytes(step->own), STREAM_COMPUTE);
}

void results_queue(struct step *step, bool is_training, int64_t micro_batches) {
    struct step_row *row = row_of(step, step->results.queued++);
    bring_totals(step, row->numbers + NUMBER_TOTALS);
    row->is_training = is_training;
    row->micro_batches = micro_batches;
    struct tensor scale = scaler_scale(&step->updates.scaler);
    if (is_training)
        bring(step, row->numbers + NUMBER_NORM, clip_norm(&step->updates.clip));
    if (is_training && scale.data)
        bring(step, row->numbers + NUMBER_SCALE, scale);
    else
        row->numbers[NUMBER_SCALE] = 1;
    step->device->ops->event_record(step->device, row->done, STREAM_COMPUTE);
}

// The mean over layers of the loss over the global batch. Every row counts K times.
static double read_global(const struct step *step, const float *sums) {
    const struct expert_choices *experts = &step->chunks[0].model.choices.experts;
    const float *counts = sums + step_total_count(step, TOTAL_GLOBAL_SHARES);
    double mean = 0;
    for (int64_t layer = 0; layer < step->options.expert_layers; layer++) {
        double all = 0, sum = 0;
        for (int64_t i = layer * experts->E; i < (layer + 1) * experts->E; i++) {
            all += (double)counts[i];
            sum += (double)counts[i] * (double)sums[i];
        }
        mean += (double)(experts->E * experts->K) * sum / (all * all > 0 ? all * all : 1);
    }
    return mean / (double)step->options.expert_layers;
}

// The means over layers with experts and micro-batches. The total of the z-loss is a sum over tokens.
static void read_balance(const struct step *step, const struct step_row *row, struct step_result *result) {
    const float *totals = row->numbers + NUMBER_TOTALS, *sums = totals + step->total_first[TOTAL_BALANCE];
    const double *coefficients = step->chunks[0].model.choices.experts.coefficients;
    double passes = (double)(row->micro_batches * step->options.expert_layers);
    const struct batch_form *form = &step->options.largest;
    for (int i = 0; i < step_balances(step) && row->is_training; i++) {
        double divisor = passes * (i == BALANCE_Z ? (double)(form->B * form->T) : 1);
        result->has_balance[i] = coefficients[i] > 0;
        result->balance[i] = (double)sums[i] / divisor;
    }
    if (row->is_training && step_total_count(step, TOTAL_GLOBAL_SHARES) > 0)
        result->balance[BALANCE_GLOBAL] = read_global(step, totals + step->total_first[TOTAL_GLOBAL_SHARES]);
    if (row->is_training && step_experts(step) > 0)
        result->expert_counts = totals + step->total_first[TOTAL_EXPERT_ROWS];
}

// The losses that are sums over tokens or samples, and what they are divided by: totals, and where the means and the
// numbers stand in struct step_result. Those of a total with several values follow each other there.
static const struct mean {
    enum total_kind sum, number;
    size_t mean, divisor;
    bool shares_number;  // with an earlier row
} means[] = {
    {TOTAL_LOSS, TOTAL_TOKENS, offsetof(struct step_result, loss), offsetof(struct step_result, tokens), false},
    {TOTAL_PAIR_LOSS, TOTAL_PAIRS, offsetof(struct step_result, pair_loss), offsetof(struct step_result, pairs), false},
    {TOTAL_HITS, TOTAL_TOKENS, offsetof(struct step_result, accuracies), offsetof(struct step_result, tokens), true},
    {TOTAL_DEPTH_LOSSES, TOTAL_DEPTH_TOKENS, offsetof(struct step_result, depth_losses),
     offsetof(struct step_result, depth_tokens), false},
};
enum { MEANS = sizeof means / sizeof means[0] };

static double *mean_in(struct step_result *result, const struct mean *mean, int i) {
    return (double *)((char *)result + mean->mean) + i;
}

static double *number_in(struct step_result *result, const struct mean *mean, int i) {
    return (double *)((char *)result + mean->divisor) + (mean->shares_number ? 0 : i);
}

static void divide_sums(const struct step *step, struct step_result *result) {
    for (const struct mean *mean = means; mean < means + MEANS; mean++)
        for (int i = 0; i < step_total_count(step, mean->sum); i++) {
            double number = *number_in(result, mean, i);
            *mean_in(result, mean, i) /= number > 1 ? number : 1;
        }
}

struct step_result step_take_result(struct step *step) {
    CHECK(step_pending(step) > 0);
    struct step_row *row = row_of(step, step->results.taken++);
    step->device->ops->event_wait(step->device, row->done);
    const float *totals = row->numbers + NUMBER_TOTALS, *own = totals + step->total_first[TOTAL_KINDS];
    struct step_result *result = &step->results.last;
    *result = (struct step_result){.tops = step_total_count(step, TOTAL_HITS), .depths = step->options.depths};
    for (const struct mean *mean = means; mean < means + MEANS; mean++)
        for (int i = 0; i < step_total_count(step, mean->sum); i++) {
            *mean_in(result, mean, i) = (double)totals[step->total_first[mean->sum] + i];
            if (!mean->shares_number)
                *number_in(result, mean, i) = (double)totals[step->total_first[mean->number] + i];
        }
    divide_sums(step, result);
    result->grad_norm = row->is_training ? (double)row->numbers[NUMBER_NORM] : 0;
    result->loss_scale = (double)row->numbers[NUMBER_SCALE];
    result->is_own_finite = isfinite(step->mesh.size > 1 ? own[OWN_LOSS] : totals[step->total_first[TOTAL_LOSS]]);
    result->has_finite_gradients = !row->is_training || !step->reducer.squares.data || isfinite(own[OWN_SQUARES]);
    read_balance(step, row, result);
    if (row->is_training)
        updates_learn(&step->updates, !isfinite(result->grad_norm));
    return *result;
}

void step_take_losses(struct step *step, int but, struct step_result *sums) {
    while (step_pending(step) > but) {
        struct step_result result = step_take_result(step);
        for (const struct mean *mean = means; mean < means + MEANS; mean++)
            for (int i = 0; i < step_total_count(step, mean->sum); i++) {
                double number = *number_in(&result, mean, i);
                *mean_in(sums, mean, i) += *mean_in(&result, mean, i) * number;
                if (!mean->shares_number)
                    *number_in(sums, mean, i) += number;
            }
    }
}

struct step_result step_mean_losses(const struct step *step, const struct step_result *sums) {
    struct step_result mean = *sums;
    mean.loss_scale = 1;
    mean.tops = step_total_count(step, TOTAL_HITS);
    mean.depths = step->options.depths;
    divide_sums(step, &mean);
    return mean;
}

struct step_result step_result(struct step *step) {
    while (step_pending(step) > 0)
        (void)step_take_result(step);
    return step->results.last;
}

bool step_result_is_good(const struct step_result *result) {
    return isfinite(result->loss) && isfinite(result->grad_norm);
}
