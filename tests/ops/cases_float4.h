// Cases of NVFP4: codes, scales and factors against hashes of numpy's (tests/golden/make_fp4.py), stochastic rounding
// against its expectation, matmuls against the numbers that the codes stand for.
#ifndef TESTS_OPS_CASES_FLOAT4_H
#define TESTS_OPS_CASES_FLOAT4_H

#include "cases_blocks.h"
#include "tensor/float8.h"

enum { FLOAT4_ROWS = 160, FLOAT4_COLUMNS = 96 };

static inline struct operand float4_operand(struct lab *lab, enum scaling scaling, int64_t rows, int64_t columns) {
    return (struct operand){.value = arena_2d(&lab->arena, DTYPE_E2M1X2, rows, columns / 2),
                            .transposed = arena_2d(&lab->arena, DTYPE_E2M1X2, columns, rows / 2),
                            .range = blocks_scales(lab, scaling, rows, columns),
                            .transposed_range = blocks_scales(lab, scaling, columns, rows),
                            .scaling = scaling};
}

// Row numbers as make_fp4.py has them.
static inline struct stochastic float4_rounding(struct lab *lab, int64_t rows, uint64_t seed) {
    int64_t *ids = lab_host(lab, (size_t)rows * sizeof *ids);
    for (int64_t i = 0; i < rows; i++)
        ids[i] = i * 5 + 3 + (i << 33);
    struct stochastic rounding = {
        .row_ids = arena_1d(&lab->arena, DTYPE_I64, rows), .seed = seed, .site = 77, .first_column = 64};
    device_copy_in(lab->device, rounding.row_ids, ids);
    device_synchronize(lab->device);
    return rounding;
}

// Smaller by this many powers of two.
static inline struct tensor float4_numbers(struct lab *lab, int smaller) {
    uint16_t *bits = lab_host(lab, FLOAT4_ROWS * FLOAT4_COLUMNS * sizeof *bits);
    uint32_t state = 7;
    for (int i = 0; i < FLOAT4_ROWS * FLOAT4_COLUMNS; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t drawn = state >> 8;
        bool is_zero = i / FLOAT4_COLUMNS % 16 == 5 && i % FLOAT4_COLUMNS < 32;
        int exponent = 118 + (int)(drawn / 2 % 13) - smaller - (smaller ? i / FLOAT4_COLUMNS % 5 * 4 : 0);
        uint32_t size = (uint32_t)(exponent > 0 ? exponent : 0) << 7 | drawn / 82 % 128;
        bits[i] = is_zero ? 0 : (uint16_t)(drawn % 2 << 15 | size);
    }
    struct tensor x = arena_2d(&lab->arena, DTYPE_BF16, FLOAT4_ROWS, FLOAT4_COLUMNS);
    device_copy_in(lab->device, x, bits);
    device_synchronize(lab->device);
    return x;
}

static inline void case_quantize_float4(struct lab *lab) {
    FILE *file = fopen("tests/golden/fp4.txt", "r");
    char scaling[16], rounding[16];
    unsigned long long want[4];
    int count = 0, mixes, smaller;
    EXPECT(file != NULL);
    while (file && device_supports(lab->device, DTYPE_E2M1X2) &&
           fscanf(file, "%15s %15s %d %d %llx %llx %llx %llx", scaling, rounding, &mixes, &smaller, &want[0], &want[1],
                  &want[2], &want[3]) == 8) {
        struct operand y = float4_operand(lab, strcmp(scaling, "block16") == 0 ? SCALING_BLOCK16 : SCALING_VECTOR16,
                                          FLOAT4_ROWS, FLOAT4_COLUMNS);
        struct op_quantize_blocks op = {.y = y, .x = float4_numbers(lab, smaller), .mixes = mixes};
        if (strcmp(rounding, "random") == 0)
            op.rounding = float4_rounding(lab, FLOAT4_ROWS, 1234567);
        op_quantize_blocks(lab->device, &op);
        struct tensor got[] = {y.value, y.range, y.transposed, y.transposed_range};
        for (int i = 0; i < 4; i++)
            if (blocks_hash(lab, got[i]) != want[i])
                test_fail("%s %s %d %d: output %d differs from numpy's", scaling, rounding, mixes, smaller, i);
        count++;
        lab_clear(lab);
    }
    EXPECT(count == 24 || !device_supports(lab->device, DTYPE_E2M1X2));
    if (file)
        fclose(file);
}

// Value of (row, column) of a matrix without padding of its scales.
static inline double float4_value(const uint8_t *codes, const uint8_t *scales, const int64_t shape[2], int64_t row,
                                  int64_t column) {
    struct scales_shape of = scales_shape(SCALING_VECTOR16, shape[0], shape[1]);
    int64_t block = column / 16, tile = row / 128 * (of.columns / 4) + block / 4;
    uint8_t scale = scales[tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4];
    float factor;
    memcpy(&factor, scales + (of.rows - 1) * of.columns, sizeof factor);
    unsigned code = codes[(row * shape[1] + column) / 2] >> (column % 2 * 4) & 15;
    return (double)(float4_decode(code) * float8_decode(DTYPE_E4M3, scale) * factor);
}

// The mean over many seeds comes close to the numbers, and nothing is further away than one step.
static inline void case_float4_rounding(struct lab *lab) {
    enum { ROWS = 32, COLUMNS = 32, SEEDS = 400 };
    if (!device_supports(lab->device, DTYPE_E2M1X2))
        return;
    double *mean = lab_doubles(lab, ROWS * COLUMNS), worst = 0, far = 0, most = 0;
    struct sample x = float8_bf16(lab, ROWS, COLUMNS, 1);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        mean[i] = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        struct operand y = float4_operand(lab, SCALING_VECTOR16, ROWS, COLUMNS);
        op_quantize_blocks(lab->device, &(struct op_quantize_blocks){
                                            .y = y, .x = x.t, .rounding = float4_rounding(lab, ROWS, (uint64_t)seed)});
        const uint8_t *codes = float8_codes(lab, y.value), *scales = float8_codes(lab, y.range);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            double value = float4_value(codes, scales, (const int64_t[2]){ROWS, COLUMNS}, i / COLUMNS, i % COLUMNS);
            mean[i] += value / SEEDS;
            far = fmax(far, fabs(value - x.x[i]));
        }
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        worst = fmax(worst, fabs(mean[i] - x.x[i]));
        most = fmax(most, fabs(x.x[i]));
    }
    // A step is at most a third of the block's largest magnitude, whose scale is rounded by up to a sixteenth; the
    // deviation of a number is half a step at most. The largest numbers of a block may be clipped by that sixteenth.
    double step = most / 3 * (1 + 1.0 / 16);
    EXPECT(far > 0 && far <= step);
    EXPECT(worst <= 5 * step / 2 / sqrt(SEEDS) + most / 16);
}

// Rounding is independent of the dropout of its site: 5 becomes 4 or 6, and of the fives that a dropout with rate 0.5
// keeps, half become 6. If both drew the same bits, none would.
static inline void case_float4_beside_dropout(struct lab *lab) {
    enum { ROWS = 64, COLUMNS = 64 };
    if (!device_supports(lab->device, DTYPE_E2M1X2))
        return;
    double *values = lab_doubles(lab, ROWS * COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = i % 16 == 0 ? 6 : 5;
    struct tensor x = arena_2d(&lab->arena, DTYPE_BF16, ROWS, COLUMNS);
    lab_write(lab, x, values);
    struct dropout dropout = lab_dropout(lab, 0.5f, ROWS);
    struct operand y = float4_operand(lab, SCALING_VECTOR16, ROWS, COLUMNS);
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){
                                        .y = y, .x = x, .rounding = {dropout.row_ids, dropout.seed, dropout.site, 0}});
    const uint8_t *codes = float8_codes(lab, y.value);
    double kept = 0, up = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        if (i % 16 == 0 || lab_factor(&dropout, i / COLUMNS, i % COLUMNS, dropout.site) == 0)
            continue;
        kept++;
        up += (codes[i / 2] >> (i % 2 * 4) & 15) == 7;
    }
    EXPECT(kept > 1500 && fabs(up / kept - 0.5) < 0.07);
}

// An infinity or a NaN makes the factor of the tensor NaN.
static inline void case_float4_not_finite(struct lab *lab) {
    double *values = lab_doubles(lab, 32 * 32);
    if (!device_supports(lab->device, DTYPE_E2M1X2))
        return;
    for (int i = 0; i < 32 * 32; i++)
        values[i] = i == 70 ? INFINITY : 1;
    struct tensor x = arena_2d(&lab->arena, DTYPE_BF16, 32, 32);
    lab_write(lab, x, values);
    struct operand y = float4_operand(lab, SCALING_VECTOR16, 32, 32);
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = y, .x = x});
    EXPECT(
        isnan(float4_value(float8_codes(lab, y.value), float8_codes(lab, y.range), (const int64_t[2]){32, 32}, 0, 0)));
}

// A matmul is that of what the codes stand for, which is near that of the numbers.
static inline void case_matmul_float4(struct lab *lab) {
    enum { M = 64, N = 96, K = 160 };
    if (!device_supports(lab->device, DTYPE_E2M1X2))
        return;
    struct sample a = float8_bf16(lab, M, K, 1), b = float8_bf16(lab, N, K, 1), dw = lab_fp32_2d(lab, M, N, 1);
    struct operand x = float4_operand(lab, SCALING_VECTOR16, M, K), w = float4_operand(lab, SCALING_BLOCK16, N, K);
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = x, .x = a.t});
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = w, .x = b.t});
    const uint8_t *x_codes = float8_codes(lab, x.value), *x_scales = float8_codes(lab, x.range);
    const uint8_t *w_codes = float8_codes(lab, w.value), *w_scales = float8_codes(lab, w.range);
    double *expected = lab_doubles(lab, M * N), error = 0, size = 0;
    for (int64_t i = 0; i < M * N; i++) {
        double sum = 0, exact = 0;
        for (int64_t k = 0; k < K; k++) {
            sum += float4_value(x_codes, x_scales, (const int64_t[2]){M, K}, i / N, k) *
                   float4_value(w_codes, w_scales, (const int64_t[2]){N, K}, i % N, k);
            exact += a.x[i / N * K + k] * b.x[i % N * K + k];
        }
        error += (sum - exact) * (sum - exact);
        size += exact * exact;
        expected[i] = dw.x[i] + 2 * sum;
    }
    EXPECT(error < 0.04 * size);
    op_matmul(lab->device, &(struct op_matmul){.a = x.value,
                                               .b = w.value,
                                               .d = dw.t,
                                               .a_range = x.range,
                                               .b_range = w.range,
                                               .a_scaling = SCALING_VECTOR16,
                                               .b_scaling = SCALING_BLOCK16,
                                               .transpose_b = true,
                                               .alpha = 2,
                                               .beta = 1});
    lab_expect(lab, dw.t, expected);
}

// Mixing cancels out: dy^T x of mixed operands is that of the numbers, up to the rounding of fp4.
static inline void case_float4_mixed(struct lab *lab) {
    enum { TOKENS = 320, OUT = 32, IN = 64 };
    if (!device_supports(lab->device, DTYPE_E2M1X2))
        return;
    struct sample dy = float8_bf16(lab, TOKENS, OUT, 1), x = float8_bf16(lab, TOKENS, IN, 1);
    struct operand a = float4_operand(lab, SCALING_VECTOR16, TOKENS, OUT),
                   b = float4_operand(lab, SCALING_VECTOR16, TOKENS, IN);
    struct sample dw = lab_fp32_2d(lab, OUT, IN, 1);
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){
                                        .y = a, .x = dy.t, .rounding = float4_rounding(lab, TOKENS, 1), .mixes = true});
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = b, .x = x.t, .mixes = true});
    op_matmul(lab->device, &(struct op_matmul){.a = a.transposed,
                                               .b = b.transposed,
                                               .d = dw.t,
                                               .a_range = a.transposed_range,
                                               .b_range = b.transposed_range,
                                               .a_scaling = SCALING_VECTOR16,
                                               .b_scaling = SCALING_VECTOR16,
                                               .transpose_b = true,
                                               .alpha = 1});
    const double *got = lab_read(lab, dw.t);
    double error = 0, size = 0;
    for (int64_t i = 0; i < OUT * IN; i++) {
        double exact = 0;
        for (int64_t n = 0; n < TOKENS; n++)
            exact += dy.x[n * OUT + i / IN] * x.x[n * IN + i % IN];
        error += (got[i] - exact) * (got[i] - exact);
        size += exact * exact;
    }
    EXPECT(size > 0 && error < 0.06 * size);
}

#endif
