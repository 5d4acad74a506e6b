// Dropout: masks from Philox, and the two operations that consist of dropout alone. Eight neighbouring columns share
// one call of the generator; 8 calls run side by side in vector registers.
#include "ops/cpu/dropout.h"
#include "ops/cpu/cpu.h"
#include "ops/formulas.h"

enum { PHILOX_LANES = DROPOUT_GRAIN / 8 };

struct dropout_row dropout_row(const struct dropout *dropout, int64_t row) {
    return (struct dropout_row){
        .seed = dropout->seed,
        .row_id = (uint64_t)((const int64_t *)dropout->row_ids.data)[row],
        .site = dropout->site,
        .threshold = dropout_threshold(dropout->rate),
        .keep_scale = dropout_scale(dropout->rate),
    };
}

struct dropout_row dropout_attention_row(const struct dropout *dropout, int64_t row, int64_t head) {
    struct dropout_row result = dropout_row(dropout, row);
    result.site += (uint32_t)(dropout->first_head + head) << 16;
    return result;
}

// philox4x32_7 of base/rng.h for several counters at once: the same seven rounds, written for vector lanes. word[4 * l
// + w] is word w of the call with first counter `group + l`.
CPU_INLINE void philox_lanes(uint32_t word[4 * PHILOX_LANES], const struct dropout_row *row, uint32_t group) {
    uint32_t low = (uint32_t)row->seed, high = (uint32_t)(row->seed >> 32);
    uint32_t row_low = (uint32_t)row->row_id, row_high = (uint32_t)(row->row_id >> 32), site = row->site;
#pragma omp simd
    for (uint32_t l = 0; l < PHILOX_LANES; l++) {
        uint32_t c0 = group + l, c1 = row_low, c2 = row_high, c3 = site, k0 = low, k1 = high;
#pragma GCC unroll 7
        for (int round = 0; round < 7; round++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
            c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c1 = (uint32_t)p1;
            c3 = (uint32_t)p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        word[4 * l + 0] = c0;
        word[4 * l + 1] = c1;
        word[4 * l + 2] = c2;
        word[4 * l + 3] = c3;
    }
}

CPU_CLONES void dropout_factors(float *factors, const struct dropout_row *row, int64_t first_column, int64_t count) {
    uint32_t threshold = row->threshold;
    float keep_scale = row->keep_scale;
    for (int64_t first = 0; first < count; first += DROPOUT_GRAIN) {
        uint32_t word[4 * PHILOX_LANES];
        philox_lanes(word, row, (uint32_t)((first_column + first) / 8));
        float *out = factors + first;
#pragma omp simd
        for (int64_t i = 0; i < 4 * PHILOX_LANES; i++) {
            out[2 * i + 0] = (word[i] & 0xFFFF) >= threshold ? keep_scale : 0.0f;
            out[2 * i + 1] = word[i] >> 16 >= threshold ? keep_scale : 0.0f;
        }
    }
}

// Factors of jitter; see struct op_jitter. first_column and the size of `factors` are as in dropout_factors.
CPU_CLONES static void jitter_factors(float *factors, const struct dropout_row *row, int64_t first_column,
                                      int64_t count, float epsilon) {
    for (int64_t first = 0; first < count; first += DROPOUT_GRAIN) {
        uint32_t word[4 * PHILOX_LANES];
        philox_lanes(word, row, (uint32_t)((first_column + first) / 8));
        float *out = factors + first;
#pragma omp simd
        for (int64_t i = 0; i < 4 * PHILOX_LANES; i++) {
            out[2 * i + 0] = 1.0f + epsilon * (((float)(word[i] & 0xFFFF) - 32767.5f) / 32768.0f);
            out[2 * i + 1] = 1.0f + epsilon * (((float)(word[i] >> 16) - 32767.5f) / 32768.0f);
        }
    }
}

// `factors` may be NULL.
CPU_CLONES static void add_row(const struct dropout_add_row *row, const float *factors, int64_t count) {
    float *out = row->out;
    const float *x = row->x, *residual = row->residual, *bias = row->bias;
#pragma omp simd
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

void dropout_add(const struct dropout_add_row *add, const struct dropout *dropout, int64_t row, int64_t channels) {
    bool is_dropped = dropout->rate != 0, is_scaled = add->factor != 0 && add->factor != 1;
    if (!is_dropped && !is_scaled) {
        add_row(add, NULL, channels);
        return;
    }
    struct dropout_row mask = {0};
    if (is_dropped)
        mask = dropout_row(dropout, row);
    float factors[DROPOUT_PIECE];
    for (int64_t c = 0; c < channels; c += DROPOUT_PIECE) {
        int64_t count = channels - c < DROPOUT_PIECE ? channels - c : DROPOUT_PIECE;
        if (is_dropped)
            dropout_factors(factors, &mask, c, count);
        for (int64_t i = 0; is_scaled && i < count; i++)
            factors[i] = add->factor * (is_dropped ? factors[i] : 1.0f);
        struct dropout_add_row piece = {add->out + c, add->x + c, add->residual ? add->residual + c : NULL,
                                        add->bias ? add->bias + c : NULL, 0};
        add_row(&piece, factors, count);
    }
}

static void dropout_add_task(void *context, struct cpu_range rows) {
    const struct op_dropout_add *op = context;
    int64_t channels = op->x.shape[1];
    for (int64_t n = rows.first; n < rows.end; n++) {
        struct dropout_add_row row = {
            .out = (float *)op->out.data + n * channels,
            .x = (const float *)op->x.data + n * channels,
            .residual = op->residual.data ? (const float *)op->residual.data + n * channels : NULL,
            .bias = op->bias.data,
            .factor = op->factor,
        };
        dropout_add(&row, &op->dropout, n, channels);
    }
}

void cpu_dropout_add(struct device *device, const struct op_dropout_add *op) {
    cpu_run_ranges(device, op->x.shape[0], cpu_rows_per_task(op->x.shape[1]), dropout_add_task, op);
}

void cpu_dropout_backward(struct device *device, const struct op_dropout_backward *op) {
    bool is_scaled = op->factor != 0 && op->factor != 1;
    if (op->dropout.rate != 0 || is_scaled || op->dx.data != op->dy.data) {
        struct op_dropout_add masked = {.out = op->dx, .x = op->dy, .dropout = op->dropout, .factor = op->factor};
        cpu_dropout_add(device, &masked);
    }
    if (op->dbias.data)
        cpu_add_column_sums(device, op->dbias, op->dx);
}

static void jitter_task(void *context, struct cpu_range rows) {
    const struct op_jitter *op = context;
    int64_t channels = op->x.shape[1];
    float factors[DROPOUT_PIECE];
    for (int64_t n = rows.first; n < rows.end; n++) {
        struct dropout_row draw = {
            .seed = op->seed, .row_id = (uint64_t)((const int64_t *)op->row_ids.data)[n], .site = op->site};
        for (int64_t c = 0; c < channels; c += DROPOUT_PIECE) {
            int64_t count = channels - c < DROPOUT_PIECE ? channels - c : DROPOUT_PIECE, at = n * channels + c;
            struct dropout_add_row row = {
                .out = (float *)op->out.data + at,
                .x = (const float *)op->x.data + at,
                .residual = op->residual.data ? (const float *)op->residual.data + at : NULL,
            };
            jitter_factors(factors, &draw, c, count, op->epsilon);
            add_row(&row, factors, count);
        }
    }
}

void cpu_jitter(struct device *device, const struct op_jitter *op) {
    if (op->epsilon == 0) {
        cpu_dropout_add(device, &(struct op_dropout_add){.out = op->out, .x = op->x, .residual = op->residual});
        return;
    }
    cpu_run_ranges(device, op->x.shape[0], cpu_rows_per_task(op->x.shape[1]), jitter_task, op);
}
