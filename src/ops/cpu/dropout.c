// Dropout: masks from Philox, and the two operations made of nothing else. Four neighbouring columns share one call of
// the generator; a piece of a row runs 64 calls side by side in vector registers.
#include "ops/cpu/dropout.h"
#include "ops/cpu/cpu.h"
#include "base/rng.h"
#include <math.h>

struct dropout_row dropout_row(const struct dropout *dropout, int64_t row) {
    double threshold = ceil((double)dropout->rate * 4294967296.0);
    return (struct dropout_row){
        .seed = dropout->seed,
        .row_id = (uint64_t)((const int64_t *)dropout->row_ids.data)[row],
        .site = dropout->site,
        .threshold = threshold > 4294967295.0 ? UINT32_MAX : (uint32_t)threshold,
        .keep_scale = 1.0f / (1.0f - dropout->rate),
    };
}

struct dropout_row dropout_attention_row(const struct dropout *dropout, int64_t row, int64_t head) {
    struct dropout_row result = dropout_row(dropout, row);
    result.site += (uint32_t)(dropout->first_head + head) << 16;
    return result;
}

CPU_CLONES void dropout_factors(float factors[DROPOUT_PIECE], const struct dropout_row *row, int64_t first_column,
                                int64_t count) {
    int64_t groups = (count + 3) / 4;
    for (int64_t group = 0; group < groups; group++) {
        struct philox random = philox4x32(row->seed, (uint32_t)(first_column / 4 + group), (uint32_t)row->row_id,
                                          (uint32_t)(row->row_id >> 32), row->site);
        for (int64_t i = 0; i < 4; i++)
            factors[4 * group + i] = random.word[i] >= row->threshold ? row->keep_scale : 0.0f;
    }
}

CPU_CLONES static void add_row(float *out, const float *x, const float *residual, const float *bias,
                               const float *factors, int64_t count) {
    for (int64_t c = 0; c < count; c++) {
        float value = x[c];
        if (bias)
            value += bias[c];
        if (factors)
            value *= factors[c];
        if (residual)
            value += residual[c];
        out[c] = value;
    }
}

static void dropout_add_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_dropout_add *op = context;
    int64_t channels = op->x.shape[1];
    struct cpu_range rows = cpu_piece(op->x.shape[0], cpu_rows_per_task(channels), index);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *x = (const float *)op->x.data + n * channels;
        const float *residual = op->residual.data ? (const float *)op->residual.data + n * channels : NULL;
        float *out = (float *)op->out.data + n * channels;
        if (op->dropout.rate == 0) {
            add_row(out, x, residual, op->bias.data, NULL, channels);
            continue;
        }
        struct dropout_row row = dropout_row(&op->dropout, n);
        float factors[DROPOUT_PIECE];
        for (int64_t c = 0; c < channels; c += DROPOUT_PIECE) {
            int64_t count = channels - c < DROPOUT_PIECE ? channels - c : DROPOUT_PIECE;
            dropout_factors(factors, &row, c, count);
            add_row(out + c, x + c, residual ? residual + c : NULL,
                    op->bias.data ? (const float *)op->bias.data + c : NULL, factors, count);
        }
    }
}

void cpu_dropout_add(struct device *device, const struct op_dropout_add *op) {
    cpu_run(device, cpu_pieces(op->x.shape[0], cpu_rows_per_task(op->x.shape[1])), dropout_add_task, op);
}

void cpu_dropout_backward(struct device *device, const struct op_dropout_backward *op) {
    if (op->dropout.rate != 0 || op->dx.data != op->dy.data) {
        struct op_dropout_add masked = {.out = op->dx, .x = op->dy, .dropout = op->dropout};
        cpu_dropout_add(device, &masked);
    }
    if (op->dbias.data)
        cpu_add_column_sums(device, op->dbias, op->dx);
}
