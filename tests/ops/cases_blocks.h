// Cases of fp8 by blocks: codes and factors against hashes of numpy's (tests/golden/make_blocks.py), matmuls against
// the numbers that the codes stand for. Inputs are bf16, as in cases_float8.h.
#ifndef TESTS_OPS_CASES_BLOCKS_H
#define TESTS_OPS_CASES_BLOCKS_H

#include "cases_float8.h"

enum { BLOCKS_ROWS = 136, BLOCKS_COLUMNS = 288 };

static inline uint64_t blocks_hash(struct lab *lab, struct tensor t) {
    uint8_t *bytes = lab_host(lab, tensor_bytes(t));
    uint64_t hash = 0xCBF29CE484222325u;
    device_copy_out(lab->device, bytes, t);
    for (size_t i = 0; i < tensor_bytes(t); i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash;
}

static inline struct tensor blocks_scales(struct lab *lab, enum scaling scaling, int64_t rows, int64_t columns) {
    struct scales_shape shape = scales_shape(scaling, rows, columns);
    return arena_2d(&lab->arena, shape.dtype, shape.rows, shape.columns);
}

static inline struct operand blocks_operand(struct lab *lab, enum scaling scaling, enum dtype dtype, int64_t rows,
                                            int64_t columns) {
    return (struct operand){.value = arena_2d(&lab->arena, dtype, rows, columns),
                            .transposed = arena_2d(&lab->arena, dtype, columns, rows),
                            .range = blocks_scales(lab, scaling, rows, columns),
                            .transposed_range = blocks_scales(lab, scaling, columns, rows),
                            .scaling = scaling};
}

// The numbers that make_blocks.py quantizes.
static inline struct tensor blocks_numbers(struct lab *lab) {
    uint16_t *bits = lab_host(lab, BLOCKS_ROWS * BLOCKS_COLUMNS * sizeof *bits);
    uint32_t state = 1;
    for (int i = 0; i < BLOCKS_ROWS * BLOCKS_COLUMNS; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t drawn = state >> 8;
        bool is_zero = i / BLOCKS_COLUMNS % 16 == 5 && i % BLOCKS_COLUMNS < 128;
        bits[i] = is_zero ? 0 : (uint16_t)(drawn % 2 << 15 | (100 + drawn / 2 % 41) << 7 | drawn / 82 % 128);
    }
    struct tensor x = arena_2d(&lab->arena, DTYPE_BF16, BLOCKS_ROWS, BLOCKS_COLUMNS);
    device_copy_in(lab->device, x, bits);
    device_synchronize(lab->device);
    return x;
}

static inline enum scaling blocks_scaling(const char *name) {
    return strcmp(name, "vector128") == 0  ? SCALING_VECTOR128
           : strcmp(name, "block128") == 0 ? SCALING_BLOCK128
                                           : SCALING_VECTOR32;
}

static inline void case_quantize_blocks(struct lab *lab) {
    FILE *file = fopen("tests/golden/blocks.txt", "r");
    char scaling_name[16], dtype_name[16];
    unsigned long long want[4];
    int count = 0;
    EXPECT(file != NULL);
    while (file && fscanf(file, "%15s %15s %llx %llx %llx %llx", scaling_name, dtype_name, &want[0], &want[1], &want[2],
                          &want[3]) == 6) {
        struct tensor x = blocks_numbers(lab);
        struct operand y =
            blocks_operand(lab, blocks_scaling(scaling_name), strcmp(dtype_name, "e4m3") == 0 ? DTYPE_E4M3 : DTYPE_E5M2,
                           BLOCKS_ROWS, BLOCKS_COLUMNS);
        op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = y, .x = x});
        struct tensor got[] = {y.value, y.range, y.transposed, y.transposed_range};
        for (int i = 0; i < 4; i++)
            if (blocks_hash(lab, got[i]) != want[i])
                test_fail("%s %s: output %d differs from numpy's", scaling_name, dtype_name, i);
        count++;
        lab_clear(lab);
    }
    EXPECT_INT(count, 6);
    if (file)
        fclose(file);
}

// An infinity or a NaN makes its block NaN, not the others.
static inline void case_blocks_not_finite(struct lab *lab) {
    double *values = lab_doubles(lab, 16 * 256);
    for (int i = 0; i < 16 * 256; i++)
        values[i] = 1;
    values[3] = INFINITY;
    values[256 + 130] = NAN;
    struct tensor x = arena_2d(&lab->arena, DTYPE_BF16, 16, 256);
    lab_write(lab, x, values);
    struct operand y = blocks_operand(lab, SCALING_VECTOR128, DTYPE_E4M3, 16, 256);
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = y, .x = x});
    const double *factors = lab_read(lab, y.range);
    for (int row = 0; row < 16; row++)
        for (int block = 0; block < 2; block++)
            EXPECT(isnan(factors[block * 16 + row]) == (row < 2 && block == row));
}

// A matmul operand: random numbers stored by blocks, and what they stand for: the numbers themselves where they have
// few bits, so that only the sums are rounded.
static inline struct sample blocks_factor(struct lab *lab, struct operand *y, enum scaling scaling, enum dtype dtype,
                                          const int64_t size[2]) {
    struct sample x = {arena_2d(&lab->arena, DTYPE_BF16, size[0], size[1]), lab_doubles(lab, size[0] * size[1])};
    for (int64_t i = 0; i < size[0] * size[1]; i++)
        x.x[i] = (double)((i * 7 + i / 13) % 5 - 2) * ldexp(1, (int)(i / 128 % 9) - 4);
    lab_write(lab, x.t, x.x);
    *y = blocks_operand(lab, scaling, dtype, size[0], size[1]);
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = *y, .x = x.t});
    return x;
}

static inline void expect_block_matmul(struct lab *lab, const enum scaling scaling[2], const int64_t size[3]) {
    int64_t M = size[0], N = size[1], K = size[2];
    double tolerance = lab->tolerance;
    struct operand a, b;
    struct sample x = blocks_factor(lab, &a, scaling[0], DTYPE_E4M3, (const int64_t[2]){M, K});
    struct sample w = blocks_factor(lab, &b, scaling[1], DTYPE_E4M3, (const int64_t[2]){N, K});
    struct sample y = float8_bf16(lab, M, N, 1), sum = lab_fp32_2d(lab, M, N, 1);
    double *expected = lab_doubles(lab, M * N), *expected_sum = lab_doubles(lab, M * N);
    for (int64_t i = 0; i < M * N; i++) {
        expected[i] = 0.5 * float8_dot(&x, &w, i / N, i % N, K);
        expected_sum[i] = sum.x[i] + 2 * expected[i];
    }
    struct op_matmul op = {.a = a.value,
                           .b = b.value,
                           .d = y.t,
                           .a_range = a.range,
                           .b_range = b.range,
                           .a_scaling = scaling[0],
                           .b_scaling = scaling[1],
                           .transpose_b = true,
                           .alpha = 0.5f};
    op_matmul(lab->device, &op);
    op.d = sum.t;
    op.alpha = op.beta = 1;
    op_matmul(lab->device, &op);
    lab->tolerance = 8e-3;
    lab_expect(lab, y.t, expected);
    lab->tolerance = 1e-3;
    lab_expect(lab, sum.t, expected_sum);
    lab->tolerance = tolerance;
    lab_clear(lab);
}

static inline void case_matmul_blocks(struct lab *lab) {
    // The last two: a latent of DeepSeek-V3 with what its heads share, as a result and summed over.
    static const int64_t sizes[][3] = {
        {128, 128, 128}, {256, 384, 512}, {144, 272, 384}, {128, 576, 256}, {256, 384, 576}};
    static const enum scaling scalings[][2] = {{SCALING_VECTOR128, SCALING_BLOCK128},
                                               {SCALING_VECTOR128, SCALING_VECTOR128},
                                               {SCALING_VECTOR32, SCALING_VECTOR32}};
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++)
        for (int i = 0; i < 3; i++)
            // A GPU that has fp4, but not these matmuls, multiplies slowly.
            if (device_supports_scaling(lab->device, scalings[i][0]) || device_supports(lab->device, DTYPE_E2M1X2))
                expect_block_matmul(lab, scalings[i], sizes[size]);
}

#endif
