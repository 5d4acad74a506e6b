// Softmax cross entropy over rows of logits. A row belongs to one task. The statistics need one pass over memory: a
// block of columns is read for its maximum and then, still in the L1 cache, for its sum of exponentials. 16-bit logits
// are widened block by block on the stack: there are too many to widen all of them in memory, as half.c does for other
// operations.
#include "ops/cpu/cpu.h"
#include "ops/cpu/vector_math.h"
#include <math.h>
#include <string.h>

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

static unsigned char *logits_at(const struct tensor *logits, int64_t row, int64_t column) {
    return (unsigned char *)logits->data + (size_t)(row * logits->shape[1] + column) * dtype_bytes(logits->dtype);
}

// `count` logits of a row as fp32: in place, or in the buffer.
static float *widen(const struct tensor *logits, int64_t row, struct cpu_range columns, float buffer[COLUMN_PIECE]) {
    unsigned char *from = logits_at(logits, row, columns.first);
    if (logits->dtype == DTYPE_F32)
        return (float *)(void *)from;
    cpu_convert(buffer, DTYPE_F32, from, logits->dtype, columns.end - columns.first);
    return buffer;
}

// When a block raises the maximum, the sum so far is scaled down to it. NaN logits make the sum NaN.
static void row_stats(const struct tensor *logits, int64_t row, float *row_max, float *row_sum) {
    float max = -INFINITY, buffer[COLUMN_PIECE];
    double sum = 0;
    for (int64_t i = 0; i < cpu_pieces(logits->shape[1], COLUMN_PIECE); i++) {
        struct cpu_range columns = cpu_piece(logits->shape[1], COLUMN_PIECE, i);
        const float *x = widen(logits, row, columns, buffer);
        float piece_max = block_max(x, columns.end - columns.first);
        if (piece_max > max) {
            sum *= exp((double)max - (double)piece_max);
            max = piece_max;
        }
        // If all logits so far are minus infinity, the sum is 0; NaN must still propagate.
        sum += (double)block_exp_sum(x, max > -INFINITY ? max : 0.0f, columns.end - columns.first);
    }
    *row_max = max;
    *row_sum = (float)sum;
}

static void softmax_stats_task(void *context, struct cpu_range rows) {
    const struct op_softmax_stats *op = context;
    int64_t columns = op->logits.shape[1];
    for (int64_t n = rows.first; n < rows.end; n++) {
        row_stats(&op->logits, n, (float *)op->row_max.data + n, (float *)op->row_sum.data + n);
        int64_t label = ((const int32_t *)op->labels.data)[n] - op->vocabulary_start;
        float target = 0;
        if (label >= 0 && label < columns)
            cpu_convert(&target, DTYPE_F32, logits_at(&op->logits, n, label), op->logits.dtype, 1);
        ((float *)op->row_target.data)[n] = target;
    }
}

void cpu_softmax_stats(struct device *device, const struct op_softmax_stats *op) {
    cpu_run_ranges(device, op->logits.shape[0], cpu_rows_per_task(op->logits.shape[1]), softmax_stats_task, op);
}

// Serial: there are only three numbers per row and part.
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

// How many logits of a row are larger than its label's; all of them if the label's is NaN.
static int64_t label_rank(const float *x, int64_t columns, int64_t label) {
    int64_t larger = 0;
    if (isnan(x[label]))
        return columns;
    for (int64_t c = 0; c < columns; c++)
        larger += x[c] > x[label] || (x[c] == x[label] && c < label);
    return larger;
}

// Serial: there is one row per query and one column per context, few enough for one thread.
void cpu_top_hits(struct device *device, const struct op_top_hits *op) {
    (void)device;
    int64_t columns = op->logits.shape[1];
    for (int64_t n = 0; n < op->logits.shape[0]; n++) {
        const float *x = (const float *)op->logits.data + n * columns;
        int64_t rank = label_rank(x, columns, ((const int32_t *)op->labels.data)[n]);
        for (int i = 0; i < op->count; i++)
            ((float *)op->hits.data)[i] += rank < op->tops[i];
    }
}

CPU_CLONES static void softmax_gradient(float *logits, float max, float factor, int64_t columns) {
#pragma omp simd
    for (int64_t c = 0; c < columns; c++)
        logits[c] = factor * vector_exp(logits[c] - max);
}

// The softmax gradient times the slope of the cap, computed from the capped logits.
CPU_CLONES static void capped_gradient(float *logits, float max, float factor, float cap, int64_t columns) {
    float inverse = 1.0f / cap;
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) {
        float t = logits[c] * inverse;
        logits[c] = factor * vector_exp(logits[c] - max) * (1.0f - t * t);
    }
}

// The logarithm of the softmax's denominator.
static float log_denominator(const struct op_cross_entropy *op, int64_t n) {
    return logf(((const float *)op->row_sum.data)[n]) + ((const float *)op->row_max.data)[n];
}

// The gradient in place of a row of logits.
static void row_gradient(const struct op_cross_entropy *op, int64_t n, float weight) {
    float max = ((const float *)op->row_max.data)[n], sum = ((const float *)op->row_sum.data)[n], buffer[COLUMN_PIECE];
    int64_t label = ((const int32_t *)op->labels.data)[n] - op->vocabulary_start;
    float factor = (op->z > 0 ? weight * (1 + 2 * op->z * log_denominator(op, n)) : weight) / sum;
    for (int64_t i = 0; i < cpu_pieces(op->logits.shape[1], COLUMN_PIECE); i++) {
        struct cpu_range columns = cpu_piece(op->logits.shape[1], COLUMN_PIECE, i);
        float *x = widen(&op->logits, n, columns, buffer);
        bool is_here = label >= columns.first && label < columns.end;
        float t = is_here && op->cap > 0 ? x[label - columns.first] / op->cap : 0;
        if (op->cap > 0)
            capped_gradient(x, max, factor, op->cap, columns.end - columns.first);
        else
            softmax_gradient(x, max, factor, columns.end - columns.first);
        if (is_here)
            x[label - columns.first] -= weight * (1.0f - t * t);
        if (x == buffer)
            cpu_convert(logits_at(&op->logits, n, columns.first), op->logits.dtype, buffer, DTYPE_F32,
                        columns.end - columns.first);
    }
}

CPU_CLONES static void block_cap(float *x, float cap, int64_t columns) {
    float inverse = 1.0f / cap;
#pragma omp simd
    for (int64_t c = 0; c < columns; c++)
        x[c] = cap * vector_tanh(x[c] * inverse);
}

static void softcap_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_softcap *op = context;
    float buffer[COLUMN_PIECE];
    int64_t all = op->x.shape[1], pieces = cpu_pieces(all, COLUMN_PIECE);
    struct cpu_range columns = cpu_piece(all, COLUMN_PIECE, index % pieces);
    float *x = widen(&op->x, index / pieces, columns, buffer);
    block_cap(x, op->cap, columns.end - columns.first);
    if (x == buffer)
        cpu_convert(logits_at(&op->x, index / pieces, columns.first), op->x.dtype, buffer, DTYPE_F32,
                    columns.end - columns.first);
}

void cpu_softcap(struct device *device, const struct op_softcap *op) {
    cpu_run(device, op->x.shape[0] * cpu_pieces(op->x.shape[1], COLUMN_PIECE), softcap_task, op);
}

static void cross_entropy_task(void *context, struct cpu_range rows) {
    const struct op_cross_entropy *op = context;
    int64_t columns = op->logits.shape[1];
    for (int64_t n = rows.first; n < rows.end; n++) {
        float all = log_denominator(op, n), loss = all - ((const float *)op->row_target.data)[n];
        ((float *)op->losses.data)[n] = op->z > 0 ? loss + op->z * all * all : loss;
        if (!op->weights.data)
            continue;
        float weight = ((const float *)op->weights.data)[n];
        if (weight == 0)
            memset(logits_at(&op->logits, n, 0), 0, (size_t)columns * dtype_bytes(op->logits.dtype));
        else
            row_gradient(op, n, weight);
    }
}

void cpu_cross_entropy(struct device *device, const struct op_cross_entropy *op) {
    cpu_run_ranges(device, op->logits.shape[0], cpu_rows_per_task(op->logits.shape[1]), cross_entropy_task, op);
}
