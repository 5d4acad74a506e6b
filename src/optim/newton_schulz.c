// Newton-Schulz steps. See newton_schulz.h.
#include "optim/newton_schulz.h"

#include "base/error.h"
#include "ops/device.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// ---- the polynomials, by --muon-coefficient-type ----
//
// Names, numbers and the continuation after a set's last step are those of NVIDIA's emerging_optimizers, which
// Megatron-LM uses.

// A step replaces X by a X + b (X X') X + c (X X')^2 X.
struct polynomial {
    float a, b, c;
};

struct coefficients {
    const char *name;
    const struct polynomial *steps;
    int64_t count;
    bool repeats_last;  // further steps repeat the last one; otherwise they start from the first
    bool has_pairs;     // two steps may be combined in bf16
};

static const struct polynomial quintic[] = {{4.0848f, -6.8946f, 2.9270f},
                                            {3.9505f, -6.3029f, 2.6377f},
                                            {3.7418f, -5.5913f, 2.3037f},
                                            {2.8769f, -3.1427f, 1.2046f},
                                            {2.8366f, -3.0525f, 1.2012f}};
static const struct polynomial simple[] = {{3.4445f, -4.7750f, 2.0315f}};
// From "The Polar Express" (arXiv 2505.16932), for singular values from 1e-3 to 1; all but the last step allow for
// values of 1.01.
static const struct polynomial polar_express[] = {{8.2051f, -22.9019f, 16.4607f}, {4.0664f, -2.8612f, 0.5184f},
                                                  {3.9096f, -2.8234f, 0.5250f},   {3.2856f, -2.4153f, 0.4853f},
                                                  {2.2779f, -1.6198f, 0.3985f},   {1.8726f, -1.2307f, 0.3585f},
                                                  {1.8564f, -1.2132f, 0.3568f},   {1.8750f, -1.2500f, 0.3750f}};
// Chebyshev-type polynomials (arXiv 2506.10935).
static const struct polynomial cans[] = {{8.4703f, -25.1081f, 18.6293f},
                                         {4.1828f, -3.1087f, 0.5806f},
                                         {3.9619f, -2.9541f, 0.5630f},
                                         {3.2866f, -2.4647f, 0.5074f},
                                         {2.2737f, -1.6447f, 0.4162f}};
// The steps of Turbo-Muon, without its first division by sums of rows of the Gram matrix: as in all other sets,
// matrices are divided by their norms.
static const struct polynomial aol[] = {{4.0098f, -7.0585f, 2.4635f},
                                        {3.4585f, -5.5479f, 2.5959f},
                                        {2.7573f, -3.2939f, 1.4254f},
                                        {2.7215f, -3.0494f, 1.3169f}};
static const struct polynomial deepseekv4[] = {{3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                               {3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                               {3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                               {3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                               {2.0f, -1.5f, 0.5f},          {2.0f, -1.5f, 0.5f}};
// Cubic: one matmul fewer in each step (arXiv 2606.00371).
static const struct polynomial cubic5[] = {{3.3656576f, -3.3420992f, 0},
                                           {2.5744352f, -1.4957376f, 0},
                                           {2.5368962f, -1.4312570f, 0},
                                           {2.4418906f, -1.2764040f, 0},
                                           {2.2230472f, -0.9630650f, 0}};

#define ROW(name_, repeats_last_, has_pairs_)                                                                          \
    { #name_, name_, sizeof name_ / sizeof name_[0], repeats_last_, has_pairs_ }
// No pairs with a steep first step, which amplifies the rounding of the Gram matrix; cubic steps gain little from them.
static const struct coefficients table[] = {
    ROW(quintic, false, true), ROW(simple, false, true),    ROW(polar_express, true, false), ROW(cans, true, false),
    ROW(aol, false, true),     ROW(deepseekv4, true, true), ROW(cubic5, false, false)};

static const struct coefficients *coefficients_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    die("no coefficients are called %s", name);
}

static struct polynomial coefficients_step(const struct coefficients *set, int64_t step) {
    if (step >= set->count)
        step = set->repeats_last ? set->count - 1 : step % set->count;
    return set->steps[step];
}

// ---- the steps ----

enum dtype newton_schulz_dtype(const struct config *config) {
    return strcmp(config->run.muon_fp32_matmul_prec, "high") == 0 ? DTYPE_F32 : DTYPE_BF16;
}

static int64_t short_side(int64_t M, int64_t N) {
    return M < N ? M : N;
}

// Whether to combine two steps: if the matrix is so much longer than wide that matmuls of its Gram matrix are cheaper
// than its own. Only in bf16, whose rounding limits the precision anyway, and with steps of moderate slope: a steep
// first one amplifies the rounding of the Gram matrix.
static bool takes_pairs(const struct config *config, int64_t M, int64_t N) {
    int64_t side = short_side(M, N), length = M + N - side;
    return length >= 2 * side && newton_schulz_dtype(config) == DTYPE_BF16 &&
           coefficients_find(config->run.muon_coefficient_type)->has_pairs;
}

static int64_t pair_count(const struct config *config, int64_t M, int64_t N) {
    return takes_pairs(config, M, N) ? config->run.muon_num_ns_steps / 2 : 0;
}

// Matrices being orthogonalized.
struct iteration {
    struct device *device;
    struct tensor x, next;  // (n, M, N)
    struct tensor gram, p;  // (n, side, side), symmetric
    struct tensor squares;  // (n): sums of squares of x, which is not yet divided by their roots; none if it is
    bool is_wide;
};

static void multiply_symmetric(const struct iteration *it, struct tensor a, struct tensor b, struct tensor d) {
    op_matmul_many(it->device, &(struct op_matmul_many){.a = a, .b = b, .d = d, .alpha = 1, .is_symmetric = true});
}

// The Gram matrix of the shorter side.
static void make_gram(const struct iteration *it) {
    op_matmul_many(it->device, &(struct op_matmul_many){.a = it->x,
                                                        .b = it->x,
                                                        .d = it->gram,
                                                        .transpose_a = !it->is_wide,
                                                        .transpose_b = it->is_wide,
                                                        .alpha = 1,
                                                        .is_symmetric = true,
                                                        .sum_squares = it->squares,
                                                        .least = NEWTON_SCHULZ_LEAST,
                                                        .is_twice = true});
}

// d = b G + c G^2 of G in it->gram.
static void make_polynomial(const struct iteration *it, struct polynomial step, struct tensor d) {
    op_matmul_many(it->device, &(struct op_matmul_many){.a = it->gram,
                                                        .b = it->gram,
                                                        .d = d,
                                                        .c = it->gram,
                                                        .alpha = step.c,
                                                        .beta = step.b,
                                                        .is_symmetric = true});
}

// x = a x + b p x, with p multiplied from the side of the Gram matrix. Also divides x by its norm, if that is due.
static void apply_polynomial(struct iteration *it, struct tensor p, float a, float b) {
    op_matmul_many(it->device, &(struct op_matmul_many){.a = it->is_wide ? p : it->x,
                                                        .b = it->is_wide ? it->x : p,
                                                        .d = it->next,
                                                        .c = it->x,
                                                        .alpha = b,
                                                        .beta = a,
                                                        .sum_squares = it->squares,
                                                        .least = NEWTON_SCHULZ_LEAST});
    struct tensor before = it->x;
    it->x = it->next;
    it->next = before;
    it->squares = (struct tensor){0};
}

static void take_step(struct iteration *it, struct polynomial step) {
    make_gram(it);
    if (step.c == 0) {
        apply_polynomial(it, it->gram, step.a, step.b);
        return;
    }
    make_polynomial(it, step, it->p);
    apply_polynomial(it, it->p, step.a, 1);
}

// Two steps combined, with five matmuls of small matrices. The first step gives P X, with P = a + b G + c G^2, and the
// Gram matrix P G P; the second, with its polynomial P' of that, gives P' P X. Polynomials of one matrix commute, so
// all of these are symmetric.
enum { PRODUCTS_OF_PAIR = 5 };
static void take_pair(struct iteration *it, struct polynomial first, struct polynomial second) {
    // The memory of the next x has room for one more: x is long.
    struct tensor h = it->gram;
    h.data = it->next.data;
    make_gram(it);
    make_polynomial(it, first, it->p);
    op_add_diagonal(it->device, &(struct op_add_diagonal){.x = it->p, .value = first.a});
    multiply_symmetric(it, it->p, it->gram, h);
    multiply_symmetric(it, it->p, h, it->gram);
    make_polynomial(it, second, h);
    op_add_diagonal(it->device, &(struct op_add_diagonal){.x = h, .value = second.a});
    multiply_symmetric(it, h, it->p, it->gram);
    apply_polynomial(it, it->gram, 0, 1);
}

struct tensor newton_schulz(const struct config *config, const struct newton_schulz *work) {
    struct tensor x = work->x;
    int64_t n = x.shape[0], M = x.shape[1], N = x.shape[2], side = short_side(M, N);
    struct iteration it = {.device = work->device, .x = x, .squares = work->squares, .is_wide = M <= N};
    it.next = arena_3d(work->scratch, x.dtype, n, M, N);
    it.gram = arena_3d(work->scratch, x.dtype, n, side, side);
    it.p = arena_3d(work->scratch, x.dtype, n, side, side);
    const struct coefficients *set = coefficients_find(config->run.muon_coefficient_type);
    int64_t count = config->run.muon_num_ns_steps, pairs = pair_count(config, M, N), i = 0;
    for (; i < 2 * pairs; i += 2)
        take_pair(&it, coefficients_step(set, i), coefficients_step(set, i + 1));
    for (; i < count; i++)
        take_step(&it, coefficients_step(set, i));
    return it.x;
}

double newton_schulz_flops(const struct config *config, int64_t M, int64_t N) {
    double side = (double)short_side(M, N), length = (double)(M + N) - side;
    double small = side * side * side, gram = side * side * length, applied = 2 * side * side * length;
    const struct coefficients *set = coefficients_find(config->run.muon_coefficient_type);
    int64_t pairs = pair_count(config, M, N);
    double flops = (double)pairs * (gram + PRODUCTS_OF_PAIR * small + applied);
    for (int64_t i = 2 * pairs; i < config->run.muon_num_ns_steps; i++)
        flops += gram + (coefficients_step(set, i).c == 0 ? 0 : small) + applied;
    return flops;
}

bool newton_schulz_divides(const struct config *config, struct device *device) {
    return device_gains_by_many(device) && newton_schulz_dtype(config) == DTYPE_BF16;
}

int64_t newton_schulz_together(const struct config *config, struct device *device, int64_t M, int64_t N) {
    if (!device_gains_by_many(device) || newton_schulz_dtype(config) == DTYPE_F32)
        return 1;
    int64_t side = short_side(M, N), most = ((int64_t)1 << 30) / (2 * (2 * M * N + 2 * side * side));
    return most < 1 ? 1 : most;
}
