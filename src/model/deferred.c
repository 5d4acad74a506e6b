// Weight gradients that are computed later. See deferred.h.
#include "model/deferred.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

void deferred_reserve(struct deferred *deferred, int count) {
    if (count <= deferred->capacity)
        return;
    deferred->capacity = count;
    deferred->items = memory_realloc(deferred->items, sizeof *deferred->items * (size_t)count);
}

void deferred_free(struct deferred *deferred) {
    free(deferred->items);
    *deferred = (struct deferred){0};
}

static bool is_in(const struct arena *arena, struct tensor x) {
    const unsigned char *data = x.data;
    return data >= arena->base && data < arena->base + arena->capacity;
}

static struct tensor keep(struct deferred *deferred, const struct pass *pass, struct tensor x) {
    struct tensor kept = arena_2d(&deferred->arena, x.dtype, x.shape[0], x.shape[1]);
    op_copy(pass->device, &(struct op_copy){.dst = kept, .src = x});
    return kept;
}

static void add(struct deferred *deferred, const struct deferred_product *kept) {
    if (deferred->count == deferred->capacity)
        deferred_reserve(deferred, deferred->capacity ? 2 * deferred->capacity : 64);
    deferred->items[deferred->count++] = *kept;
}

static struct tensor keep_turned(struct deferred *deferred, const struct pass *pass, struct tensor x) {
    struct tensor kept = keep(deferred, pass, x);
    struct tensor range = arena_1d(&deferred->arena, DTYPE_F32, RANGE_LENGTH);
    op_copy(pass->device, &(struct op_copy){.dst = range, .src = tensor_1d(x.range, DTYPE_F32, RANGE_LENGTH)});
    kept.range = range.data;
    return kept;
}

void deferred_add_turned(struct deferred *deferred, const struct pass *pass, const struct deferred_product *product) {
    add(deferred, &(struct deferred_product){.linear = product->linear,
                                             .dy = keep_turned(deferred, pass, product->dy),
                                             .x = keep_turned(deferred, pass, product->x)});
}

void deferred_add(struct deferred *deferred, const struct pass *pass, const struct deferred_product *product) {
    struct deferred_product kept = *product;
    if (deferred->copies_inputs || !is_in(pass->saved, product->dy))
        kept.dy = keep(deferred, pass, product->dy);
    if (deferred->copies_inputs || is_in(pass->scratch, product->x))
        kept.x = keep(deferred, pass, product->x);
    add(deferred, &kept);
}

void deferred_run(struct deferred *deferred, const struct pass *pass) {
    CHECK(!pass->deferred);
    for (int i = 0; i < deferred->count; i++) {
        const struct deferred_product *product = &deferred->items[i];
        if (dtype_is_float8(product->dy.dtype))
            linear_weight_product(product->linear, pass, product->dy, product->x);
        else
            linear_backward_weight(product->linear, pass, product->dy, product->x);
    }
    deferred->count = 0;
    deferred->is_used = false;
    arena_release(&deferred->arena, 0);
}
