// Positions in attention: rotary angles on queries and keys (Su et al. 2021), T5's table of biases by distance, and
// ALiBi's biases.
#include "ops/cpu/cpu.h"
#include "ops/formulas.h"
#include <math.h>
#include <stdlib.h>

struct rotation {
    float cosine[ROPE_MOST_PAIRS], sine[ROPE_MOST_PAIRS];
    int64_t pairs;
};

static void set_rotation(struct rotation *rotation, const struct op_rope *op, int32_t position) {
    double factor = op->factor == 0.0f ? 1 : (double)op->factor;
    rotation->pairs = op->pairs;
    for (int64_t j = 0; j < op->pairs; j++) {
        double angle = (double)position * op->frequencies[j];
        rotation->cosine[j] = (float)(factor * cos(angle));
        rotation->sine[j] = (float)(factor * (op->is_inverse ? -sin(angle) : sin(angle)));
    }
}

CPU_CLONES static void rotate_halves(float *x, const struct rotation *rotation) {
    const float *cosine = rotation->cosine, *sine = rotation->sine;
    int64_t pairs = rotation->pairs;
#pragma omp simd
    for (int64_t j = 0; j < pairs; j++) {
        float a = x[j], b = x[pairs + j];
        x[j] = a * cosine[j] - b * sine[j];
        x[pairs + j] = b * cosine[j] + a * sine[j];
    }
}

CPU_CLONES static void rotate_interleaved(float *x, const struct rotation *rotation) {
    const float *cosine = rotation->cosine, *sine = rotation->sine;
#pragma omp simd
    for (int64_t j = 0; j < rotation->pairs; j++) {
        float a = x[2 * j], b = x[2 * j + 1];
        x[2 * j] = a * cosine[j] - b * sine[j];
        x[2 * j + 1] = b * cosine[j] + a * sine[j];
    }
}

static int64_t rope_rows_per_task(const struct op_rope *op) {
    return cpu_rows_per_task(op->x.shape[2] * 2 * op->pairs);
}

static void rope_task(void *context, struct cpu_range rows) {
    const struct op_rope *op = context;
    int64_t tokens = op->x.shape[1];
    struct rotation rotation;
    for (int64_t n = rows.first; n < rows.end; n++) {
        float *row = (float *)op->x.data + n / tokens * op->x.stride[0] + n % tokens * op->x.stride[1];
        set_rotation(&rotation, op, ((const int32_t *)op->positions.data)[n]);
        for (int64_t head = 0; head < op->x.shape[2]; head++) {
            if (op->is_interleaved)
                rotate_interleaved(row + head * op->x.stride[2], &rotation);
            else
                rotate_halves(row + head * op->x.stride[2], &rotation);
        }
    }
}

void cpu_rope(struct device *device, const struct op_rope *op) {
    cpu_run_ranges(device, op->x.shape[0] * op->x.shape[1], rope_rows_per_task(op), rope_task, op);
}

// Both passes are small, a few thousand distances for each head, so one task does them in order.
void cpu_relative_bias_forward(struct device *device, const struct op_relative_bias_forward *op) {
    (void)device;
    struct relative_borders borders;
    relative_borders(&borders, &op->rule);
    int64_t heads = op->bias.shape[0], width = op->bias.shape[1];
    float *bias = op->bias.data;
    for (int64_t w = 0; w < width; w++) {
        int64_t bucket = relative_bucket(&borders, op->rule.is_bidirectional, op->rule.first_distance + w);
        for (int64_t h = 0; h < heads; h++)
            bias[h * width + w] = ((const float *)op->table.data)[bucket * heads + h];
    }
}

void cpu_relative_bias_backward(struct device *device, const struct op_relative_bias_backward *op) {
    (void)device;
    struct relative_borders borders;
    relative_borders(&borders, &op->rule);
    int64_t batches = op->dbias.shape[0], heads = op->dbias.shape[1], width = op->dbias.shape[2];
    const float *dbias = op->dbias.data;
    for (int64_t w = 0; w < width; w++) {
        int64_t bucket = relative_bucket(&borders, op->rule.is_bidirectional, op->rule.first_distance + w);
        for (int64_t h = 0; h < heads; h++) {
            double sum = 0;
            for (int64_t b = 0; b < batches; b++)
                sum += (double)dbias[(b * heads + h) * width + w];
            ((float *)op->dtable.data)[bucket * heads + h] += (float)sum;
        }
    }
}

void cpu_alibi(struct device *device, const struct op_alibi *op) {
    (void)device;
    int64_t width = op->bias.shape[1];
    for (int64_t h = 0; h < op->bias.shape[0]; h++) {
        float slope = op->scale * alibi_slope(op->first_head + h, op->heads), *row = (float *)op->bias.data + h * width;
        for (int64_t w = 0; w < width; w++)
            row[w] = -slope * (float)llabs(op->first_distance + w);
    }
}
