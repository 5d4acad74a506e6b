// A micro-batch on its way to the device: six arrays in one block, one copy.
// Block: row ids (N) i64 | tokens (N) i32 | positions (N) i32 | labels (N) i32 | mask (N) fp32 | weights (N) fp32.
#include "base/error.h"
#include "step/step.h"

#include <string.h>

size_t step_input_bytes(int64_t rows) {
    return (size_t)rows * (sizeof(int64_t) + 3 * sizeof(int32_t) + 2 * sizeof(float));
}

static size_t offset_of(int64_t rows, int array) {
    return array == 0 ? 0 : (size_t)rows * (sizeof(int64_t) + 4 * (size_t)(array - 1));
}

struct device_batch step_input_tensors(const struct step *step, int64_t rows, struct tensor *row_ids) {
    unsigned char *block = step->inputs.data;
    *row_ids = tensor_1d(block, DTYPE_I64, rows);
    return (struct device_batch){
        .tokens = tensor_1d(block + offset_of(rows, 1), DTYPE_I32, rows),
        .positions = tensor_1d(block + offset_of(rows, 2), DTYPE_I32, rows),
        .labels = tensor_1d(block + offset_of(rows, 3), DTYPE_I32, rows),
        .mask = tensor_1d(block + offset_of(rows, 4), DTYPE_F32, rows),
        .weights = tensor_1d(block + offset_of(rows, 5), DTYPE_F32, rows),
        .loss_sum = tensor_rows(step->totals, 0, 1),
    };
}

// Dropout masks are keyed by the token's place in the run: sample number and position.
static void fill_row_ids(int64_t *row_ids, const struct step_input *input) {
    for (int64_t b = 0; b < input->B; b++)
        for (int64_t t = 0; t < input->T; t++)
            row_ids[b * input->T + t] = (input->samples ? input->samples[b] : b) * input->T + t;
}

// Megatron's mean of means: each micro-batch divides by its own count of tokens.
static double fill_weights(float *weights, const float *mask, int64_t rows, const struct step_upload *upload) {
    double count = 0;
    for (int64_t n = 0; n < rows; n++)
        count += (double)mask[n];
    double divisor = (count > 1 ? count : 1) * upload->divisor;
    for (int64_t n = 0; n < rows; n++)
        weights[n] = upload->has_weights ? (float)((double)mask[n] / divisor) : 0;
    return count;
}

double step_upload_input(struct step *step, const struct step_input *input, const struct step_upload *upload) {
    int64_t rows = input->B * input->T;
    CHECK(step_input_bytes(rows) <= tensor_bytes(step->inputs));
    const struct ops *ops = step->device->ops;
    struct step_slot *slot = &step->slots[step->next_slot];
    step->next_slot = !step->next_slot;
    if (slot->is_used)
        ops->event_wait(step->device, slot->copied);
    size_t bytes = sizeof(int32_t) * (size_t)rows;
    fill_row_ids((int64_t *)(void *)slot->host, input);
    memcpy(slot->host + offset_of(rows, 1), input->tokens, bytes);
    memcpy(slot->host + offset_of(rows, 2), input->positions, bytes);
    float *mask = (float *)(void *)(slot->host + offset_of(rows, 4));
    float *weights = (float *)(void *)(slot->host + offset_of(rows, 5));
    double count = 0;
    if (input->labels) {
        memcpy(slot->host + offset_of(rows, 3), input->labels, bytes);
        memcpy(mask, input->mask, bytes);
        count = fill_weights(weights, mask, rows, upload);
    }
    ops->copy_in(step->device, step->inputs.data, slot->host, step_input_bytes(rows), STREAM_COMPUTE);
    ops->event_record(step->device, slot->copied, STREAM_COMPUTE);
    slot->is_used = true;
    return count;
}
