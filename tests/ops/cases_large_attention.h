// Attention on tensors of more than 2^32 elements: the same as on small ones. See cases_large.h.
#ifndef TESTS_OPS_CASES_LARGE_ATTENTION_H
#define TESTS_OPS_CASES_LARGE_ATTENTION_H

#include "cases_attention.h"
#include "cases_large.h"
#include "ops/attention_parts.h"

enum { PACKED_PARTS = 4, STALE_BYTES = 32 << 20 };

// Rows of `width` elements, of which the first have q, k, v and out side by side, or their gradients.
struct packed_shape {
    int64_t B, T, H, D, width;
};

static inline struct tensor packed_part(struct tensor packed, const struct packed_shape *shape, int64_t part) {
    int64_t offset = part * shape->H * shape->D;
    struct tensor t = tensor_4d((uint16_t *)packed.data + offset, DTYPE_BF16, shape->B, shape->T, shape->H, shape->D);
    t.stride[0] = shape->T * shape->width;
    t.stride[1] = shape->width;
    return t;
}

// Forward and backward. What other operations left in the workspace must not matter: its end is NaN.
static inline void packed_attend(struct large *large, const struct packed_shape *shape, struct tensor values,
                                 struct tensor gradients) {
    struct device *device = large->lab.device;
    size_t mark = arena_mark(&large->arena);
    struct tensor q = packed_part(values, shape, 0), k = packed_part(values, shape, 1);
    struct tensor v = packed_part(values, shape, 2), out = packed_part(values, shape, 3);
    struct tensor lse = arena_3d(&large->arena, DTYPE_F32, shape->B, shape->H, shape->T);
    struct tensor scratch = arena_3d(&large->arena, DTYPE_F32, shape->B, shape->H, shape->T);
    // Room for out and dout, too, which are not dense.
    int64_t bytes = attention_workspace_bytes(q, k, v, &(struct attention_mask){.window = 0}) +
                    4 * attention_part(q, k, v, ATTENTION_PART_ELEMENTS).elements;
    int64_t stale = bytes < STALE_BYTES ? bytes : STALE_BYTES;
    struct tensor workspace = arena_1d(&large->arena, DTYPE_U8, bytes);
    unsigned char *left = memset(lab_host(&large->lab, (size_t)stale), 0xFF, (size_t)stale);
    float scale = 1.0f / sqrtf((float)shape->D);
    device_copy_in(device, tensor_rows(workspace, bytes - stale, stale), left);
    op_attention_forward(device,
                         &(struct op_attention_forward){
                             .out = out, .lse = lse, .q = q, .k = k, .v = v, .scale = scale, .is_causal = true});
    op_attention_backward(device, &(struct op_attention_backward){.dq = packed_part(gradients, shape, 0),
                                                                  .dk = packed_part(gradients, shape, 1),
                                                                  .dv = packed_part(gradients, shape, 2),
                                                                  .dout = packed_part(gradients, shape, 3),
                                                                  .out = out,
                                                                  .lse = lse,
                                                                  .scratch = scratch,
                                                                  .workspace = workspace,
                                                                  .q = q,
                                                                  .k = k,
                                                                  .v = v,
                                                                  .scale = scale,
                                                                  .is_causal = true});
    device_synchronize(device);
    arena_release(&large->arena, mark);
}

// The last sample of the large tensor, without what its rows have beyond the parts.
static inline struct tensor packed_last(const struct packed_shape *shape, struct tensor packed, int64_t columns) {
    return tensor_slice(tensor_rows(packed, (shape->B - 1) * shape->T, shape->T), 1, 0, columns);
}

static inline void packed_compare(struct large *large, struct tensor actual, struct tensor expected, int64_t columns) {
    static const char *const names[PACKED_PARTS] = {"q or dq", "k or dk", "v or dv", "out or dout"};
    for (int64_t part = 0; part < PACKED_PARTS; part++) {
        size_t mark = arena_mark(&large->arena);
        struct tensor two[SIDES];
        const struct tensor from[SIDES] = {[LARGE] = actual, [SMALL] = expected};
        for (int side = 0; side < SIDES; side++) {
            two[side] = arena_2d(&large->arena, DTYPE_BF16, actual.shape[0], columns);
            op_copy(large->lab.device,
                    &(struct op_copy){.dst = two[side], .src = tensor_slice(from[side], 1, part * columns, columns)});
        }
        const double *numbers = lab_read(&large->lab, two[SMALL]);
        int64_t count = tensor_count(two[SMALL]);
        expect_some(names[part], numbers, count, __LINE__);
        lab_compare(&large->lab, names[part], lab_read(&large->lab, two[LARGE]), numbers, count, __LINE__);
        arena_release(&large->arena, mark);
    }
}

// The last sample of `shape` against the same sample alone, its rows side by side. Results are random numbers before:
// one that is not written shows.
static inline void large_attention_of(struct large *large, const struct packed_shape *shape) {
    struct device *device = large->lab.device;
    int64_t columns = PACKED_PARTS * shape->H * shape->D;
    const struct packed_shape alone = {1, shape->T, shape->H, shape->D, columns};
    struct tensor values = arena_2d(&large->arena, DTYPE_BF16, shape->B * shape->T, shape->width);
    struct tensor gradients = arena_2d(&large->arena, DTYPE_BF16, shape->B * shape->T, shape->width);
    struct tensor own_values = arena_2d(&large->arena, DTYPE_BF16, shape->T, columns);
    struct tensor own_gradients = arena_2d(&large->arena, DTYPE_BF16, shape->T, columns);
    device_zero(device, values);
    device_zero(device, gradients);
    (void)lab_sample(&large->lab, own_values, 2);
    (void)lab_sample(&large->lab, own_gradients, 1);
    op_copy(device, &(struct op_copy){.dst = packed_last(shape, values, columns), .src = own_values});
    op_copy(device, &(struct op_copy){.dst = packed_last(shape, gradients, columns), .src = own_gradients});
    packed_attend(large, shape, values, gradients);
    packed_attend(large, &alone, own_values, own_gradients);
    packed_compare(large, packed_last(shape, values, columns), own_values, columns / PACKED_PARTS);
    packed_compare(large, packed_last(shape, gradients, columns), own_gradients, columns / PACKED_PARTS);
    large_clear(large);
}

// The last heads of a sample with many against the same heads alone. A row is so long that the distance between two
// tokens counts, too.
static inline void large_attention_heads(struct large *large, const struct packed_shape *shape, int64_t heads) {
    struct device *device = large->lab.device;
    int64_t columns = heads * shape->D, all = shape->H * shape->D;
    const struct packed_shape alone = {1, shape->T, heads, shape->D, PACKED_PARTS * columns};
    struct tensor whole[2], own[2], seen[2];  // values, gradients
    for (int i = 0; i < 2; i++) {
        whole[i] = arena_2d(&large->arena, DTYPE_BF16, shape->T, shape->width);
        own[i] = arena_2d(&large->arena, DTYPE_BF16, shape->T, alone.width);
        seen[i] = arena_2d(&large->arena, DTYPE_BF16, shape->T, alone.width);
        device_zero(device, whole[i]);
        (void)lab_sample(&large->lab, own[i], 2 - i);
        for (int64_t part = 0; part < PACKED_PARTS; part++)
            op_copy(device, &(struct op_copy){.dst = tensor_slice(whole[i], 1, (part + 1) * all - columns, columns),
                                              .src = tensor_slice(own[i], 1, part * columns, columns)});
    }
    packed_attend(large, shape, whole[0], whole[1]);
    packed_attend(large, &alone, own[0], own[1]);
    for (int i = 0; i < 2; i++) {
        for (int64_t part = 0; part < PACKED_PARTS; part++)
            op_copy(device, &(struct op_copy){.dst = tensor_slice(seen[i], 1, part * columns, columns),
                                              .src = tensor_slice(whole[i], 1, (part + 1) * all - columns, columns)});
        packed_compare(large, seen[i], own[i], columns);
    }
    large_clear(large);
}

// As the packed queries, keys and values of 524,288 tokens and 32 heads lie, 6.4e9 elements with 12,288 in a row: here
// fewer and longer rows. Then so many samples that the gradients of queries are 2^31 numbers, which cuDNN sums in fp32,
// and so many heads.
static inline void large_attention(struct large *large) {
    bool is_large = large->elements > 1 << 24;
    int64_t T = is_large ? 8192 : 128, D = is_large ? 128 : 16;
    large_attention_of(large, &(struct packed_shape){1, T, 2, D, 3 * large->elements / T + 64});
    int64_t H = is_large ? 16 : 1, samples = large->elements / (H * D * 1024);
    large_attention_of(
        large, &(struct packed_shape){is_large ? samples : 3, is_large ? 1024 : 64, H, D, PACKED_PARTS * H * D});
    H = is_large ? large->elements / (T * D) : 6;
    large_attention_heads(large, &(struct packed_shape){1, T, H, D, PACKED_PARTS * H * D}, 2);
}

// ---- Rows that are far apart ----

// Distances of rows in q, k and v, in their gradients, and in out and dout: in units of 2^31 elements over all tokens,
// and columns more; without either, rows lie side by side.
struct far_case {
    const char *name;
    int64_t H, G;
    struct {
        int64_t units, more;
    } values, gradients, results;
};

struct far_operands {
    int64_t T, H, G, D;
    struct tensor q, k, v, out, dq, dk, dv, dout, lse;
};

enum { FAR_VALUES, FAR_GRADIENTS, FAR_OUT, FAR_DOUT, FAR_COUNT };

static inline struct far_operands far_operands(struct large *large, const struct far_case *c, int64_t T, int64_t D,
                                               const struct tensor rows[FAR_COUNT]) {
    struct far_operands o = {.T = T, .H = c->H, .G = c->G, .D = D};
    struct tensor *views[] = {&o.q, &o.k, &o.v, &o.dq, &o.dk, &o.dv, &o.out, &o.dout};
    const int64_t heads[] = {c->H, c->G, c->G, c->H, c->G, c->G, c->H, c->H};
    const int64_t first[] = {0, c->H, c->H + c->G, 0, c->H, c->H + c->G, 0, 0};
    const int of[] = {FAR_VALUES,    FAR_VALUES,    FAR_VALUES, FAR_GRADIENTS,
                      FAR_GRADIENTS, FAR_GRADIENTS, FAR_OUT,    FAR_DOUT};
    for (int i = 0; i < 8; i++) {
        struct tensor t = tensor_3d(rows[of[i]].data, DTYPE_BF16, 1, T, rows[of[i]].shape[1]);
        *views[i] = heads_view(t, first[i] * D, heads[i], D);
    }
    o.lse = arena_3d(&large->arena, DTYPE_F32, 1, c->H, T);
    device_zero(large->lab.device, o.lse);  // a library may write it unnoticed by a memory checker
    return o;
}

static inline void far_attend(struct large *large, const struct far_operands *o) {
    struct device *device = large->lab.device;
    float scale = 1.0f / sqrtf((float)o->D);
    int64_t packed = 2 * o->T * (3 * o->H + 2 * o->G) * o->D;
    int64_t bytes = attention_workspace_bytes(o->q, o->k, o->v, &(struct attention_mask){.window = 0}) + packed;
    struct tensor workspace = arena_1d(&large->arena, DTYPE_U8, bytes);
    op_attention_forward(
        device, &(struct op_attention_forward){
                    .out = o->out, .lse = o->lse, .q = o->q, .k = o->k, .v = o->v, .scale = scale, .is_causal = true});
    op_attention_backward(device,
                          &(struct op_attention_backward){.dq = o->dq,
                                                          .dk = o->dk,
                                                          .dv = o->dv,
                                                          .dout = o->dout,
                                                          .out = o->out,
                                                          .lse = o->lse,
                                                          .scratch = arena_3d(&large->arena, DTYPE_F32, 1, o->H, o->T),
                                                          .workspace = workspace,
                                                          .q = o->q,
                                                          .k = o->k,
                                                          .v = o->v,
                                                          .scale = scale,
                                                          .is_causal = true});
    device_synchronize(device);
}

// What a query and a key have in common: their weight, and the gradient of their score.
struct far_pair {
    double weight, score;
};

// Numbers of (T, heads, D): q, k, v, dout, out, and lse (H, T).
struct far_numbers {
    const double *q, *k, *v, *dout, *out, *lse;
};

static inline struct far_pair far_pair(const struct far_operands *o, const struct far_numbers *n, int64_t head,
                                       int64_t i, int64_t j) {
    int64_t query = (i * o->H + head) * o->D, key = (j * o->G + head / (o->H / o->G)) * o->D;
    double scale = 1 / sqrt((double)o->D);
    double weight = exp(scale * lab_inner(n->q + query, n->k + key, o->D) - n->lse[head * o->T + i]);
    double sum = lab_inner(n->dout + query, n->out + query, o->D);
    return (struct far_pair){weight, scale * weight * (lab_inner(n->dout + query, n->v + key, o->D) - sum)};
}

// out, dq, dk and dv of some tokens against the formula; `got` has them after another, (T, heads, D).
static inline void far_expect_rows(struct lab *lab, const struct far_operands *o, const struct far_numbers *n,
                                   double *const got[4]) {
    static const char *const names[] = {"out", "dq", "dk", "dv"};
    const int64_t tokens[] = {0, 1, o->T / 3, o->T / 2 + 5, o->T - 64, o->T - 1};
    enum { TOKENS = sizeof tokens / sizeof tokens[0] };
    for (int what = 0; what < 4; what++) {
        int64_t heads = what < 2 ? o->H : o->G, row = heads * o->D;
        double *sums = lab_doubles(lab, TOKENS * row), *seen = lab_doubles(lab, TOKENS * row);
        for (int t = 0; t < TOKENS; t++) {
            memcpy(seen + t * row, got[what] + tokens[t] * row, sizeof *seen * (size_t)row);
            for (int64_t h = 0; h < o->H; h++) {
                int64_t group = h / (o->H / o->G), first = what < 2 ? 0 : tokens[t];
                int64_t end = what < 2 ? tokens[t] + 1 : o->T;
                double *to = sums + t * row + (what < 2 ? h : group) * o->D;
                for (int64_t other = first; other < end; other++) {
                    int64_t i = what < 2 ? tokens[t] : other, j = what < 2 ? other : tokens[t];
                    struct far_pair pair = far_pair(o, n, h, i, j);
                    const double *query = what == 2 ? n->q : n->dout, *key = what == 0 ? n->v : n->k;
                    lab_add(to, what == 0 || what == 3 ? pair.weight : pair.score,
                            what < 2 ? key + (j * o->G + group) * o->D : query + (i * o->H + h) * o->D, o->D);
                }
            }
        }
        lab_compare(lab, names[what], seen, sums, TOKENS * row, __LINE__);
    }
}

// Numbers of a view, (T, heads, D).
static inline double *far_read(struct large *large, struct tensor view) {
    struct tensor own = arena_4d(&large->arena, DTYPE_BF16, view.shape[0], view.shape[1], view.shape[2], view.shape[3]);
    op_copy(large->lab.device, &(struct op_copy){.dst = own, .src = view});
    return lab_read(&large->lab, own);
}

// The same operation with rows far apart and side by side: every row is compared, and some with the formula.
static inline void far_variant(struct large *large, const struct far_case *c) {
    struct lab *lab = &large->lab;
    bool is_large = large->elements > 1 << 24;
    int64_t T = is_large ? 4096 : 128, D = is_large ? 128 : 16, columns[FAR_COUNT], unit = large->elements / T;
    struct tensor rows[2][FAR_COUNT];
    struct far_operands at[2];
    int64_t widths[FAR_COUNT] = {c->values.units * unit + c->values.more, c->gradients.units * unit + c->gradients.more,
                                 c->results.units * unit + c->results.more};
    widths[FAR_DOUT] = widths[FAR_OUT];
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < FAR_COUNT; i++) {
            columns[i] = (i < FAR_OUT ? c->H + 2 * c->G : c->H) * D;
            rows[side][i] =
                arena_2d(&large->arena, DTYPE_BF16, T, side == 0 && widths[i] > columns[i] ? widths[i] : columns[i]);
            device_zero(lab->device, rows[side][i]);
        }
        at[side] = far_operands(large, c, T, D, rows[side]);
    }
    (void)lab_sample(lab, rows[1][FAR_VALUES], 2);
    (void)lab_sample(lab, rows[1][FAR_DOUT], 1);
    for (int i = 0; i < FAR_COUNT; i++)
        op_copy(lab->device, &(struct op_copy){.dst = tensor_slice(rows[0][i], 1, 0, columns[i]), .src = rows[1][i]});
    for (int side = 0; side < 2; side++)
        far_attend(large, &at[side]);
    const struct tensor results[2][4] = {{at[0].out, at[0].dq, at[0].dk, at[0].dv},
                                         {at[1].out, at[1].dq, at[1].dk, at[1].dv}};
    double *got[4];
    printf("    %s\n", c->name);
    for (int i = 0; i < 4; i++) {
        double *alone = far_read(large, results[1][i]);
        got[i] = far_read(large, results[0][i]);
        expect_some(c->name, alone, tensor_count(results[1][i]), __LINE__);
        lab_compare(lab, c->name, got[i], alone, tensor_count(results[1][i]), __LINE__);
    }
    const struct far_numbers numbers = {far_read(large, at[1].q),
                                        far_read(large, at[1].k),
                                        far_read(large, at[1].v),
                                        far_read(large, at[1].dout),
                                        got[0],
                                        lab_read(lab, at[0].lse)};
    far_expect_rows(lab, &at[0], &numbers, got);
    large_clear(large);
}

// Below, at and beyond the largest extents that libraries address (ops/attention_parts.h): 2^31 elements of out and
// dout, 2^32 of gradients, 2^34 of any operand. The numbers of columns are those of 4,096 tokens. Rows far apart and
// side by side may go to different kernels.
static inline void large_attention_far(struct large *large) {
    static const struct far_case cases[] = {
        {"gradients below 2^32", 2, 2, .gradients = {2, 0}},
        {"gradients of 2^32", 2, 2, .gradients = {2, 256}},
        {"gradients beyond 2^32", 2, 2, .gradients = {2, 264}},
        {"gradients far beyond", 4, 2, .gradients = {3, 64}},
        {"results below 2^31", 2, 2, .results = {1, 120}},
        {"results beyond 2^31", 2, 2, .results = {1, 128}},
        {"results far beyond", 4, 1, .results = {3, 64}},
        {"all far beyond", 4, 2, .values = {3, 64}, .gradients = {3, 64}, .results = {1, 256}},
        {"values below 2^34", 2, 2, .values = {8, 0}},
        {"values beyond 2^34", 2, 1, .values = {8, 1032}},
    };
    large->lab.tolerance = 0.1;
    large->lab.length_tolerance = 1e-2;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        far_variant(large, &cases[i]);
}

#endif
