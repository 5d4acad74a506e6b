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

// Copies x, with memory for at least `room` rows.
static struct tensor copy(struct deferred *deferred, const struct pass *pass, struct tensor x, int64_t room) {
    struct arena *arena = &deferred->arena;
    int64_t rows = x.shape[0] > room ? x.shape[0] : room;
    struct tensor kept = x.rank == 1 ? arena_1d(arena, x.dtype, rows) : arena_2d(arena, x.dtype, rows, x.shape[1]);
    kept = tensor_rows(kept, 0, x.shape[0]);
    op_copy(pass->device, &(struct op_copy){.dst = kept, .src = x});
    return kept;
}

// Copies the transpose (columns, N), with memory for at least `room` columns.
static struct tensor copy_turned(struct deferred *deferred, const struct pass *pass, struct tensor x, int64_t room) {
    int64_t columns = x.shape[1] > room ? x.shape[1] : room;
    struct tensor kept = arena_2d(&deferred->arena, x.dtype, x.shape[0], columns);
    kept = tensor_2d(kept.data, x.dtype, x.shape[0], x.shape[1]);
    op_copy(pass->device, &(struct op_copy){.dst = kept, .src = x});
    return kept;
}

// Copies the factors of a transpose's blocks, with memory for at least `room` columns' factors.
static struct tensor copy_factors(struct deferred *deferred, const struct pass *pass, struct operand x, int64_t room) {
    struct tensor turned = x.transposed, factors = x.transposed_range;
    int64_t each = turned.dtype == DTYPE_E2M1X2 ? 2 : 1, columns = each * turned.shape[1];
    struct scales_shape most = scales_shape(x.scaling, turned.shape[0], columns > room ? columns : room);
    struct tensor kept = arena_2d(&deferred->arena, most.dtype, most.rows, most.columns);
    kept = tensor_2d(kept.data, most.dtype, factors.shape[0], factors.shape[1]);
    op_copy(pass->device, &(struct op_copy){.dst = kept, .src = factors});
    return kept;
}

// Ranges are always copied: other micro-batches may change the layer's range before the matmul is computed.
static struct operand keep(struct deferred *deferred, const struct pass *pass, struct operand x, bool is_lost,
                           int64_t room) {
    if (is_lost && x.value.data)
        x.value = copy(deferred, pass, x.value, room);
    if (is_lost && x.transposed.data)
        x.transposed = copy_turned(deferred, pass, x.transposed, room);
    if (x.range.data)
        x.range = copy(deferred, pass, x.range, 0);
    if (x.transposed_range.data)
        x.transposed_range = copy_factors(deferred, pass, x, room);
    return x;
}

static struct tensor matrix(struct operand x) {
    return x.value.data ? x.value : x.transposed;
}

void deferred_add(struct deferred *deferred, const struct pass *pass, const struct deferred_matmul *matmul) {
    bool all = deferred->copies_inputs;
    int64_t room = matmul->room;
    if (deferred->count == deferred->capacity)
        deferred_reserve(deferred, deferred->capacity ? 2 * deferred->capacity : 64);
    struct deferred_matmul kept = *matmul;
    kept.dy = keep(deferred, pass, kept.dy, all || !is_in(pass->activations, matrix(kept.dy)), room);
    kept.x = keep(deferred, pass, kept.x, all || is_in(pass->scratch, matrix(kept.x)), room);
    if (kept.offsets.data && (all || is_in(pass->scratch, kept.offsets)))
        kept.offsets = copy(deferred, pass, kept.offsets, 0);
    deferred->items[deferred->count++] = kept;
}

void deferred_run(struct deferred *deferred, const struct pass *pass) {
    CHECK(!pass->deferred);
    for (int i = 0; i < deferred->count; i++)
        deferred->items[i].compute(&deferred->items[i], pass);
    deferred->count = 0;
    deferred->is_used = false;
    arena_release(&deferred->arena, 0);
}
