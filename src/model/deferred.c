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

void deferred_add(struct deferred *deferred, const struct pass *pass, const struct deferred_product *product) {
    CHECK(!linear_is_fp8(product->linear, pass));
    struct deferred_product kept = *product;
    if (deferred->copies_inputs || !is_in(pass->saved, product->dy))
        kept.dy = keep(deferred, pass, product->dy);
    if (deferred->copies_inputs || is_in(pass->scratch, product->x))
        kept.x = keep(deferred, pass, product->x);
    if (deferred->count == deferred->capacity)
        deferred_reserve(deferred, deferred->capacity ? 2 * deferred->capacity : 64);
    deferred->items[deferred->count++] = kept;
}

void deferred_run(struct deferred *deferred, const struct pass *pass) {
    CHECK(!pass->deferred);
    for (int i = 0; i < deferred->count; i++)
        linear_backward_weight(deferred->items[i].linear, pass, deferred->items[i].dy, deferred->items[i].x);
    deferred->count = 0;
    deferred->is_used = false;
    arena_release(&deferred->arena, 0);
}
