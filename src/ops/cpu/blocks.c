// fp8 by blocks on the CPU, emulated exactly: the reference for the GPU. A block's factor is a power of two, so scaling
// rounds nothing; a matmul restores both operands to fp32 and multiplies those.
#include "base/memory.h"
#include "ops/cpu/cpu.h"
#include "tensor/float8.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_EXPONENT = -127, MOST_EXPONENT = 127, E8M0_BIAS = 127, E8M0_NAN = 255, SHORTEST_BLOCK = 32 };

int64_t cpu_tiled_place(int64_t width, int64_t row, int64_t block) {
    return (row / 128 * (width / 4) + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}

// Index of the factor of the element (row, column).
static int64_t scale_place(enum scaling scaling, int64_t width, int64_t row, int64_t column) {
    if (scaling == SCALING_VECTOR128)
        return column / 128 * width + row;
    if (scaling == SCALING_BLOCK128)
        return row / 128 * width + column / 128;
    return cpu_tiled_place(width, row, column / 32);
}

// The exponent of the smallest power of two whose product with the dtype's largest number is at least `most`.
static int exponent_for(enum dtype dtype, float most) {
    if (most == 0)
        return 0;
    int exponent;
    float fraction = frexpf(most / float8_kind(dtype).largest, &exponent);  // in [0.5, 1)
    exponent -= fraction == 0.5f;
    return exponent < LEAST_EXPONENT ? LEAST_EXPONENT : exponent > MOST_EXPONENT ? MOST_EXPONENT : exponent;
}

static void store_factor(struct tensor scales, int64_t place, float most, int exponent) {
    bool is_whole = isfinite(most);
    if (scales.dtype == DTYPE_F32)
        ((float *)scales.data)[place] = is_whole ? ldexpf(1, exponent) : NAN;
    else
        ((uint8_t *)scales.data)[place] = is_whole ? (uint8_t)(exponent + E8M0_BIAS) : E8M0_NAN;
}

static float factor_at(struct tensor scales, int64_t place) {
    if (scales.dtype == DTYPE_F32)
        return ((const float *)scales.data)[place];
    uint8_t code = ((const uint8_t *)scales.data)[place];
    return code == E8M0_NAN ? NAN : ldexpf(1, code - E8M0_BIAS);
}

// A matrix of numbers to store: x or its transpose.
struct block_source {
    const float *x;
    int64_t rows, columns;              // as stored
    int64_t row_stride, column_stride;  // of x
};

// Stores the block at (row, column), of `height` rows and `width` columns. Rows of y may be further apart.
static void store_block(const struct block_source *from, enum scaling scaling, struct tensor y, struct tensor scales,
                        const int64_t block[4]) {
    int64_t row = block[0], column = block[1];
    int64_t last_row = row + block[2] < from->rows ? row + block[2] : from->rows;
    int64_t last = column + block[3] < from->columns ? column + block[3] : from->columns;
    float most = 0;
    for (int64_t r = row; r < last_row; r++)
        for (int64_t c = column; c < last; c++) {
            float size = fabsf(from->x[r * from->row_stride + c * from->column_stride]);
            most = size > most || isnan(size) ? size : most;
        }
    int exponent = isfinite(most) ? exponent_for(y.dtype, most) : 0;
    float scale = ldexpf(1, -exponent);
    store_factor(scales, scale_place(scaling, scales.shape[1], row, column), most, exponent);
    for (int64_t r = row; r < last_row; r++)
        for (int64_t c = column; c < last; c++)
            ((uint8_t *)y.data)[r * y.stride[0] + c] =
                float8_encode(y.dtype, from->x[r * from->row_stride + c * from->column_stride] * scale);
}

// Scales beyond the matrix are 0.
static void store_blocks(const struct block_source *from, enum scaling scaling, struct tensor y, struct tensor scales) {
    int64_t height = scaling == SCALING_BLOCK128 ? 128 : 1, width = scaling == SCALING_VECTOR32 ? 32 : 128;
    memset(scales.data, 0, tensor_bytes(scales));
    for (int64_t row = 0; row < from->rows; row += height)
        for (int64_t column = 0; column < from->columns; column += width)
            store_block(from, scaling, y, scales, (const int64_t[4]){row, column, height, width});
}

// The factors of one part of `parts` stacked ones.
static struct tensor part_scales(struct tensor scales, int64_t part, int64_t parts) {
    int64_t rows = scales.shape[0] / parts;
    return tensor_rows(scales, part * rows, rows);
}

// The columns of one part of `parts` side by side.
static struct tensor part_columns(struct tensor t, int64_t part, int64_t parts) {
    t.shape[1] /= parts;
    t.data = (char *)t.data + part * t.shape[1];
    return t;
}

void cpu_store_blocks(const struct operand *to, const float *x, int64_t rows, int64_t columns, int64_t parts) {
    int64_t height = rows / parts;
    for (int64_t part = 0; part < parts; part++) {
        const float *from = x + part * height * columns;
        if (to->value.data)
            store_blocks(&(struct block_source){from, height, columns, columns, 1}, to->scaling,
                         tensor_rows(to->value, part * height, height), part_scales(to->range, part, parts));
        if (to->transposed.data)
            store_blocks(&(struct block_source){from, columns, height, 1, columns}, to->scaling,
                         part_columns(to->transposed, part, parts), part_scales(to->transposed_range, part, parts));
    }
}

void cpu_quantize_blocks(struct device *device, const struct op_quantize_blocks *op) {
    if (scaling_is_float4(op->y.scaling)) {
        cpu_quantize_float4(device, op);
        return;
    }
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    float *x = memory_alloc(sizeof *x * (size_t)(rows * columns));
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = cpu_element(op->x, i);
    cpu_store_blocks(&op->y, x, rows, columns, op->parts > 1 ? op->parts : 1);
    free(x);
}

// Dequantizes a matrix to rows that are `stride` apart.
static void restore(float *out, int64_t stride, struct tensor t, struct tensor scales, enum scaling scaling) {
    float codes[256], factor = 0;
    for (int code = 0; code < 256; code++)
        codes[code] = float8_decode(t.dtype, (uint8_t)code);
    for (int64_t r = 0; r < t.shape[0]; r++) {
        const uint8_t *row = (const uint8_t *)t.data + r * t.stride[0];
        for (int64_t c = 0; c < t.shape[1]; c++) {
            if (c % SHORTEST_BLOCK == 0)
                factor = factor_at(scales, scale_place(scaling, scales.shape[1], r, c));
            out[r * stride + c] = codes[row[c]] * factor;
        }
    }
}

// The dequantized operand, contiguous; the caller frees it.
static float *restored(struct tensor t, struct tensor scales, enum scaling scaling) {
    float *out = memory_alloc(sizeof *out * (size_t)(2 * tensor_count(t)));
    if (scaling_is_float4(scaling))
        cpu_restore_float4(out, t, scales);
    else
        restore(out, t.shape[1], t, scales, scaling);
    return out;
}

float *cpu_restored_parts(const struct operand *of, int64_t parts) {
    bool is_turned = of->transposed.data != NULL;
    struct tensor t = is_turned ? of->transposed : of->value, range = operand_range(of, is_turned);
    int64_t height = t.shape[0] / parts;
    float *out = memory_alloc(sizeof *out * (size_t)(tensor_count(t) + 1));
    for (int64_t part = 0; part < parts; part++) {
        struct tensor one = is_turned ? part_columns(t, part, parts) : tensor_rows(t, part * height, height);
        restore(out + part * (is_turned ? one.shape[1] : height * t.shape[1]), t.shape[1], one,
                part_scales(range, part, parts), of->scaling);
    }
    return out;
}

void cpu_matmul_blocks(struct device *device, const struct op_matmul *op) {
    int64_t M = op->d.shape[0], N = op->d.shape[1], K = op->a.shape[1] * (scaling_is_float4(op->a_scaling) ? 2 : 1);
    float *a = restored(op->a, op->a_range, op->a_scaling), *b = restored(op->b, op->b_range, op->b_scaling);
    float *d = memory_alloc(sizeof *d * (size_t)(M * N));
    cpu_matmul(device, &(struct op_matmul){.a = tensor_2d(a, DTYPE_F32, M, K),
                                           .b = tensor_2d(b, DTYPE_F32, N, K),
                                           .d = tensor_2d(d, DTYPE_F32, M, N),
                                           .transpose_b = true,
                                           .alpha = op->alpha});
    for (int64_t i = 0; i < M * N; i++) {
        int64_t place = i / N * op->d.stride[0] + i % N;
        float value = d[i];
        if (op->beta != 0)
            value += op->beta * cpu_element(op->d, place);
        if (op->epilogue == EPILOGUE_BIAS)
            value += cpu_element(op->bias, i % N);
        cpu_store_element(op->d, place, value);
    }
    free(a);
    free(b);
    free(d);
}
