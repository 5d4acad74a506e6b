// Matmuls: every transposition, odd sizes, distant rows, alpha and beta, each epilogue.
#ifndef TESTS_OPS_CASES_MATMUL_H
#define TESTS_OPS_CASES_MATMUL_H

#include "lab.h"

// A matrix inside a wider one: `t` is the view; the rest of the wide matrix must not change.
struct wide {
    struct sample whole;
    struct tensor t;
    int64_t stride, first;
};

static inline struct wide lab_wide(struct lab *lab, enum dtype dtype, int64_t rows, int64_t columns, int64_t extra) {
    struct wide w = {.stride = columns + extra, .first = extra / 2};
    w.whole = lab_sample(lab, arena_2d(&lab->arena, dtype, rows, w.stride), 1.0);
    w.t = tensor_slice(w.whole.t, 1, w.first, columns);
    return w;
}

static inline double wide_at(const struct wide *w, bool transpose, int64_t i, int64_t j) {
    return transpose ? w->whole.x[j * w->stride + w->first + i] : w->whole.x[i * w->stride + w->first + j];
}

// alpha * op(a) op(b) + beta * d, (M, N) in new memory.
static inline double *naive_matmul(struct lab *lab, const struct op_matmul *op, const struct wide *a,
                                   const struct wide *b, const struct wide *d) {
    int64_t rows = op->d.shape[0], columns = op->d.shape[1], inner = op->a.shape[op->transpose_a ? 0 : 1];
    double *result = lab_doubles(lab, rows * columns), *row = lab_doubles(lab, columns);
    for (int64_t k = 0; k < inner; k++) {
        for (int64_t j = 0; j < columns; j++)
            row[j] = wide_at(b, op->transpose_b, k, j);
        for (int64_t i = 0; i < rows; i++)
            lab_add(result + i * columns, wide_at(a, op->transpose_a, i, k), row, columns);
    }
    for (int64_t i = 0; i < rows * columns; i++)
        result[i] = (double)op->alpha * result[i] + (double)op->beta * wide_at(d, false, i / columns, i % columns);
    return result;
}

// The view holds `expected`, and the rest of the wide matrix is unchanged.
static inline void expect_wide(struct lab *lab, const struct wide *d, const double *expected) {
    int64_t rows = d->t.shape[0], columns = d->t.shape[1];
    double *now = lab_read(lab, d->whole.t), *inside = lab_doubles(lab, rows * columns);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < d->stride; j++) {
            bool is_inside = j >= d->first && j < d->first + columns;
            if (is_inside)
                inside[i * columns + j - d->first] = now[i * d->stride + j];
            else
                EXPECT(now[i * d->stride + j] == d->whole.x[i * d->stride + j]);
        }
    }
    lab_expect_values(lab, inside, expected, rows * columns);
}

static inline void matmul_variant(struct lab *lab, const int64_t size[3], bool transpose_a, bool transpose_b,
                                  int64_t extra) {
    int64_t M = size[0], N = size[1], K = size[2];
    struct wide a = transpose_a ? lab_wide(lab, lab->dtype, K, M, extra) : lab_wide(lab, lab->dtype, M, K, extra);
    struct wide b = transpose_b ? lab_wide(lab, lab->dtype, N, K, extra) : lab_wide(lab, lab->dtype, K, N, extra);
    struct wide d = lab_wide(lab, lab->dtype, M, N, extra), wgrad = lab_wide(lab, DTYPE_F32, M, N, extra);
    struct op_matmul op = {a.t, b.t, d.t, .transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = 1};
    op_matmul(lab->device, &op);
    expect_wide(lab, &d, naive_matmul(lab, &op, &a, &b, &d));
    // Into fp32 and added to the existing values, as weight gradients are accumulated.
    op.d = wgrad.t;
    op.alpha = 0.75f;
    op.beta = 1;
    op_matmul(lab->device, &op);
    expect_wide(lab, &wgrad, naive_matmul(lab, &op, &a, &b, &wgrad));
    lab_clear(lab);
}

static inline void case_matmul(struct lab *lab) {
    static const int64_t sizes[][3] = {{1, 1, 1},   {3, 1, 17},   {1, 65, 3},     {17, 3, 65},
                                       {65, 17, 1}, {65, 65, 65}, {130, 33, 200}, {16, 256, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int transposes = 0; transposes < 4; transposes++) {
            matmul_variant(lab, sizes[i], transposes & 1, transposes & 2, 0);
            matmul_variant(lab, sizes[i], transposes & 1, transposes & 2, 24);
        }
    }
}

// Large enough to be split into several tiles in both directions.
static inline void case_matmul_tiles(struct lab *lab) {
    matmul_variant(lab, (int64_t[]){1100, 17, 20}, false, false, 0);
    matmul_variant(lab, (int64_t[]){17, 2500, 20}, false, true, 0);
    matmul_variant(lab, (int64_t[]){700, 1300, 9}, true, false, 8);
    matmul_variant(lab, (int64_t[]){18, 3250, 25}, false, false, 0);
    // An inner dimension long enough to be split too, with pieces of odd lengths.
    for (int transposes = 0; transposes < 4; transposes++)
        matmul_variant(lab, (int64_t[]){75, 41, 1123}, transposes & 1, transposes & 2, 8);
}

static inline double naive_gelu(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static inline double naive_gelu_gradient(double x) {
    double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = tanh(u);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

static inline void epilogue_variant(struct lab *lab, const int64_t size[3], bool has_aux) {
    int64_t M = size[0], N = size[1], K = size[2];
    struct wide a = lab_wide(lab, lab->dtype, M, K, 0), b = lab_wide(lab, lab->dtype, N, K, 0);
    struct wide d = lab_wide(lab, lab->dtype, M, N, 8);
    struct sample bias = lab_1d(lab, N, 1), aux = lab_2d(lab, M, N, 1);
    struct op_matmul op = {a.t, b.t, d.t, .transpose_b = true, .alpha = 1, .epilogue = EPILOGUE_BIAS, .bias = bias.t};
    double *expected = naive_matmul(lab, &op, &a, &b, &d);
    for (int64_t i = 0; i < M * N; i++)
        expected[i] += bias.x[i % N];
    op_matmul(lab->device, &op);
    expect_wide(lab, &d, expected);
    op.epilogue = EPILOGUE_BIAS_ACTIVATION;
    if (has_aux)
        op.aux = aux.t;
    op_matmul(lab->device, &op);
    if (has_aux)
        lab_expect(lab, aux.t, expected);
    for (int64_t i = 0; i < M * N; i++)
        expected[i] = naive_gelu(expected[i]);
    expect_wide(lab, &d, expected);
    lab_clear(lab);
}

static inline void gradient_epilogue_variant(struct lab *lab, const int64_t size[3]) {
    int64_t M = size[0], N = size[1], K = size[2];
    struct wide a = lab_wide(lab, lab->dtype, M, K, 0), b = lab_wide(lab, lab->dtype, K, N, 0);
    struct wide d = lab_wide(lab, lab->dtype, M, N, 0);
    struct sample aux = lab_2d(lab, M, N, 4);
    struct op_matmul op = {a.t, b.t, d.t, .alpha = 1, .epilogue = EPILOGUE_ACTIVATION_GRADIENT, .aux = aux.t};
    double *expected = naive_matmul(lab, &op, &a, &b, &d);
    for (int64_t i = 0; i < M * N; i++)
        expected[i] *= naive_gelu_gradient(aux.x[i]);
    op_matmul(lab->device, &op);
    expect_wide(lab, &d, expected);
    lab_clear(lab);
}

static inline void case_matmul_epilogues(struct lab *lab) {
    static const int64_t sizes[][3] = {{1, 1, 1},      {3, 17, 65},   {65, 3, 17},   {17, 65, 1},
                                       {600, 130, 16}, {8, 1300, 16}, {30, 110, 700}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        epilogue_variant(lab, sizes[i], true);
        epilogue_variant(lab, sizes[i], false);
        gradient_epilogue_variant(lab, sizes[i]);
    }
    for (double x = -6; x <= 6; x += 0.37) {
        double slope = (naive_gelu(x + 1e-5) - naive_gelu(x - 1e-5)) / 2e-5;
        EXPECT_NEAR(naive_gelu_gradient(x), slope, 1e-8);
    }
}

// The products of one step of Newton and Schulz, of several matrices at once.
struct many_size {
    int64_t n, M, N, K;
    bool transpose_a, transpose_b, is_symmetric;
};

static inline double many_at(const struct sample *s, bool transpose, int64_t matrix, int64_t i, int64_t j) {
    int64_t rows = s->t.shape[1], columns = s->t.shape[2];
    return s->x[matrix * rows * columns + (transpose ? j * columns + i : i * columns + j)];
}

// The products of the matrices, (n, M, N) in new memory.
static inline double *naive_many(struct lab *lab, const struct many_size *size, const struct sample *a,
                                 const struct sample *b) {
    int64_t M = size->M, N = size->N;
    double *products = lab_doubles(lab, size->n * M * N), *row = lab_doubles(lab, N);
    for (int64_t k = 0; k < size->n * size->K; k++) {
        int64_t matrix = k / size->K, step = k % size->K;
        for (int64_t j = 0; j < N; j++)
            row[j] = many_at(b, size->transpose_b, matrix, step, j);
        for (int64_t i = 0; i < M; i++)
            lab_add(products + (matrix * M + i) * N, many_at(a, size->transpose_a, matrix, i, step), row, N);
    }
    return products;
}

// Divided by no norm, by norms, or by their squares.
enum many_norms { NORMS_NONE, NORMS_ONCE, NORMS_TWICE };

static inline void check_many(struct lab *lab, const struct many_size *size, float beta) {
    int64_t n = size->n, M = size->M, N = size->N, K = size->K;
    struct sample a =
        lab_sample(lab, arena_3d(&lab->arena, lab->dtype, n, size->transpose_a ? K : M, size->transpose_a ? M : K), 1);
    struct sample b =
        lab_sample(lab, arena_3d(&lab->arena, lab->dtype, n, size->transpose_b ? N : K, size->transpose_b ? K : N), 1);
    struct sample c = lab_sample(lab, arena_3d(&lab->arena, lab->dtype, n, M, N), 1);
    struct tensor d = arena_3d(&lab->arena, lab->dtype, n, M, N);
    device_zero(lab->device, d);  // initcheck does not see what bulk copies write
    // A square of a symmetric matrix, if it is not the product of one with itself transposed; and what is added is
    // symmetric, too.
    for (int64_t m = 0; m < n && size->is_symmetric; m++)
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < i; j++) {
                int64_t low = (m * M + i) * M + j, high = (m * M + j) * M + i;
                c.x[high] = c.x[low];
                if (size->transpose_a == size->transpose_b)
                    a.x[high] = a.x[low];
            }
    if (size->is_symmetric) {
        lab_write(lab, a.t, a.x);
        lab_write(lab, c.t, c.x);
        b = a;
    }
    struct sample squares = lab_fp32_1d(lab, n, 1);
    for (int64_t i = 0; i < n; i++)
        squares.x[i] = i == 1 ? 0.25 : 0.5 + 3 * (double)(i % 5);
    lab_write(lab, squares.t, squares.x);
    double *products = naive_many(lab, size, &a, &b), *expected = lab_doubles(lab, n * M * N);
    for (int norms = NORMS_NONE; norms <= NORMS_TWICE; norms++) {
        for (int64_t matrix = 0; matrix < n; matrix++) {
            double divisor = pow(fmax(sqrt(squares.x[matrix]), 0.75), norms);
            for (int64_t i = matrix * M * N; i < (matrix + 1) * M * N; i++)
                expected[i] = (0.5 * products[i] + (double)beta * c.x[i]) / divisor;
        }
        op_matmul_many(lab->device, &(struct op_matmul_many){.a = a.t,
                                                             .b = b.t,
                                                             .d = d,
                                                             .c = beta == 0 ? (struct tensor){0} : c.t,
                                                             .transpose_a = size->transpose_a,
                                                             .transpose_b = size->transpose_b,
                                                             .alpha = 0.5f,
                                                             .beta = beta,
                                                             .is_symmetric = size->is_symmetric,
                                                             .sum_squares = norms ? squares.t : (struct tensor){0},
                                                             .least = 0.75f,
                                                             .is_twice = norms == NORMS_TWICE});
        lab_expect(lab, d, expected);
    }
    lab_clear(lab);
}

static inline void case_matmul_many(struct lab *lab) {
    static const struct many_size sizes[] = {
        {3, 5, 5, 9, false, true, true},         {2, 136, 136, 64, false, true, true},
        {3, 264, 264, 200, false, true, true},   {1, 520, 520, 72, true, false, true},
        {2, 392, 392, 136, true, false, true},   {2, 264, 264, 264, false, false, true},
        {4, 128, 128, 128, false, false, true},  {3, 136, 520, 136, false, false, false},
        {2, 520, 136, 136, false, false, false}, {2, 200, 300, 64, false, true, false},
        {5, 17, 33, 3, false, false, false},     {2, 132, 132, 60, false, true, true},
        {9, 448, 448, 72, false, true, true},    {3, 832, 832, 64, true, false, true},
        {6, 328, 832, 136, false, false, false}, {2, 640, 640, 640, false, false, true},
        {2, 832, 200, 264, false, false, false}, {40, 320, 320, 136, false, true, true}};
    enum { TINY = 50000000 };  // multiplications; some have more steps than are copied ahead
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (!lab_is_tiny() || sizes[i].n * sizes[i].M * sizes[i].N * sizes[i].K < TINY)
            check_many(lab, &sizes[i], i % 3 == 0 ? 0 : -1.5f);
}

#endif
