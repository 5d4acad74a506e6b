// The results of steps on their way back to the host. Steps are queued ahead of the device. The numbers of each step
// are copied after it to a row of host memory of its own, and read once its event has passed, so the host waits for
// that step and not for those queued after it. In the other direction, each row carries the rates of its step's update,
// see optim/adam.h.
//
// Rows are taken in the order in which they were queued; a row is reused only after it was taken.
#include "step/results.h"
#include "base/error.h"
#include "ops/device.h"

#include <math.h>
#include <string.h>

enum { NUMBER_NORM = TOTAL_COUNT, NUMBER_SCALE, NUMBER_COUNT };
static const size_t ROW_FLOATS = NUMBER_COUNT + (size_t)ADAM_MOST_RATES * RATE_LENGTH;

int results_open(struct step *step) {
    struct step_results *results = &step->results;
    results->memory = device_host_alloc(step->device, STEP_ROWS * ROW_FLOATS * sizeof(float));
    if (!results->memory)
        return -1;
    for (int i = 0; i < STEP_ROWS; i++) {
        struct step_row *row = &results->rows[i];
        row->numbers = results->memory + (size_t)i * ROW_FLOATS;
        row->rates = row->numbers + NUMBER_COUNT;
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

void results_send_rates(struct step *step, const struct adam_pace *paces) {
    CHECK(step_pending(step) <= STEP_MOST_AHEAD);
    struct step_row *row = row_of(step, step->results.queued);
    adam_make_rates(&step->adam, paces, step_pending(step) + 1, row->rates);
    device_copy_in(step->device, step->adam.rates, row->rates);
}

static void bring(struct step *step, float *to_host, struct tensor from) {
    step->device->ops->copy_out(step->device, to_host, from.data, tensor_bytes(from), STREAM_COMPUTE);
}

void results_queue(struct step *step, bool is_training) {
    struct step_row *row = row_of(step, step->results.queued++);
    bring(step, row->numbers, step->totals);
    row->is_training = is_training;
    struct tensor scale = scaler_scale(&step->adam.scaler);
    if (is_training)
        bring(step, row->numbers + NUMBER_NORM, adam_grad_norm(&step->adam));
    if (is_training && scale.data)
        bring(step, row->numbers + NUMBER_SCALE, scale);
    else if (!step->device->ops->is_paper)
        row->numbers[NUMBER_SCALE] = 1;
    step->device->ops->event_record(step->device, row->done, STREAM_COMPUTE);
}

struct step_result step_take_result(struct step *step) {
    CHECK(step_pending(step) > 0);
    struct step_row *row = row_of(step, step->results.taken++);
    step->device->ops->event_wait(step->device, row->done);
    float numbers[NUMBER_COUNT] = {0};
    if (!step->device->ops->is_paper)
        memcpy(numbers, row->numbers, sizeof numbers);
    double tokens = (double)numbers[TOTAL_TOKENS], pairs = (double)numbers[TOTAL_PAIRS];
    step->results.last = (struct step_result){
        .loss = (double)numbers[TOTAL_LOSS] / (tokens > 1 ? tokens : 1),
        .tokens = tokens,
        .pair_loss = (double)numbers[TOTAL_PAIR_LOSS] / (pairs > 1 ? pairs : 1),
        .pairs = pairs,
        .grad_norm = row->is_training ? (double)numbers[NUMBER_NORM] : 0,
        .loss_scale = (double)numbers[NUMBER_SCALE],
    };
    if (row->is_training)
        adam_learn(&step->adam, !isfinite(step->results.last.grad_norm));
    return step->results.last;
}

void step_take_losses(struct step *step, int but, struct step_losses *sum) {
    while (step_pending(step) > but) {
        struct step_result result = step_take_result(step);
        sum->loss += result.loss * result.tokens;
        sum->tokens += result.tokens;
        sum->pair_loss += result.pair_loss * result.pairs;
        sum->pairs += result.pairs;
    }
}

struct step_result step_result(struct step *step) {
    while (step_pending(step) > 0)
        (void)step_take_result(step);
    return step->results.last;
}
