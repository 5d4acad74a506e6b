// Softmax cross entropy over rows of logits. A row belongs to one task. The statistics are taken in one pass over
// memory: a block of columns is read for its maximum and then, still in the nearest cache, for its sum of
// exponentials.
#include "ops/cpu/cpu.h"
#include "ops/cpu/vector_math.h"
#include <math.h>

enum { COLUMN_PIECE = 2048 };

CPU_CLONES static float block_max(const float *x, int64_t count) {
    float max = -INFINITY;
    CPU_SIMD_MAX
    for (int64_t c = 0; c < count; c++)
        max = vector_max(x[c], max);
    return max;
}

CPU_CLONES static float block_exp_sum(const float *x, float max, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < count; c++)
        sum += vector_exp(x[c] - max);
    return sum;
}

// When a block raises the maximum, the sum so far is scaled down to it. NaN logits make the sum NaN.
static void row_stats(const float *logits, int64_t columns, float *row_max, float *row_sum) {
    float max = -INFINITY;
    double sum = 0;
    for (int64_t c = 0; c < columns; c += COLUMN_PIECE) {
        int64_t count = columns - c < COLUMN_PIECE ? columns - c : COLUMN_PIECE;
        float piece_max = block_max(logits + c, count);
        if (piece_max > max) {
            sum *= exp((double)max - (double)piece_max);
            max = piece_max;
        }
        // Where everything so far is minus infinity the sum is 0, and NaN must still come through.
        sum += (double)block_exp_sum(logits + c, max > -INFINITY ? max : 0.0f, count);
    }
    *row_max = max;
    *row_sum = (float)sum;
}

static void softmax_stats_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_softmax_stats *op = context;
    int64_t columns = op->logits.shape[1];
    struct cpu_range rows = cpu_piece(op->logits.shape[0], cpu_rows_per_task(columns), index);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *logits = (const float *)op->logits.data + n * columns;
        row_stats(logits, columns, (float *)op->row_max.data + n, (float *)op->row_sum.data + n);
        int64_t label = ((const int32_t *)op->labels.data)[n] - op->vocabulary_start;
        ((float *)op->row_target.data)[n] = label >= 0 && label < columns ? logits[label] : 0.0f;
    }
}

void cpu_softmax_stats(struct device *device, const struct op_softmax_stats *op) {
    cpu_run(device, cpu_pieces(op->logits.shape[0], cpu_rows_per_task(op->logits.shape[1])), softmax_stats_task, op);
}

// Few numbers: three a row and part.
void cpu_softmax_merge(struct device *device, const struct op_softmax_merge *op) {
    (void)device;
    int64_t rows = op->parts.shape[2];
    const float *parts = op->parts.data;
    for (int64_t n = 0; n < rows; n++) {
        float max = -INFINITY;
        double sum = 0, target = 0;
        for (int64_t p = 0; p < op->parts.shape[0]; p++)
            max = vector_max(parts[3 * p * rows + n], max);
        for (int64_t p = 0; p < op->parts.shape[0]; p++) {
            const float *part = parts + 3 * p * rows + n;
            sum += (double)part[rows] * exp((double)part[0] - (double)(max > -INFINITY ? max : 0.0f));
            target += (double)part[2 * rows];
        }
        ((float *)op->row_max.data)[n] = max;
        ((float *)op->row_sum.data)[n] = (float)sum;
        ((float *)op->row_target.data)[n] = (float)target;
    }
}

CPU_CLONES static void softmax_gradient(float *logits, float max, float factor, int64_t columns) {
#pragma omp simd
    for (int64_t c = 0; c < columns; c++)
        logits[c] = factor * vector_exp(logits[c] - max);
}

static void cross_entropy_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_cross_entropy *op = context;
    int64_t columns = op->logits.shape[1];
    struct cpu_range rows = cpu_piece(op->logits.shape[0], cpu_rows_per_task(columns), index);
    for (int64_t n = rows.first; n < rows.end; n++) {
        float max = ((const float *)op->row_max.data)[n], sum = ((const float *)op->row_sum.data)[n];
        ((float *)op->losses.data)[n] = logf(sum) + max - ((const float *)op->row_target.data)[n];
        if (!op->weights.data)
            continue;
        float weight = ((const float *)op->weights.data)[n];
        float *logits = (float *)op->logits.data + n * columns;
        if (weight == 0) {
            for (int64_t c = 0; c < columns; c++)
                logits[c] = 0;
            continue;
        }
        softmax_gradient(logits, max, weight / sum, columns);
        int64_t label = ((const int32_t *)op->labels.data)[n] - op->vocabulary_start;
        if (label >= 0 && label < columns)
            logits[label] -= weight;
    }
}

void cpu_cross_entropy(struct device *device, const struct op_cross_entropy *op) {
    cpu_run(device, cpu_pieces(op->logits.shape[0], cpu_rows_per_task(op->logits.shape[1])), cross_entropy_task, op);
}
