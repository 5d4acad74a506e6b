// LayerNorm and RMSNorm (which is LayerNorm with a mean of 0 and no bias), with the residual addition and dropout that
// come before them. Forward handles each row in one task. Backward first computes the column sums for gain and bias
// (they read dy, which ddelta may overwrite), then the rows, then the column sums of ddelta.
//
// Arithmetic is in double, and results are rounded once: norms of small numbers amplify rounding, and memory bandwidth
// limits the speed anyway. Mean and rstd are rounded before use, so that backward can reproduce forward's result; gain
// plus offset is rounded too, so that it equals a gain stored without an offset.
#include "ops/cpu/cpu.h"
#include "ops/cpu/dropout.h"
#include <math.h>
#include <string.h>

struct norm_row {
    float *y;
    const float *x, *gain, *bias;  // bias may be NULL
    bool is_rms;                   // then there is no bias
    float gain_offset;
    float epsilon;
    float mean, rstd;
};

// The result of a row whose mean and rstd are known.
CPU_CLONES static void apply(const struct norm_row *row, int64_t channels) {
    const float *x = row->x, *gain = row->gain, *bias = row->bias;
    float *y = row->y;
    double mean = (double)row->mean, rstd = (double)row->rstd;
    float offset = row->gain_offset;
    if (bias) {
#pragma omp simd
        for (int64_t c = 0; c < channels; c++)
            y[c] = (float)(((double)x[c] - mean) * rstd * (double)(gain[c] + offset) + (double)bias[c]);
    } else if (!row->is_rms) {
#pragma omp simd
        for (int64_t c = 0; c < channels; c++)
            y[c] = (float)(((double)x[c] - mean) * rstd * (double)(gain[c] + offset));
    } else {
#pragma omp simd
        for (int64_t c = 0; c < channels; c++)
            y[c] = (float)((double)x[c] * rstd * (double)(gain[c] + offset));
    }
}

// Two passes, mean first: a one-pass formula would lose the variance of values far from zero.
CPU_CLONES static void find_moments(struct norm_row *row, int64_t channels) {
    const float *x = row->x;
    double sum = 0, squares = 0;
    if (!row->is_rms) {
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < channels; c++)
            sum += (double)x[c];
    }
    double mean = sum / (double)channels;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < channels; c++)
        squares += ((double)x[c] - mean) * ((double)x[c] - mean);
    row->mean = (float)mean;
    row->rstd = (float)(1 / sqrt(squares / (double)channels + (double)row->epsilon));
}

static void norm_forward_task(void *context, struct cpu_range rows) {
    const struct op_norm_forward *op = context;
    int64_t channels = op->x.shape[1];
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *x = (const float *)op->x.data + n * channels;
        if (op->delta.data) {
            float *sum = (float *)op->sum.data + n * channels;
            struct dropout_add_row row = {.out = sum,
                                          .x = (const float *)op->delta.data + n * channels,
                                          .residual = x,
                                          .bias = op->delta_bias.data};
            dropout_add(&row, &op->dropout, n, channels);
            x = sum;
        }
        struct norm_row row = {.y = (float *)op->y.data + n * channels,
                               .x = x,
                               .gain = op->gain.data,
                               .bias = op->bias.data,
                               .is_rms = op->kind == NORM_RMS,
                               .gain_offset = op->gain_offset,
                               .epsilon = op->epsilon};
        find_moments(&row, channels);
        apply(&row, channels);
        if (op->mean.data)
            ((float *)op->mean.data)[n] = row.mean;
        ((float *)op->rstd.data)[n] = row.rstd;
    }
}

void cpu_norm_forward(struct device *device, const struct op_norm_forward *op) {
    cpu_run_ranges(device, op->x.shape[0], cpu_rows_per_task(op->x.shape[1]), norm_forward_task, op);
}

// dgain += sum of dy * xhat, dbias += sum of dy, over all rows of a block of columns.
struct gain_columns {
    float *dgain, *dbias;
    const float *dy, *x;       // (N, C), from the block's first column
    const float *mean, *rstd;  // (N); no mean: RMSNorm; dbias may be NULL
    int64_t rows, stride;
};

CPU_CLONES static void add_gain_columns(const struct gain_columns *g, int64_t count) {
    double gain_sum[CPU_COLUMN_BLOCK] = {0}, bias_sum[CPU_COLUMN_BLOCK] = {0};
    for (int64_t n = 0; n < g->rows; n++) {
        const float *dy = g->dy + n * g->stride, *x = g->x + n * g->stride;
        double mean = g->mean ? (double)g->mean[n] : 0, rstd = (double)g->rstd[n];
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            gain_sum[c] += (double)dy[c] * (((double)x[c] - mean) * rstd);
            bias_sum[c] += (double)dy[c];
        }
    }
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        g->dgain[c] = (float)((double)g->dgain[c] + gain_sum[c]);
    if (!g->dbias)
        return;
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        g->dbias[c] = (float)((double)g->dbias[c] + bias_sum[c]);
}

struct gain_job {
    const struct op_norm_backward *op;
    int64_t block;
};

static void gain_task(void *context, struct cpu_range columns) {
    const struct gain_job *job = context;
    const struct op_norm_backward *op = job->op;
    int64_t channels = op->x.shape[1];
    struct gain_columns g = {
        .dgain = (float *)op->dgain.data + columns.first,
        .dbias = op->dbias.data ? (float *)op->dbias.data + columns.first : NULL,
        .dy = (const float *)op->dy.data + columns.first,
        .x = (const float *)op->x.data + columns.first,
        .mean = op->mean.data,
        .rstd = op->rstd.data,
        .rows = op->x.shape[0],
        .stride = channels,
    };
    add_gain_columns(&g, columns.end - columns.first);
}

struct gradient_row {
    float *dx, *ddelta;                      // ddelta may be NULL
    const float *dy, *x, *gain, *dresidual;  // dresidual may be NULL
    float gain_offset, mean, rstd;
    bool is_rms;
};

// With g = dy * gain and xhat the normalised row: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) + dresidual.
// RMSNorm has no term mean(g).
CPU_CLONES static void norm_gradient(const struct gradient_row *row, int64_t channels) {
    const float *dy = row->dy, *x = row->x, *gain = row->gain, *dresidual = row->dresidual;
    float *dx = row->dx, *ddelta = row->ddelta;
    double mean = (double)row->mean, rstd = (double)row->rstd;
    float offset = row->gain_offset;
    double sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t c = 0; c < channels; c++) {
        double g = (double)dy[c] * (double)(gain[c] + offset);
        sum += g;
        product += g * (((double)x[c] - mean) * rstd);
    }
    sum = row->is_rms ? 0 : sum / (double)channels;
    product /= (double)channels;
#pragma omp simd
    for (int64_t c = 0; c < channels; c++) {
        double value = (double)dy[c] * (double)(gain[c] + offset) - sum - ((double)x[c] - mean) * rstd * product;
        dx[c] = (float)(rstd * value + (dresidual ? (double)dresidual[c] : 0));
    }
    if (ddelta)
        memcpy(ddelta, dx, (size_t)channels * sizeof *dx);
}

CPU_CLONES static void multiply(float *out, const float *x, const float *factors, int64_t count) {
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        out[c] = x[c] * factors[c];
}

static void norm_backward_task(void *context, struct cpu_range rows) {
    const struct op_norm_backward *op = context;
    int64_t channels = op->x.shape[1];
    bool is_dropped = op->ddelta.data && op->dropout.rate != 0;
    bool is_copied = op->ddelta.data && !is_dropped && op->ddelta.data != op->dx.data;
    for (int64_t n = rows.first; n < rows.end; n++) {
        float *ddelta = op->ddelta.data ? (float *)op->ddelta.data + n * channels : NULL;
        struct gradient_row row = {
            .dx = (float *)op->dx.data + n * channels,
            .ddelta = is_copied ? ddelta : NULL,
            .dy = (const float *)op->dy.data + n * channels,
            .x = (const float *)op->x.data + n * channels,
            .gain = op->gain.data,
            .gain_offset = op->gain_offset,
            .dresidual = op->dresidual.data ? (const float *)op->dresidual.data + n * channels : NULL,
            .mean = op->mean.data ? ((const float *)op->mean.data)[n] : 0.0f,
            .rstd = ((const float *)op->rstd.data)[n],
            .is_rms = op->kind == NORM_RMS,
        };
        norm_gradient(&row, channels);
        if (op->y.data)  // after dy was read, which it may alias
            apply(&(struct norm_row){.y = (float *)op->y.data + n * channels,
                                     .x = row.x,
                                     .gain = row.gain,
                                     .bias = op->bias.data,
                                     .is_rms = row.is_rms,
                                     .gain_offset = op->gain_offset,
                                     .mean = row.mean,
                                     .rstd = row.rstd},
                  channels);
        if (!is_dropped)
            continue;
        struct dropout_row dropout = dropout_row(&op->dropout, n);
        float factors[DROPOUT_PIECE];
        for (int64_t c = 0; c < channels; c += DROPOUT_PIECE) {
            int64_t count = channels - c < DROPOUT_PIECE ? channels - c : DROPOUT_PIECE;
            dropout_factors(factors, &dropout, c, count);
            multiply(ddelta + c, row.dx + c, factors, count);
        }
    }
}

void cpu_norm_backward(struct device *device, const struct op_norm_backward *op) {
    int64_t rows = op->x.shape[0], channels = op->x.shape[1];
    struct gain_job gains = {op, cpu_column_block(device, channels)};
    cpu_run_ranges(device, channels, gains.block, gain_task, &gains);
    cpu_run_ranges(device, rows, cpu_rows_per_task(channels), norm_backward_task, op);
    if (op->ddelta_bias.data)
        cpu_add_column_sums(device, op->ddelta_bias, op->ddelta);
}
