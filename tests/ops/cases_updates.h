// Cases of updates: Adam, SGD, Lion and Muon over flat ranges, with masters in fp32 and in halves, and conversions
// between the two.
#ifndef TESTS_OPS_CASES_UPDATES_H
#define TESTS_OPS_CASES_UPDATES_H

#include "lab.h"
#include "base/memory.h"
#include "tensor/moment8.h"

struct adam_setup {
    struct sample master, m, v, grad, scale, rate;
    double lr, weight_decay, step;
    struct op_adam op;
};

static inline void adam_setup(struct lab *lab, struct adam_setup *s, int64_t count, double scale, bool has_copy) {
    s->master = lab_fp32_1d(lab, count, 1);
    s->m = lab_fp32_1d(lab, count, 0.1);
    s->v = lab_fp32_1d(lab, count, 0.01);
    s->grad = lab_fp32_1d(lab, count, 1);
    s->scale = lab_fp32_1d(lab, 1, 1);
    for (int64_t i = 0; i < count; i++)
        s->v.x[i] = fabs(s->v.x[i]);
    lab_write(lab, s->v.t, s->v.x);
    lab_write(lab, s->scale.t, &scale);
    s->lr = 0.01;
    s->weight_decay = 0.1;
    s->step = 3;
    s->rate = lab_fp32_1d(lab, RATE_GROUP, 1);
    lab_write(lab, s->rate.t,
              (double[RATE_GROUP]){[ADAM_STEP] = s->lr / (1 - pow(0.9, s->step)),
                                   [ADAM_CORRECTION] = 1 / (1 - pow(0.95, s->step)),
                                   [ADAM_DECAY] = s->lr * s->weight_decay});
    s->op = (struct op_adam){.master = s->master.t,
                             .grad = s->grad.t,
                             .m = s->m.t,
                             .v = s->v.t,
                             .scale = s->scale.t,
                             .rate = s->rate.t,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .epsilon = 1e-8f,
                             .is_decayed = count % 2 == 1};
    if (has_copy)
        s->op.copy = lab_1d(lab, count, 1).t;
}

static inline void naive_adam(struct adam_setup *s, double scale) {
    const struct op_adam *op = &s->op;
    double beta1 = (double)op->beta1, beta2 = (double)op->beta2, lr = s->lr, step = s->step;
    double weight_decay = op->is_decayed ? s->weight_decay : 0;
    for (int64_t i = 0; i < tensor_count(op->master); i++) {
        double g = s->grad.x[i] * scale;
        s->m.x[i] = beta1 * s->m.x[i] + (1 - beta1) * g;
        s->v.x[i] = beta2 * s->v.x[i] + (1 - beta2) * g * g;
        double m = s->m.x[i] / (1 - pow(beta1, step)), v = s->v.x[i] / (1 - pow(beta2, step));
        s->master.x[i] -= lr * (m / (sqrt(v) + (double)op->epsilon) + weight_decay * s->master.x[i]);
    }
}

static inline void case_adam(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 65, 70001, 200000};
    double fine = 1e-5, coarse = lab->tolerance;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct adam_setup s;
        adam_setup(lab, &s, counts[i], 0.5, i % 2 == 0);
        naive_adam(&s, 0.5);
        op_adam(lab->device, &s.op);
        lab->tolerance = fine;  // the state is always fp32
        lab_expect(lab, s.op.m, s.m.x);
        lab_expect(lab, s.op.v, s.v.x);
        lab_expect(lab, s.op.master, s.master.x);
        lab->tolerance = coarse;
        if (s.op.copy.data)
            lab_expect(lab, s.op.copy, s.master.x);
        lab_clear(lab);
    }
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct adam_setup s;
        adam_setup(lab, &s, 100, bad[i], false);
        op_adam(lab->device, &s.op);
        double *now[3] = {lab_read(lab, s.op.master), lab_read(lab, s.op.m), lab_read(lab, s.op.v)};
        for (int64_t n = 0; n < 100; n++)
            EXPECT(now[0][n] == s.master.x[n] && now[1][n] == s.m.x[n] && now[2][n] == s.v.x[n]);
        lab_clear(lab);
    }
}

// Moments in bf16: each is a neighbour of the fp32 that it stands for, the weights are those of fp32 moments, and over
// many elements the mean is right.
static inline void check_adam_narrow(struct lab *lab, int64_t count, double scale, bool has_halves, int narrow) {
    struct adam_setup s;
    adam_setup(lab, &s, count, scale, has_halves);
    struct tensor m = s.op.m, v = s.op.v, master = s.op.master;
    s.op.m = narrow & 1 ? arena_1d(&lab->arena, DTYPE_BF16, count) : m;
    s.op.v = narrow & 2 ? arena_1d(&lab->arena, DTYPE_BF16, count) : v;
    if (narrow & 1)
        op_copy(lab->device, &(struct op_copy){.dst = s.op.m, .src = m});
    if (narrow & 2)
        op_copy(lab->device, &(struct op_copy){.dst = s.op.v, .src = v});
    memcpy(s.m.x, lab_read(lab, s.op.m), sizeof(double) * (size_t)count);
    memcpy(s.v.x, lab_read(lab, s.op.v), sizeof(double) * (size_t)count);
    if (has_halves) {
        s.op.master = arena_1d(&lab->arena, DTYPE_I16, count);
        op_split(lab->device, &(struct op_split){.value = s.op.copy, .rest = s.op.master, .x = master});
    }
    if (isfinite(scale))
        naive_adam(&s, scale);
    op_adam(lab->device, &s.op);
    if (has_halves)
        op_merge(lab->device, &(struct op_merge){.x = master, .value = s.op.copy, .rest = s.op.master});
    const double *found[2] = {lab_read(lab, s.op.m), lab_read(lab, s.op.v)}, *wanted[2] = {s.m.x, s.v.x};
    for (int k = 0; k < 2; k++) {
        double bias = 0, sum = 0;
        for (int64_t i = 0; i < count; i++) {
            double off = found[k][i] - wanted[k][i], size = fabs(wanted[k][i]);
            EXPECT(fabs(off) <= (narrow >> k & 1 ? 0x1p-7 * size : 0) + 1e-6);
            bias += off * (wanted[k][i] < 0 ? -1 : 1);
            sum += size;
        }
        EXPECT(count < 10000 || fabs(bias) < 1e-4 * sum);
    }
    double coarse = lab->tolerance;
    lab->tolerance = 1e-5;
    lab_expect(lab, master, s.master.x);
    lab->tolerance = coarse;
    lab_clear(lab);
}

static inline void case_adam_narrow(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 66, 1025, 70001, 200000};
    enum dtype dtype = lab->dtype;
    for (int i = 0; i < 42; i++) {
        bool has_halves = i >= 21;
        lab->dtype = has_halves ? DTYPE_BF16 : dtype;
        check_adam_narrow(lab, counts[i % 7], i == 3 ? NAN : i == 25 ? INFINITY : 0.5, has_halves, 1 + i / 7 % 3);
    }
    lab->dtype = dtype;
}

// Moments in 8 bits on the device, and in the host's memory.
struct coded_moment {
    struct tensor codes, exponents;
    enum moment8_kind kind;
    uint8_t *host_codes, *host_exponents;
};

static inline struct coded_moment code_moment(struct lab *lab, enum moment8_kind kind, const double *x, int64_t count) {
    int64_t shares = (count + MOMENT8_SHARE - 1) / MOMENT8_SHARE;
    struct coded_moment moment = {arena_1d(&lab->arena, DTYPE_U8, count), arena_1d(&lab->arena, DTYPE_U8, shares), kind,
                                  memory_alloc((size_t)count), memory_alloc((size_t)shares)};
    for (int64_t at = 0; at < count; at += MOMENT8_SHARE) {
        float largest = 0;
        for (int64_t i = at; i < count && i < at + MOMENT8_SHARE; i++)
            largest = fmaxf(largest, moment8_size(kind, (float)x[i]));
        uint8_t exponent = moment.host_exponents[at / MOMENT8_SHARE] = moment8_exponent(kind, largest);
        for (int64_t i = at; i < count && i < at + MOMENT8_SHARE; i++)
            moment.host_codes[i] = moment8_encode(kind, (float)x[i], exponent, MOMENT8_NEAREST);
    }
    device_copy_in(lab->device, moment.codes, moment.host_codes);
    device_copy_in(lab->device, moment.exponents, moment.host_exponents);
    device_synchronize(lab->device);
    return moment;
}

static inline double decode_moment(const struct coded_moment *moment, int64_t i) {
    return (double)moment8_decode(moment->kind, moment->host_codes[i], moment->host_exponents[i / MOMENT8_SHARE]);
}

// Each number on the device is next to the wanted one: within a mantissa's step, or the smallest step of its
// neighbours. Over many elements the mean is right.
static inline void expect_coded(struct lab *lab, struct coded_moment *moment, const double *wanted) {
    int64_t count = tensor_count(moment->codes);
    device_copy_out(lab->device, moment->host_codes, moment->codes);
    device_copy_out(lab->device, moment->host_exponents, moment->exponents);
    double bias = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        bool is_root = moment->kind == MOMENT8_SECOND;
        double found = decode_moment(moment, i), size = fabs(wanted[i]), off = fabs(found) - size;
        double unit = exp2(moment->host_exponents[i / MOMENT8_SHARE] - MOMENT8_BIAS - (is_root ? 11 : 10));
        double far = is_root ? fabs(sqrt(found) - sqrt(size)) : fabs(found - wanted[i]);
        EXPECT(far <=
               1.001 * fmax(unit, (is_root ? sqrt(size) / 32 : size / 16)) + 1e-6 * (is_root ? sqrt(size) : size));
        bias += off;
        sum += size;
    }
    EXPECT(count < 10000 || fabs(bias) < 3e-3 * sum);
}

static inline void free_coded(struct coded_moment *moment) {
    free(moment->host_codes);
    free(moment->host_exponents);
}

// Moments in 8 bits, one of them or both: the weights are those of fp32 moments. A scale that is not finite changes
// nothing.
static inline void check_adam_coded(struct lab *lab, int64_t count, double scale, bool has_halves, int which) {
    struct adam_setup s;
    adam_setup(lab, &s, count, scale, has_halves);
    struct tensor master = s.op.master;
    struct coded_moment first = code_moment(lab, MOMENT8_FIRST, s.m.x, count);
    struct coded_moment second = code_moment(lab, MOMENT8_SECOND, s.v.x, count);
    for (int64_t i = 0; i < count; i++) {
        s.m.x[i] = which & 1 ? decode_moment(&first, i) : s.m.x[i];
        s.v.x[i] = which & 2 ? decode_moment(&second, i) : s.v.x[i];
    }
    if (which & 1)
        s.op.m = first.codes, s.op.m_exponents = first.exponents;
    if (which & 2)
        s.op.v = second.codes, s.op.v_exponents = second.exponents;
    if (has_halves) {
        s.op.master = arena_1d(&lab->arena, DTYPE_I16, count);
        op_split(lab->device, &(struct op_split){.value = s.op.copy, .rest = s.op.master, .x = master});
    }
    if (isfinite(scale))
        naive_adam(&s, scale);
    op_adam(lab->device, &s.op);
    if (has_halves)
        op_merge(lab->device, &(struct op_merge){.x = master, .value = s.op.copy, .rest = s.op.master});
    if (which & 1)
        expect_coded(lab, &first, s.m.x);
    if (which & 2)
        expect_coded(lab, &second, s.v.x);
    free_coded(&first);
    free_coded(&second);
    double coarse = lab->tolerance;
    lab->tolerance = 1e-5;
    lab_expect(lab, master, s.master.x);
    lab->tolerance = coarse;
    lab_clear(lab);
}

static inline void case_adam_coded(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 64, 66, 1025, 70001, 200000};
    enum dtype dtype = lab->dtype;
    for (int i = 0; i < 42; i++) {
        bool has_halves = i >= 21;
        lab->dtype = has_halves ? DTYPE_BF16 : dtype;
        check_adam_coded(lab, counts[i % 7], i == 3 ? NAN : i == 25 ? INFINITY : 0.5, has_halves, 1 + i / 7 % 3);
    }
    lab->dtype = dtype;
}

// With masters in fp32, alone and with a copy, and in halves. A scale that is not finite changes nothing.
static inline void check_sgd(struct lab *lab, int64_t count, double scale, bool has_copy, bool has_halves) {
    struct adam_setup s;
    adam_setup(lab, &s, count, scale, has_copy || has_halves);
    lab_write(lab, s.rate.t, (double[RATE_GROUP]){[SGD_STEP] = s.lr, [SGD_DECAY] = s.weight_decay});
    struct op_sgd op = {.master = s.op.master,
                        .copy = s.op.copy,
                        .grad = s.op.grad,
                        .m = s.op.m,
                        .scale = s.op.scale,
                        .rate = s.op.rate,
                        .momentum = 0.75f,
                        .is_decayed = count % 2 == 1};
    struct tensor merged = op.master;
    if (has_halves) {
        op.master = arena_1d(&lab->arena, DTYPE_I16, count);
        op_split(lab->device, &(struct op_split){.value = op.copy, .rest = op.master, .x = s.op.master});
    } else if (has_copy) {
        op_copy(lab->device, &(struct op_copy){.dst = op.copy, .src = op.master});
    }
    for (int64_t i = 0; i < count && isfinite(scale); i++) {
        double decay = op.is_decayed ? s.weight_decay : 0;
        s.m.x[i] = 0.75 * s.m.x[i] + s.grad.x[i] * scale + decay * s.master.x[i];
        s.master.x[i] -= s.lr * s.m.x[i];
    }
    op_sgd(lab->device, &op);
    if (has_halves)
        op_merge(lab->device, &(struct op_merge){.x = merged, .value = op.copy, .rest = op.master});
    double coarse = lab->tolerance;
    lab->tolerance = 1e-5;
    lab_expect(lab, op.m, s.m.x);
    lab_expect(lab, merged, s.master.x);
    lab->tolerance = coarse;
    if (op.copy.data)
        lab_expect(lab, op.copy, s.master.x);
    lab_clear(lab);
}

static inline void case_sgd(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 66, 1025, 70001, 200000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_sgd(lab, counts[i], i == 3 ? NAN : 0.5, i % 2 == 0, false);
    enum dtype dtype = lab->dtype;
    double tolerance = lab->tolerance;
    lab->dtype = DTYPE_BF16;
    lab->tolerance = 0x1p-7;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_sgd(lab, counts[i], i == 4 ? INFINITY : 0.5, true, true);
    lab->dtype = dtype;
    lab->tolerance = tolerance;
}

// Like check_sgd. Every fifth gradient and momentum are 0, whose sign is 0. Elsewhere the direction is away from 0,
// where rounding could change its sign.
static inline void check_lion(struct lab *lab, int64_t count, double scale, bool has_halves) {
    struct adam_setup s;
    adam_setup(lab, &s, count, scale, has_halves);
    lab_write(lab, s.rate.t, (double[RATE_GROUP]){[LION_STEP] = s.lr, [LION_DECAY] = s.lr * s.weight_decay});
    struct op_lion op = {.master = s.op.master,
                         .copy = s.op.copy,
                         .grad = s.op.grad,
                         .m = s.op.m,
                         .scale = s.op.scale,
                         .rate = s.op.rate,
                         .beta1 = 0.75f,
                         .beta2 = 0.875f,
                         .is_decayed = count % 2 == 1};
    for (int64_t i = 0; i < count; i++) {
        s.m.x[i] = i % 5 == 4 ? 0 : s.m.x[i];
        s.grad.x[i] = i % 5 == 4 ? 0 : copysign(0.7 + fabs(s.grad.x[i]), s.grad.x[i]);
        s.grad.x[i] = (double)(float)s.grad.x[i];
    }
    lab_write(lab, op.m, s.m.x);
    lab_write(lab, op.grad, s.grad.x);
    if (has_halves) {
        op.master = arena_1d(&lab->arena, DTYPE_I16, count);
        op_split(lab->device, &(struct op_split){.value = op.copy, .rest = op.master, .x = s.op.master});
    }
    for (int64_t i = 0; i < count && isfinite(scale); i++) {
        double decay = op.is_decayed ? s.lr * s.weight_decay : 0, g = s.grad.x[i] * scale;
        double along = 0.75 * s.m.x[i] + 0.25 * g;
        s.master.x[i] -= s.lr * (along > 0 ? 1 : along < 0 ? -1 : 0) + decay * s.master.x[i];
        s.m.x[i] = 0.875 * s.m.x[i] + 0.125 * g;
    }
    op_lion(lab->device, &op);
    if (has_halves)
        op_merge(lab->device, &(struct op_merge){.x = s.op.master, .value = op.copy, .rest = op.master});
    double coarse = lab->tolerance;
    lab->tolerance = 1e-5;
    lab_expect(lab, op.m, s.m.x);
    lab_expect(lab, s.op.master, s.master.x);
    lab->tolerance = coarse;
    if (op.copy.data)
        lab_expect(lab, op.copy, s.master.x);
    lab_clear(lab);
}

static inline void case_lion(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 66, 1025, 70001, 200000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_lion(lab, counts[i], i == 3 ? NAN : 0.5, false);
    enum dtype dtype = lab->dtype;
    double tolerance = lab->tolerance;
    lab->dtype = DTYPE_BF16;
    lab->tolerance = 0x1p-7;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_lion(lab, counts[i], i == 4 ? INFINITY : 0.5, true);
    lab->dtype = dtype;
    lab->tolerance = tolerance;
}

// The moving average of masters, whole and in halves; that of the latter can be split without loss.
static inline void check_average(struct lab *lab, int64_t count, double scale, bool has_halves) {
    struct adam_setup s;
    adam_setup(lab, &s, count, scale, has_halves);
    struct op_average op = {.average = s.op.m, .master = s.op.master, .copy = s.op.copy, .scale = s.op.scale};
    op.decay = 0.75f;
    for (int64_t i = 0; i < count && isfinite(scale); i++)
        s.m.x[i] = 0.75 * s.m.x[i] + 0.25 * s.master.x[i];
    if (has_halves) {
        op.master = arena_1d(&lab->arena, DTYPE_I16, count);
        op_split(lab->device, &(struct op_split){.value = op.copy, .rest = op.master, .x = s.op.master});
    }
    op_average(lab->device, &op);
    double coarse = lab->tolerance;
    lab->tolerance = 1e-6;
    lab_expect(lab, op.average, s.m.x);
    lab->tolerance = coarse;
    if (has_halves && isfinite(scale)) {
        struct tensor back = arena_1d(&lab->arena, DTYPE_F32, count);
        op_split(lab->device, &(struct op_split){.value = op.copy, .rest = op.master, .x = op.average});
        op_merge(lab->device, &(struct op_merge){.x = back, .value = op.copy, .rest = op.master});
        double *before = lab_read(lab, op.average), *after = lab_read(lab, back);
        for (int64_t i = 0; i < count; i++)
            EXPECT(before[i] == after[i]);
    }
    lab_clear(lab);
}

static inline void case_average(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 66, 1025, 70001, 200000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_average(lab, counts[i], i == 3 ? NAN : 0.5, false);
    enum dtype dtype = lab->dtype;
    lab->dtype = DTYPE_BF16;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_average(lab, counts[i], i == 4 ? INFINITY : 0.5, true);
    lab->dtype = dtype;
}

// fp32 numbers of all kinds for splitting: most are ordinary, every fourth has random bits, some are at the borders.
static inline uint32_t *split_bits(struct lab *lab, int64_t count) {
    static const uint32_t borders[] = {0,          0x80000000, 1,          0x80007FFF, 0x3F808000,
                                       0x3F818000, 0xBF807FFF, 0x3F80FFFF, 0x7F7F7FFF, 0x7F7F8000,
                                       0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000,
                                       0xFFFFFFFF, 0x00008000, 0x00018000, 0x007FFFFF};
    enum { BORDERS = sizeof borders / sizeof borders[0] };
    uint32_t *bits = lab_host(lab, (size_t)count * sizeof *bits);
    for (int64_t i = 0; i < count; i++) {
        struct philox r = philox4x32(5, (uint32_t)i, 0, 0, 0);
        bits[i] = i % 4 == 0 ? r.word[0] : (r.word[0] & 0x807FFFFFu) | (0x38000000u + (r.word[1] & 0x07800000u));
        if (count > BORDERS && i < BORDERS)
            bits[i] = borders[i];
    }
    return bits;
}

// Halves are the nearest bf16 and the remainder, for any alignment of either array.
static inline void case_split(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 66, 70001, 200000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t count = counts[i], shift = (int64_t)i % 3;
        struct tensor x = arena_1d(&lab->arena, DTYPE_F32, count), back = arena_1d(&lab->arena, DTYPE_F32, count);
        struct tensor value = tensor_rows(arena_1d(&lab->arena, DTYPE_BF16, count + 2), shift, count);
        struct tensor rest = tensor_rows(arena_1d(&lab->arena, DTYPE_I16, count + 2), 2 - shift, count);
        uint32_t *bits = split_bits(lab, count), *merged = lab_host(lab, (size_t)count * sizeof *merged);
        uint16_t *values = lab_host(lab, (size_t)count * sizeof *values);
        device_copy_in(lab->device, x, bits);
        op_split(lab->device, &(struct op_split){.value = value, .rest = rest, .x = x});
        op_merge(lab->device, &(struct op_merge){.x = back, .value = value, .rest = rest});
        device_copy_out(lab->device, merged, back);
        device_copy_out(lab->device, values, value);
        for (int64_t n = 0; n < count; n++) {
            float number, returned;
            memcpy(&number, &bits[n], sizeof number);
            memcpy(&returned, &merged[n], sizeof returned);
            bool is_tie_down = (bits[n] & 0x1FFFFu) == 0x8000u;
            if (isnan(number))
                EXPECT(isnan(returned) && isnan(lab_from_bf16(values[n])));
            else
                EXPECT(merged[n] == bits[n] - is_tie_down && values[n] == lab_bf16(number));
        }
        lab_clear(lab);
    }
}

// An update of masters in halves equals that of whole ones, bit for bit except for ties; a skipped one changes nothing.
static inline void case_adam_halves(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 66, 1025, 70001, 200000};
    enum dtype dtype = lab->dtype;
    lab->dtype = DTYPE_BF16;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct adam_setup s;
        int64_t count = counts[i], shift = (int64_t)i % 2;
        adam_setup(lab, &s, count, i == 4 ? NAN : 0.5, true);
        struct op_adam op = s.op;
        op.copy = tensor_rows(arena_1d(&lab->arena, DTYPE_BF16, count + 1), shift, count);
        op.master = tensor_rows(arena_1d(&lab->arena, DTYPE_I16, count + 1), shift, count);
        op.m = lab_sample(lab, arena_1d(&lab->arena, DTYPE_F32, count), 1).t;
        op.v = lab_sample(lab, arena_1d(&lab->arena, DTYPE_F32, count), 1).t;
        op_copy(lab->device, &(struct op_copy){.dst = op.m, .src = s.op.m});
        op_copy(lab->device, &(struct op_copy){.dst = op.v, .src = s.op.v});
        op_copy(lab->device, &(struct op_copy){.dst = s.op.copy, .src = s.op.master});
        op_split(lab->device, &(struct op_split){.value = op.copy, .rest = op.master, .x = s.op.master});
        op_merge(lab->device, &(struct op_merge){.x = s.op.master, .value = op.copy, .rest = op.master});
        op_adam(lab->device, &s.op);
        op_adam(lab->device, &op);
        struct tensor merged = arena_1d(&lab->arena, DTYPE_F32, count);
        op_merge(lab->device, &(struct op_merge){.x = merged, .value = op.copy, .rest = op.master});
        double *whole[] = {lab_read(lab, s.op.m), lab_read(lab, s.op.v), lab_read(lab, s.op.copy)};
        double *halves[] = {lab_read(lab, op.m), lab_read(lab, op.v), lab_read(lab, op.copy)};
        float *master = lab_host(lab, (size_t)count * sizeof *master),
              *other = lab_host(lab, (size_t)count * sizeof *other);
        device_copy_out(lab->device, master, s.op.master);
        device_copy_out(lab->device, other, merged);
        for (int64_t n = 0; n < count; n++) {
            uint32_t bits, returned;
            memcpy(&bits, &master[n], sizeof bits);
            memcpy(&returned, &other[n], sizeof returned);
            EXPECT(returned == bits - ((bits & 0x1FFFFu) == 0x8000u));
            EXPECT(whole[0][n] == halves[0][n] && whole[1][n] == halves[1][n] && whole[2][n] == halves[2][n]);
        }
        lab_clear(lab);
    }
    lab->dtype = dtype;
}

#endif
