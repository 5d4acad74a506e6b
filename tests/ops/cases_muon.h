// The parts of Muon that are not matmuls beside loops in double.
#ifndef TESTS_OPS_CASES_MUON_H
#define TESTS_OPS_CASES_MUON_H

#include "cases_updates.h"

// Momentum rounded to the dtype of matmuls, beside momentum in fp32, which others check: and divided there, twice.
static inline void check_rounded_momentum(struct lab *lab, const struct adam_setup *s, bool is_nesterov) {
    int64_t count = tensor_count(s->op.m);
    struct tensor m = arena_1d(&lab->arena, DTYPE_F32, count), squares = arena_1d(&lab->arena, DTYPE_F32, 1);
    struct tensor exact = arena_1d(&lab->arena, DTYPE_F32, count), y = arena_1d(&lab->arena, lab->dtype, count);
    double *expected, sum = 0;
    struct op_momentum op = {.grad = s->op.grad, .scale = s->op.scale, .momentum = 0.75f, .is_nesterov = is_nesterov};
    for (int i = 0; i < 2; i++) {
        op_copy(lab->device, &(struct op_copy){.dst = m, .src = s->op.m});
        device_zero(lab->device, squares);
        op.m = m;
        op.y = i == 0 ? exact : y;
        op.sum_squares = i == 0 ? (struct tensor){0} : squares;
        op_momentum(lab->device, &op);
    }
    expected = lab_read(lab, exact);
    for (int64_t i = 0; i < count; i++)
        sum += expected[i] * expected[i];
    lab_expect(lab, y, expected);
    lab_expect(lab, squares, &sum);
    struct sample by = lab_fp32_1d(lab, 1, 1);
    lab_write(lab, by.t, (double[]){4});
    op_normalize(lab->device,
                 &(struct op_normalize){.y = y, .x = y, .sum_squares = by.t, .least = 1e-3f, .is_twice = true});
    for (int64_t i = 0; i < count; i++)
        expected[i] /= 4;
    lab_expect(lab, y, expected);
}

// Momentum, its norm, and the step along a direction, which are the parts of Muon that are not matmuls.
static inline void check_muon(struct lab *lab, int64_t count, double scale, bool has_halves, bool is_nesterov) {
    struct adam_setup s;
    adam_setup(lab, &s, count, scale, has_halves);
    lab_write(lab, s.rate.t, (double[RATE_GROUP]){[FOLLOW_STEP] = s.lr, [FOLLOW_DECAY] = s.lr * s.weight_decay});
    struct sample y = lab_fp32_1d(lab, count, 1), unit = lab_1d(lab, count, 1), squares = lab_fp32_1d(lab, 1, 1);
    struct sample along = lab_sample(lab, arena_1d(&lab->arena, has_halves ? DTYPE_BF16 : DTYPE_F32, count), 1);
    double sum = 0, before = 0.25;
    for (int64_t i = 0; i < count; i++) {
        double g = s.grad.x[i] * scale;
        s.m.x[i] = isfinite(scale) ? 0.75 * s.m.x[i] + 0.25 * g : s.m.x[i];
        y.x[i] = !isfinite(scale) ? 0 : is_nesterov ? 0.75 * s.m.x[i] + 0.25 * g : s.m.x[i];
        sum += y.x[i] * y.x[i];
    }
    for (int64_t i = 0; i < count; i++) {
        unit.x[i] = y.x[i] / fmax(sqrt(before + sum), 1e-3);
        s.master.x[i] -= isfinite(scale) ? s.lr * 3 * along.x[i] + s.lr * s.weight_decay * s.master.x[i] : 0;
    }
    struct tensor master = s.op.master;
    if (has_halves) {
        master = arena_1d(&lab->arena, DTYPE_I16, count);
        op_split(lab->device, &(struct op_split){.value = s.op.copy, .rest = master, .x = s.op.master});
    }
    lab_write(lab, squares.t, &before);
    op_momentum(lab->device, &(struct op_momentum){.y = y.t,
                                                   .m = s.op.m,
                                                   .grad = s.op.grad,
                                                   .scale = s.op.scale,
                                                   .sum_squares = squares.t,
                                                   .momentum = 0.75f,
                                                   .is_nesterov = is_nesterov});
    op_normalize(lab->device, &(struct op_normalize){.y = unit.t, .x = y.t, .sum_squares = squares.t, .least = 1e-3f});
    check_rounded_momentum(lab, &s, is_nesterov);
    op_follow(lab->device, &(struct op_follow){.master = master,
                                               .copy = s.op.copy,
                                               .x = along.t,
                                               .scale = s.op.scale,
                                               .rate = s.op.rate,
                                               .factor = 3,
                                               .is_decayed = true});
    if (has_halves)
        op_merge(lab->device, &(struct op_merge){.x = s.op.master, .value = s.op.copy, .rest = master});
    double coarse = lab->tolerance;
    lab_expect(lab, unit.t, unit.x);
    lab->tolerance = 1e-5;
    lab_expect(lab, s.op.m, s.m.x);
    lab_expect(lab, y.t, y.x);
    lab_expect(lab, squares.t, (double[]){before + sum});
    lab_expect(lab, s.op.master, s.master.x);
    lab->tolerance = coarse;
    lab_clear(lab);
}

static inline void case_muon(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 66, 1025, 70001, 200000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_muon(lab, counts[i], i == 3 ? NAN : 0.5, false, i % 2 == 0);
    enum dtype dtype = lab->dtype;
    double tolerance = lab->tolerance;
    lab->dtype = DTYPE_BF16;
    lab->tolerance = 0x1p-7;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_muon(lab, counts[i], i == 4 ? INFINITY : 0.5, true, i % 2 == 1);
    lab->dtype = dtype;
    lab->tolerance = tolerance;
}

// Mean squares of a slice's rows or columns, and an update divided by the root of its second moment.
static inline void check_adapt(struct lab *lab, int64_t M, int64_t N, bool is_by_columns, double scale) {
    struct sample x = lab_sample(lab, arena_2d(&lab->arena, DTYPE_F32, M, N + 3), 1);
    struct sample y = lab_sample(lab, arena_2d(&lab->arena, DTYPE_F32, is_by_columns ? M + 2 : M, N), 1);
    struct sample s = lab_fp32_1d(lab, 1, 1), update = lab_fp32_1d(lab, M * N, 1), v = lab_fp32_1d(lab, M * N, 1);
    for (int64_t i = 0; i < tensor_count(y.t); i++) {
        double sum = 0;
        int64_t at = is_by_columns ? i % N : i / N, length = is_by_columns ? M : N + 3;
        for (int64_t k = 0; k < length; k++)
            sum += pow(is_by_columns ? x.x[k * (N + 3) + at] : x.x[at * (N + 3) + k], 2);
        y.x[i] = sum / (double)length;
    }
    struct tensor from = is_by_columns ? tensor_slice(x.t, 1, 0, N) : x.t;
    op_mean_squares(lab->device, &(struct op_mean_squares){.y = y.t, .x = from, .is_by_columns = is_by_columns});
    for (int64_t i = 0; i < M * N; i++)
        v.x[i] = fabs(v.x[i]);
    lab_write(lab, v.t, v.x);
    lab_write(lab, s.t, &scale);
    struct tensor squares = tensor_rows(tensor_flat(y.t), 0, M * N);
    for (int64_t i = 0; i < M * N && isfinite(scale); i++) {
        v.x[i] = 0.75 * v.x[i] + 0.25 * (is_by_columns ? y.x[i] : update.x[i] * update.x[i]);
        update.x[i] /= is_by_columns ? sqrt(fmax(v.x[i], 0.5)) : sqrt(v.x[i]) + 0.5;
    }
    op_adapt(lab->device, &(struct op_adapt){.x = update.t,
                                             .v = v.t,
                                             .squares = is_by_columns ? squares : (struct tensor){0},
                                             .scale = s.t,
                                             .beta2 = 0.75f,
                                             .epsilon = 0.5f,
                                             .is_bounded = is_by_columns});
    double coarse = lab->tolerance;
    lab->tolerance = 1e-5;
    lab_expect(lab, y.t, y.x);
    lab_expect(lab, v.t, v.x);
    lab_expect(lab, update.t, update.x);
    lab->tolerance = coarse;
    lab_clear(lab);
}

static inline void case_adapt(struct lab *lab) {
    static const int64_t sides[] = {1, 3, 17, 65, 300};
    for (int i = 0; i < 50; i++)
        check_adapt(lab, sides[i % 5], sides[i / 5 % 5], i >= 25, i == 31 ? NAN : i == 7 ? INFINITY : 0.5);
}

// Each diagonal is one of its own.
static inline void case_add_diagonal(struct lab *lab) {
    static const int64_t sides[] = {1, 3, 17, 64, 301};
    for (int k = 0; k < 5; k++) {
        int64_t side = sides[k], count = k + 1;
        struct sample x = lab_sample(lab, arena_3d(&lab->arena, lab->dtype, count, side, side), 1);
        for (int64_t i = 0; i < count * side; i++)
            x.x[i / side * side * side + i % side * (side + 1)] += 2.5;
        op_add_diagonal(lab->device, &(struct op_add_diagonal){.x = x.t, .value = 2.5f});
        lab_expect(lab, x.t, x.x);
        lab_clear(lab);
    }
}

#endif
