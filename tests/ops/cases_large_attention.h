// Attention on tensors of more than 2^32 elements: the same as on small ones. See cases_large.h.
#ifndef TESTS_OPS_CASES_LARGE_ATTENTION_H
#define TESTS_OPS_CASES_LARGE_ATTENTION_H

#include "cases_large.h"

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
    int64_t bytes = attention_workspace_bytes(q, k, v, &(struct attention_mask){.window = 0});
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

#endif
