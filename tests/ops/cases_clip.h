// QK-clip beside loops in double: the largest score of each head, and the rows that it scales down.
#ifndef TESTS_OPS_CASES_CLIP_H
#define TESTS_OPS_CASES_CLIP_H

#include "cases_attention.h"
#include "cases_updates.h"

static inline void check_largest_scores(struct lab *lab, const struct attention_case *c) {
    struct attention_setup s;
    attention_setup(lab, &s, c);
    struct sample largest = lab_fp32_1d(lab, c->H, 1);
    for (int64_t h = 0; h < c->H; h++)
        largest.x[h] = h % 3 == 0 ? 100 : 0;  // more than any score, or nothing yet
    lab_write(lab, largest.t, largest.x);
    for (int64_t n = 0; n < c->B * c->H * c->Tq * c->Tk; n++) {
        int64_t b = n / (c->H * c->Tq * c->Tk), h = n / (c->Tq * c->Tk) % c->H, i = n / c->Tk % c->Tq, j = n % c->Tk;
        double sum = 0;
        for (int64_t d = 0; d < c->D; d++)
            sum += s.values[0][((b * c->Tq + i) * c->H + h) * c->D + d] *
                   s.values[1][((b * c->Tk + j) * c->G + h / (c->H / c->G)) * c->D + d];
        if (attention_sees(&s, b, i, j))
            largest.x[h] = fmax(largest.x[h], s.scale * sum);
    }
    op_largest_scores(lab->device, &(struct op_largest_scores){.largest = largest.t,
                                                               .q = s.q,
                                                               .k = s.k,
                                                               .scale = (float)s.scale,
                                                               .is_causal = c->is_causal,
                                                               .mask = s.mask});
    double coarse = lab->tolerance;
    lab->tolerance = 1e-4;  // sums are in fp32 for every dtype
    lab_expect(lab, largest.t, largest.x);
    lab->tolerance = coarse;
    lab_clear(lab);
}

static inline void case_largest_scores(struct lab *lab) {
    static const struct attention_case cases[] = {
        {.B = 1, .Tq = 1, .Tk = 1, .H = 1, .G = 1, .D = 3},
        {.B = 2, .Tq = 17, .Tk = 17, .H = 4, .G = 2, .D = 5, .is_causal = true, .is_packed = true},
        {.B = 2, .Tq = 65, .Tk = 65, .H = 6, .G = 2, .D = 16, .is_causal = true, .is_packed = true},
        {.B = 1, .Tq = 70, .Tk = 200, .H = 2, .G = 1, .D = 64, .is_causal = true},
        {.B = 3, .Tq = 150, .Tk = 150, .H = 2, .G = 2, .D = 72, .is_causal = true, .window = 40, .has_counts = true},
        {.B = 2, .Tq = 130, .Tk = 130, .H = 2, .G = 1, .D = 192, .is_causal = true, .has_starts = true},
        {.B = 2, .Tq = 33, .Tk = 65, .H = 2, .G = 2, .D = 128, .has_counts = true},
        {.B = 1, .Tq = 66, .Tk = 66, .H = 1, .G = 1, .D = 256, .is_causal = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_largest_scores(lab, &cases[i]);
}

struct clip_size {
    int64_t units, heads, unit_rows, columns, first, count;
};

static inline void check_clip_rows(struct lab *lab, const struct clip_size *size, double scale, bool has_halves) {
    int64_t count = size->units * size->unit_rows * size->columns;
    struct adam_setup s;
    adam_setup(lab, &s, count, scale, has_halves);
    struct sample largest = lab_fp32_1d(lab, size->units * size->heads, 1);
    for (int64_t i = 0; i < size->units * size->heads; i++)
        largest.x[i] = (double)(float)(1 + 7 * (i % 4));
    lab_write(lab, largest.t, largest.x);
    struct tensor master = s.op.master;
    if (has_halves) {
        master = arena_1d(&lab->arena, DTYPE_I16, count);
        op_split(lab->device, &(struct op_split){.value = s.op.copy, .rest = master, .x = s.op.master});
    }
    for (int64_t i = 0; i < count && isfinite(scale); i++) {
        int64_t row = i / size->columns, unit = row / size->unit_rows, within = row % size->unit_rows;
        double most = 0;
        for (int64_t h = 0; h < size->heads; h++)
            most = fmax(most, largest.x[unit * size->heads + h]);
        if (most > 10 && within >= size->first && within < size->first + size->count)
            s.master.x[i] *= pow(10 / most, 0.75);
    }
    op_clip_rows(lab->device, &(struct op_clip_rows){.master = master,
                                                     .copy = s.op.copy,
                                                     .largest = largest.t,
                                                     .scale = s.op.scale,
                                                     .columns = size->columns,
                                                     .unit_rows = size->unit_rows,
                                                     .first = size->first,
                                                     .count = size->count,
                                                     .threshold = 10,
                                                     .power = 0.75f});
    if (has_halves)
        op_merge(lab->device, &(struct op_merge){.x = s.op.master, .value = s.op.copy, .rest = master});
    double coarse = lab->tolerance;
    lab->tolerance = 1e-6;
    lab_expect(lab, s.op.master, s.master.x);
    lab->tolerance = coarse;
    lab_clear(lab);
}

static inline void case_clip_rows(struct lab *lab) {
    static const struct clip_size sizes[] = {{1, 1, 1, 1, 0, 1},    {3, 2, 5, 7, 0, 5},    {4, 1, 6, 17, 2, 3},
                                             {2, 4, 64, 65, 0, 64}, {5, 1, 24, 33, 16, 8}, {2, 2, 130, 1030, 1, 128}};
    enum dtype dtype = lab->dtype;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        bool has_halves = i % 2;
        lab->dtype = has_halves ? DTYPE_BF16 : dtype;
        check_clip_rows(lab, &sizes[i / 2], i == 4 || i == 5 ? NAN : 0.5, has_halves);
    }
    lab->dtype = dtype;
}

#endif
