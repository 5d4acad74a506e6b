// NVFP4 on the CPU, emulated exactly (NVIDIA, "Pretraining Large Language Models with NVFP4", 2025): numbers are E2M1,
// a block has a scale in E4M3, and the tensor a factor in fp32. The value is code * scale * factor.
#include "base/memory.h"
#include "base/rng.h"
#include "ops/cpu/cpu.h"
#include "ops/formulas.h"
#include "tensor/float8.h"

#include <float.h>
#include <stdlib.h>

enum { BLOCK = FLOAT4_BLOCK };

// Mixes 16 numbers: flips signs, then multiplies by a Hadamard matrix divided by 4, which preserves sums of squares and
// dot products.
static void mix(float x[BLOCK]) {
    for (int i = 0; i < BLOCK; i++)
        x[i] = FLOAT4_MIX_SIGNS >> i & 1 ? -x[i] : x[i];
    for (int step = 1; step < BLOCK; step *= 2)
        for (int i = 0; i < BLOCK; i++)
            if (!(i & step)) {
                float a = x[i], b = x[i + step];
                x[i] = a + b;
                x[i + step] = a - b;
            }
    for (int i = 0; i < BLOCK; i++)
        x[i] *= 0.25f;
}

static float most_of(const float *x, int64_t count) {
    float most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabsf(x[i]) > most || isnan(x[i]) ? fabsf(x[i]) : most;
    return most;
}

// A contiguous matrix to store: x or its transpose.
struct float4_source {
    const float *x;
    const uint16_t *drawn;  // for each element, or NULL
    int64_t rows, columns;
};

// Random bits of x, or of its transpose; the caller frees them. NULL if nothing is drawn.
static uint16_t *draw(const struct op_quantize_blocks *op, bool is_transposed) {
    const struct stochastic *rounding = &op->rounding;
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    if (!rounding->row_ids.data)
        return NULL;
    uint16_t *drawn = memory_alloc(sizeof *drawn * (size_t)(rows * columns));
    for (int64_t i = 0; i < rows * columns; i += 8) {
        int64_t row = i / columns, column = i % columns;
        uint64_t id = (uint64_t)((const int64_t *)rounding->row_ids.data)[row];
        struct philox words =
            philox4x32_7(rounding->seed, (uint32_t)((rounding->first_column + column) / 8), (uint32_t)id,
                         (uint32_t)(id >> 32), stochastic_site(rounding->site, is_transposed));
        for (int k = 0; k < 8; k++)
            drawn[is_transposed ? (column + k) * rows + row : i + k] =
                (uint16_t)(words.word[k / 2] >> (k % 2 * 16) & 0xFFFFu);
    }
    return drawn;
}

// Stores 16 neighbours, from element `at` on, multiplied by `by`.
static void store_numbers(const struct float4_source *from, uint8_t *y, int64_t at, float by) {
    for (int64_t i = at; i < at + BLOCK; i += 2) {
        unsigned codes[2];
        for (int k = 0; k < 2; k++) {
            float value = from->x[i + k] * by;
            codes[k] = from->drawn ? float4_encode_randomly(value, from->drawn[i + k]) : float4_encode(value);
        }
        y[i / 2] = (uint8_t)(codes[0] | codes[1] << 4);
    }
}

// A tensor with a number that is not finite has no scales, and NaN for its factor.
static void store_float4(const struct float4_source *from, enum scaling scaling, struct tensor y,
                         struct tensor scales) {
    int64_t height = scaling == SCALING_BLOCK16 ? BLOCK : 1, width = scales.shape[1], columns = from->columns;
    float most = most_of(from->x, from->rows * columns);
    float scale = most > 0 ? fminf(float8_kind(DTYPE_E4M3).largest * FLOAT4_LARGEST / most, FLT_MAX) : 1;
    float factor = isfinite(most) ? 1 / scale : NAN;
    memset(scales.data, 0, tensor_bytes(scales));
    memset(y.data, 0, tensor_bytes(y));
    memcpy((uint8_t *)scales.data + float4_factor_place(scales), &factor, sizeof factor);
    for (int64_t row = 0; row < from->rows && isfinite(most); row += height)
        for (int64_t column = 0; column < columns; column += BLOCK) {
            float largest = 0;
            for (int64_t r = row; r < row + height; r++)
                largest = fmaxf(largest, most_of(from->x + r * columns + column, BLOCK));
            uint8_t stored = float8_encode(DTYPE_E4M3, largest / FLOAT4_LARGEST * scale);
            float by = stored ? fminf(scale / float8_decode(DTYPE_E4M3, stored), FLT_MAX) : 0;
            for (int64_t r = row; r < row + height; r++) {
                ((uint8_t *)scales.data)[cpu_tiled_place(width, r, column / BLOCK)] = stored;
                store_numbers(from, y.data, r * columns + column, by);
            }
        }
}

void cpu_quantize_float4(struct device *device, const struct op_quantize_blocks *op) {
    (void)device;
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    float *x = memory_alloc(sizeof *x * (size_t)(rows * columns));
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = cpu_element(op->x, i);
    if (op->y.value.data) {
        uint16_t *drawn = draw(op, false);
        store_float4(&(struct float4_source){x, drawn, rows, columns}, op->y.scaling, op->y.value, op->y.range);
        free(drawn);
    }
    if (op->y.transposed.data) {
        uint16_t *drawn = draw(op, true);
        float *turned = memory_alloc(sizeof *turned * (size_t)(rows * columns));
        for (int64_t i = 0; i < rows * columns; i++)
            turned[i % columns * rows + i / columns] = x[i];
        for (int64_t i = 0; i < rows * columns && op->mixes; i += BLOCK)
            mix(turned + i);
        store_float4(&(struct float4_source){turned, drawn, columns, rows}, op->y.scaling, op->y.transposed,
                     op->y.transposed_range);
        free(turned);
        free(drawn);
    }
    free(x);
}

void cpu_restore_float4(float *out, struct tensor t, struct tensor scales) {
    int64_t columns = 2 * t.shape[1], width = scales.shape[1];
    float factor;
    memcpy(&factor, (const uint8_t *)scales.data + float4_factor_place(scales), sizeof factor);
    for (int64_t row = 0; row < t.shape[0]; row++)
        for (int64_t column = 0; column < columns; column += BLOCK) {
            const uint8_t *codes = (const uint8_t *)t.data + row * t.stride[0] + column / 2;
            uint8_t stored = ((const uint8_t *)scales.data)[cpu_tiled_place(width, row, column / BLOCK)];
            float scale = float8_decode(DTYPE_E4M3, stored);
            for (int i = 0; i < BLOCK; i++)
                out[row * columns + column + i] = float4_decode(codes[i / 2] >> (i % 2 * 4) & 15) * scale * factor;
        }
}
