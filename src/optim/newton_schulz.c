// Newton-Schulz steps. See newton_schulz.h.
#include "optim/newton_schulz.h"
#include "ops/device.h"
#include "optim/coefficients.h"

#include <string.h>

enum dtype newton_schulz_dtype(const struct config *config) {
    return strcmp(config->muon_fp32_matmul_prec, "high") == 0 ? DTYPE_F32 : DTYPE_BF16;
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
           coefficients_find(config->muon_coefficient_type)->has_pairs;
}

static int64_t pair_count(const struct config *config, int64_t M, int64_t N) {
    return takes_pairs(config, M, N) ? config->muon_num_ns_steps / 2 : 0;
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
    const struct coefficients *set = coefficients_find(config->muon_coefficient_type);
    int64_t count = config->muon_num_ns_steps, pairs = pair_count(config, M, N), i = 0;
    for (; i < 2 * pairs; i += 2)
        take_pair(&it, coefficients_step(set, i), coefficients_step(set, i + 1));
    for (; i < count; i++)
        take_step(&it, coefficients_step(set, i));
    return it.x;
}

double newton_schulz_flops(const struct config *config, int64_t M, int64_t N) {
    double side = (double)short_side(M, N), length = (double)(M + N) - side;
    double small = side * side * side, gram = side * side * length, applied = 2 * side * side * length;
    const struct coefficients *set = coefficients_find(config->muon_coefficient_type);
    int64_t pairs = pair_count(config, M, N);
    double flops = (double)pairs * (gram + PRODUCTS_OF_PAIR * small + applied);
    for (int64_t i = 2 * pairs; i < config->muon_num_ns_steps; i++)
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
