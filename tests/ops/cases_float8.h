// Cases of fp8 operations: values against formulas in double, codes against float8.h. Inputs are bf16, the only dtype
// that all devices can quantize.
#ifndef TESTS_OPS_CASES_FLOAT8_H
#define TESTS_OPS_CASES_FLOAT8_H

#include "lab.h"
#include "tensor/float8.h"

// A range that maps magnitudes up to `most` to the largest number of the type, with nothing seen.
static inline struct tensor float8_range(struct lab *lab, enum dtype dtype, double most) {
    float largest = float8_kind(dtype).largest, scale = largest / (float)most;
    float *numbers = lab_host(lab, RANGE_LENGTH * sizeof *numbers);
    numbers[RANGE_FACTOR] = 1.0f / scale;
    numbers[RANGE_SCALE] = scale;
    numbers[RANGE_LARGEST] = largest;
    struct tensor range = arena_1d(&lab->arena, DTYPE_F32, RANGE_LENGTH);
    device_copy_in(lab->device, range, numbers);
    device_synchronize(lab->device);
    return range;
}

// Memory for a matrix in both orders, with a range up to `most`.
static inline struct operand float8_operand(struct lab *lab, enum dtype dtype, int64_t rows, int64_t columns,
                                            double most) {
    return (struct operand){.value = arena_2d(&lab->arena, dtype, rows, columns),
                            .transposed = arena_2d(&lab->arena, dtype, columns, rows),
                            .range = float8_range(lab, dtype, most)};
}

static inline uint8_t *float8_codes(struct lab *lab, struct tensor t) {
    uint8_t *codes = lab_host(lab, tensor_bytes(t));
    device_copy_out(lab->device, codes, t);
    return codes;
}

static inline struct sample float8_bf16(struct lab *lab, int64_t a, int64_t b, double scale) {
    return lab_sample(lab, arena_2d(&lab->arena, DTYPE_BF16, a, b), scale);
}

static inline double float8_activation(enum activation activation, double x) {
    double cubed = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    switch (activation) {
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(cubed));
    case ACTIVATION_GELU:
        return 0.5 * x * (1 + erf(x * 0.7071067811865476));
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_SQUARED_RELU:
        return x > 0 ? x * x : 0;
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case ACTIVATION_COUNT:
        break;
    }
    return NAN;
}

static inline double float8_slope(enum activation activation, double x) {
    if (activation == ACTIVATION_RELU)
        return x > 0;
    if (activation == ACTIVATION_SQUARED_RELU)
        return x > 0 ? 2 * x : 0;
    return (float8_activation(activation, x + 1e-5) - float8_activation(activation, x - 1e-5)) / 2e-5;
}

// The value that op_quantize should store at (row, column), before rounding.
static inline double float8_expected(const struct op_quantize *op, const struct sample *x, const struct sample *bias,
                                     const struct sample *dy, int64_t row, int64_t column) {
    int64_t width = op->x.shape[1], half = width / 2;
    const double *at = x->x + row * width;
#define WITH_BIAS(c) (at[c] + (bias->x ? bias->x[c] : 0))
    switch (op->kind) {
    case QUANTIZE_PLAIN:
        return at[column];
    case QUANTIZE_ACTIVATION:
        return float8_activation(op->activation, WITH_BIAS(column));
    case QUANTIZE_GLU:
        return float8_activation(op->activation, WITH_BIAS(column)) * WITH_BIAS(column + half);
    case QUANTIZE_ACTIVATION_GRADIENT:
        return dy->x[row * width + column] * float8_slope(op->activation, WITH_BIAS(column));
    default:
        if (column < half)
            return dy->x[row * half + column] * WITH_BIAS(column + half) *
                   float8_slope(op->activation, WITH_BIAS(column));
        return dy->x[row * half + column - half] * float8_activation(op->activation, WITH_BIAS(column - half));
    }
#undef WITH_BIAS
}

struct float8_shape {
    int64_t rows, columns;  // of y
    enum quantize_kind kind;
    enum activation activation;
    enum dtype dtype;
    bool has_bias;
};

// A stored value against the exact one.
static inline void expect_stored(enum dtype dtype, uint8_t code, double factor, double largest, double expected) {
    double rounding = dtype == DTYPE_E4M3 ? 1.0 / 16 : 1.0 / 8, step = (double)float8_decode(dtype, 1) * factor;
    double value = (double)float8_decode(dtype, code) * factor;
    double clipped = fabs(expected) > largest ? copysign(largest, expected) : expected;
    if (!(fabs(value - clipped) <= rounding * 1.001 * fabs(clipped) + 0.51 * step + 1e-5))
        test_fail("stored as %g, expected %g", value, clipped);
}

// The activation's result that a gradient stores on the way; its range has seen nothing.
static inline void expect_result(struct lab *lab, const struct op_quantize *op, const struct sample *x,
                                 const struct sample *bias) {
    struct op_quantize forward = *op;
    forward.kind = op->kind == QUANTIZE_GLU_GRADIENT ? QUANTIZE_GLU : QUANTIZE_ACTIVATION;
    int64_t rows = op->dy.shape[0], columns = op->dy.shape[1];
    const uint8_t *codes = float8_codes(lab, op->result.value), *turned = float8_codes(lab, op->result.transposed);
    const double *numbers = lab_read(lab, op->result.range);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            expect_stored(DTYPE_E4M3, codes[r * columns + c], numbers[RANGE_FACTOR], 4,
                          float8_expected(&forward, x, bias, NULL, r, c));
            EXPECT_INT(turned[c * rows + r], codes[r * columns + c]);
        }
    EXPECT(numbers[RANGE_SEEN] == 0);
}

static inline void expect_quantized(struct lab *lab, const struct float8_shape *shape) {
    int64_t rows = shape->rows, columns = shape->columns;
    bool is_glu = shape->kind == QUANTIZE_GLU, is_glu_gradient = shape->kind == QUANTIZE_GLU_GRADIENT;
    bool is_gradient = is_glu_gradient || shape->kind == QUANTIZE_ACTIVATION_GRADIENT;
    int64_t width = is_glu ? 2 * columns : columns;
    struct sample x = float8_bf16(lab, rows, width, 3), none = {0}, bias = none, dy = none;
    if (shape->has_bias)
        bias = lab_sample(lab, arena_1d(&lab->arena, DTYPE_BF16, width), 1);
    if (is_gradient)
        dy = float8_bf16(lab, rows, is_glu_gradient ? width / 2 : width, 2);
    struct sample dbias = lab_fp32_1d(lab, columns, 1);
    struct tensor range = float8_range(lab, shape->dtype, 3);  // some values are beyond it
    struct tensor y = arena_2d(&lab->arena, shape->dtype, rows, columns);
    struct tensor turned = arena_2d(&lab->arena, shape->dtype, columns, rows);
    struct op_quantize op = {.kind = shape->kind,
                             .activation = shape->activation,
                             .y = {.value = y, .transposed = turned, .range = range},
                             .x = x.t,
                             .bias = bias.t,
                             .dy = dy.t,
                             .dbias = dbias.t};
    if (is_gradient)
        op.result = (struct operand){.value = arena_2d(&lab->arena, DTYPE_E4M3, rows, dy.t.shape[1]),
                                     .transposed = arena_2d(&lab->arena, DTYPE_E4M3, dy.t.shape[1], rows),
                                     .range = float8_range(lab, DTYPE_E4M3, 4)};
    op_quantize(lab->device, &op);
    const uint8_t *codes = float8_codes(lab, y), *turned_codes = float8_codes(lab, turned);
    const double *numbers = lab_read(lab, range), *sums = lab_read(lab, dbias.t);
    double most = 0;
    double *expected_sums = lab_doubles(lab, columns);
    for (int64_t c = 0; c < columns; c++)
        expected_sums[c] = dbias.x[c];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double expected = float8_expected(&op, &x, &bias, &dy, r, c), size = fabs(expected);
            expected_sums[c] += expected;
            most = size > most ? size : most;
            expect_stored(shape->dtype, codes[r * columns + c], numbers[RANGE_FACTOR], 3, expected);
            EXPECT_INT(turned_codes[c * rows + r], codes[r * columns + c]);
            if (shape->kind == QUANTIZE_PLAIN)
                EXPECT_INT(codes[r * columns + c],
                           float8_encode(shape->dtype, (float)expected * (float)numbers[RANGE_SCALE]));
        }
    EXPECT(fabs(numbers[RANGE_SEEN] - most) <= 1e-4 * most);
    for (int64_t c = 0; c < columns; c++)
        EXPECT(fabs(sums[c] - expected_sums[c]) <= 1e-4 * (fabs(expected_sums[c]) + sqrt((double)rows) * 3));
    if (is_gradient)
        expect_result(lab, &op, &x, &bias);
}

static inline void case_quantize(struct lab *lab) {
    static const int64_t sizes[][2] = {{4, 16}, {20, 48}, {132, 144}, {260, 272}, {128, 256}};
    for (int size = 0; size < 5; size++)
        for (int kind = QUANTIZE_PLAIN; kind <= QUANTIZE_GLU_GRADIENT; kind++)
            for (int activation = 0; activation < (kind == QUANTIZE_PLAIN ? 1 : ACTIVATION_COUNT); activation++) {
                bool is_gradient = kind >= QUANTIZE_ACTIVATION_GRADIENT;
                expect_quantized(lab, &(struct float8_shape){.rows = sizes[size][0],
                                                             .columns = sizes[size][1],
                                                             .kind = (enum quantize_kind)kind,
                                                             .activation = (enum activation)activation,
                                                             .dtype = is_gradient ? DTYPE_E5M2 : DTYPE_E4M3,
                                                             .has_bias = kind > QUANTIZE_PLAIN && size % 2 == 0});
                lab_clear(lab);
            }
}

// One output alone, and none: then only the largest magnitude is computed.
static inline void case_quantize_parts(struct lab *lab) {
    struct sample x = float8_bf16(lab, 36, 80, 5);
    struct tensor range = float8_range(lab, DTYPE_E4M3, 10), again = float8_range(lab, DTYPE_E4M3, 10);
    struct tensor y = arena_2d(&lab->arena, DTYPE_E4M3, 36, 80), turned = arena_2d(&lab->arena, DTYPE_E4M3, 80, 36);
    struct tensor back = arena_2d(&lab->arena, DTYPE_E4M3, 80, 36);
    op_quantize(lab->device, &(struct op_quantize){.y = {.value = y, .range = range}, .x = x.t});
    op_quantize(lab->device, &(struct op_quantize){.y = {.transposed = turned, .range = again}, .x = x.t});
    op_transpose(lab->device, &(struct op_transpose){.y = back, .x = y});
    EXPECT(memcmp(float8_codes(lab, back), float8_codes(lab, turned), tensor_bytes(turned)) == 0);
    struct tensor seen = float8_range(lab, DTYPE_E4M3, 1);
    op_quantize(lab->device, &(struct op_quantize){.y = {.range = seen}, .x = x.t});
    EXPECT(lab_read(lab, seen)[RANGE_SEEN] == lab_read(lab, range)[RANGE_SEEN]);
    // A NaN is recorded as infinity, and stays one where it is stored.
    double *values = lab_doubles(lab, 36 * 80);
    values[77] = NAN;
    lab_write(lab, x.t, values);
    op_quantize(lab->device, &(struct op_quantize){.y = {.value = y, .range = range}, .x = x.t});
    EXPECT(isinf(lab_read(lab, range)[RANGE_SEEN]));
    EXPECT(isnan(float8_decode(DTYPE_E4M3, float8_codes(lab, y)[77])) && float8_codes(lab, y)[78] == 0);
}

static inline void case_transpose8(struct lab *lab) {
    static const int64_t sizes[][2] = {{4, 16}, {132, 144}, {256, 1040}, {1000, 32}};
    for (int size = 0; size < 4; size++) {
        int64_t rows = sizes[size][0], columns = sizes[size][1];
        struct sample x = float8_bf16(lab, rows, columns, 1);
        struct tensor range = float8_range(lab, DTYPE_E5M2, 2);
        struct tensor y = arena_2d(&lab->arena, DTYPE_E5M2, rows, columns);
        struct tensor turned = arena_2d(&lab->arena, DTYPE_E5M2, columns, rows);
        op_quantize(lab->device, &(struct op_quantize){.y = {.value = y, .range = range}, .x = x.t});
        op_transpose(lab->device, &(struct op_transpose){.y = turned, .x = y});
        const uint8_t *codes = float8_codes(lab, y), *turned_codes = float8_codes(lab, turned);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                EXPECT_INT(turned_codes[c * rows + r], codes[r * columns + c]);
        lab_clear(lab);
    }
}

// A matmul operand: random numbers stored in fp8, and the values of the codes.
static inline struct sample float8_factor(struct lab *lab, enum dtype dtype, struct tensor range, int64_t rows,
                                          int64_t columns) {
    struct sample x = float8_bf16(lab, rows, columns, 0.7);
    struct sample stored = {arena_2d(&lab->arena, dtype, rows, columns), lab_doubles(lab, rows * columns)};
    op_quantize(lab->device, &(struct op_quantize){.y = {.value = stored.t, .range = range}, .x = x.t});
    const uint8_t *codes = float8_codes(lab, stored.t);
    double factor = lab_read(lab, range)[RANGE_FACTOR];
    for (int64_t i = 0; i < rows * columns; i++)
        stored.x[i] = (double)float8_decode(dtype, codes[i]) * factor;
    return stored;
}

static inline double float8_dot(const struct sample *a, const struct sample *b, int64_t m, int64_t n, int64_t K) {
    double sum = 0;
    for (int64_t k = 0; k < K; k++)
        sum += a->x[m * K + k] * b->x[n * K + k];
    return sum;
}

// Forward: E4M3 twice with a bias, to bf16. Gradients: E5M2 with E4M3, to bf16, the same with fast sums, and added to
// fp32.
static inline void case_matmul_float8(struct lab *lab) {
    static const int64_t sizes[][3] = {{16, 16, 16}, {48, 80, 112}, {128, 96, 256}, {32, 48, 2048}};
    double tolerance = lab->tolerance;
    for (int size = 0; size < 4; size++) {
        int64_t M = sizes[size][0], N = sizes[size][1], K = sizes[size][2];
        struct tensor of_a = float8_range(lab, DTYPE_E4M3, 2), of_b = float8_range(lab, DTYPE_E4M3, 3);
        struct tensor of_dy = float8_range(lab, DTYPE_E5M2, 2);
        struct sample a = float8_factor(lab, DTYPE_E4M3, of_a, M, K), b = float8_factor(lab, DTYPE_E4M3, of_b, N, K);
        struct sample dy = float8_factor(lab, DTYPE_E5M2, of_dy, M, K),
                      bias = lab_sample(lab, arena_1d(&lab->arena, DTYPE_BF16, N), 1);
        struct sample y = float8_bf16(lab, M, N, 1), dx = float8_bf16(lab, M, N, 1), dw = lab_fp32_2d(lab, M, N, 1);
        struct sample fast = float8_bf16(lab, M, N, 1);
        double *expected_y = lab_doubles(lab, M * N), *expected_dx = lab_doubles(lab, M * N);
        double *expected_dw = lab_doubles(lab, M * N);
        for (int64_t i = 0; i < M * N; i++) {
            expected_y[i] = float8_dot(&a, &b, i / N, i % N, K) + bias.x[i % N];
            expected_dx[i] = 0.5 * float8_dot(&dy, &b, i / N, i % N, K);
            expected_dw[i] = float8_dot(&dy, &b, i / N, i % N, K) + dw.x[i];
        }
        struct op_matmul op = {.a = a.t, .b = b.t, .d = y.t, .a_range = of_a, .b_range = of_b, .transpose_b = true};
        op.alpha = 1;
        op.epilogue = EPILOGUE_BIAS;
        op.bias = bias.t;
        op_matmul(lab->device, &op);
        op = (struct op_matmul){.a = dy.t, .b = b.t, .a_range = of_dy, .b_range = of_b, .transpose_b = true};
        op.d = dx.t;
        op.alpha = 0.5f;
        op_matmul(lab->device, &op);
        op.d = fast.t;
        op.is_fast = true;
        op_matmul(lab->device, &op);
        op.is_fast = false;
        op.d = dw.t;
        op.alpha = op.beta = 1;
        op_matmul(lab->device, &op);
        lab->tolerance = 8e-3;  // bf16, and sums with few bits
        lab_expect(lab, y.t, expected_y);
        lab_expect(lab, dx.t, expected_dx);
        lab_expect(lab, fast.t, expected_dx);
        lab->tolerance = 1e-3;
        lab_expect(lab, dw.t, expected_dw);
        lab->tolerance = tolerance;
        lab_clear(lab);
    }
}

static inline void case_move_ranges(struct lab *lab) {
    // factor, scale, seen, largest; and a history of three.
    double ranges[] = {1, 1, 2, 448, 1, 1, 0, 448, 0.25, 2, INFINITY, 57344, 1, 1, 8, 57344};
    double history[] = {1, 5, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0};
    struct tensor r = arena_2d(&lab->arena, DTYPE_F32, 4, RANGE_LENGTH), h = arena_2d(&lab->arena, DTYPE_F32, 4, 3);
    lab_write(lab, r, ranges);
    lab_write(lab, h, history);
    op_move_ranges(lab->device,
                   &(struct op_move_ranges){.ranges = r, .history = h, .place = 2, .takes_largest = true, .margin = 1});
    const double *moved = lab_read(lab, r), *past = lab_read(lab, h);
    EXPECT(fabs(moved[RANGE_SCALE] - 448.0 / 5 / 2) < 1e-4 && past[2] == 2);  // 5 was larger
    EXPECT(fabs(moved[RANGE_FACTOR] * moved[RANGE_SCALE] - 1) < 1e-6);
    EXPECT(moved[4 + RANGE_SCALE] == 1 && moved[4 + RANGE_FACTOR] == 1);  // nothing was seen yet
    EXPECT(moved[8 + RANGE_SCALE] == 2 && past[8] == 0);                  // an infinity is ignored
    EXPECT(moved[8 + RANGE_FACTOR] == 0.5);                               // and the two numbers match again
    EXPECT(moved[12 + RANGE_SCALE] == 57344.0 / 8 / 2);
    for (int i = 0; i < 4; i++)
        EXPECT(moved[4 * i + RANGE_SEEN] == 0);
    ranges[RANGE_SEEN] = 7;
    lab_write(lab, r, ranges);
    op_move_ranges(lab->device, &(struct op_move_ranges){.ranges = r});
    EXPECT(lab_read(lab, r)[RANGE_SCALE] == 64);
    // What one range has seen sets the scale of another, which keeps what it has seen itself.
    double seen[] = {0, 0, 3.5, 0, 0, 0, NAN, 0, 0, 0, 0, 0, 0, 0, 7, 0};
    struct tensor s = arena_2d(&lab->arena, DTYPE_F32, 4, RANGE_LENGTH);
    lab_write(lab, r, ranges);
    lab_write(lab, s, seen);
    op_move_ranges(lab->device, &(struct op_move_ranges){.ranges = s, .scaled = r});
    moved = lab_read(lab, r);
    EXPECT(moved[RANGE_SCALE] == 128 && moved[RANGE_FACTOR] == 1.0 / 128 && moved[RANGE_SEEN] == 7);
    EXPECT(moved[4 + RANGE_SCALE] == 1 && moved[8 + RANGE_SCALE] == 2);
    EXPECT(moved[12 + RANGE_SCALE] == 8192 && moved[12 + RANGE_SEEN] == 8);
    EXPECT(lab_read(lab, s)[RANGE_SEEN] == 0 && lab_read(lab, s)[4 + RANGE_SEEN] == 0);
}

// A norm that stores fp8 gives what op_quantize makes of its result.
static inline void case_norm_float8(struct lab *lab) {
    static const int64_t sizes[][2] = {{5, 16}, {33, 768}, {64, 2048}, {7, 4112}};
    for (int size = 0; lab->device->ops->fuses_quantize && size < 4; size++) {
        int64_t rows = sizes[size][0], columns = sizes[size][1], all = (rows + 3) / 4 * 4;
        struct sample x = float8_bf16(lab, all, columns, 2);
        struct sample gain = lab_sample(lab, arena_1d(&lab->arena, DTYPE_BF16, columns), 1);
        struct tensor plain = arena_2d(&lab->arena, DTYPE_BF16, all, columns);
        struct tensor rstd = arena_1d(&lab->arena, DTYPE_F32, all);
        struct tensor range = float8_range(lab, DTYPE_E4M3, 3), fused = float8_range(lab, DTYPE_E4M3, 3);
        struct tensor y = arena_2d(&lab->arena, DTYPE_E4M3, all, columns);
        struct tensor y_fused = arena_2d(&lab->arena, DTYPE_E4M3, all, columns);
        struct op_norm_forward norm = {.kind = NORM_RMS, .y = plain, .rstd = rstd, .x = x.t, .gain = gain.t};
        norm.epsilon = 1e-5f;
        op_norm_forward(lab->device, &norm);
        op_quantize(lab->device, &(struct op_quantize){.y = {.value = y, .range = range}, .x = plain});
        norm.y = y_fused;
        norm.y_range = fused;
        op_norm_forward(lab->device, &norm);
        EXPECT(memcmp(float8_codes(lab, y), float8_codes(lab, y_fused), tensor_bytes(y)) == 0);
        EXPECT(lab_read(lab, range)[RANGE_SEEN] == lab_read(lab, fused)[RANGE_SEEN]);
        lab_clear(lab);
    }
}

#endif
