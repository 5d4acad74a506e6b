// A stack of aligned blocks in one piece of memory. The invariant: used is a multiple of ARENA_ALIGNMENT and never
// above capacity, even if the capacity itself is not a multiple.
#include "tensor/arena.h"
#include "base/error.h"

void arena_init(struct arena *arena, const char *name, void *memory, size_t capacity_bytes) {
    CHECK((uintptr_t)memory % ARENA_ALIGNMENT == 0);
    *arena = (struct arena){.name = name, .base = memory, .capacity = capacity_bytes};
}

void arena_set_border(struct arena *arena, size_t border, void *beyond) {
    CHECK(arena->used == 0 && border % ARENA_ALIGNMENT == 0 && (uintptr_t)beyond % ARENA_ALIGNMENT == 0);
    arena->border = border;
    arena->beyond = beyond;
}

void *arena_alloc(struct arena *arena, size_t bytes) {
    size_t rounded = (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
    if (arena->used < arena->border && rounded > arena->border - arena->used) {
        arena->crossing = arena->used + rounded;
        arena->used = arena->border;
    }
    size_t left = arena->capacity - arena->used;
    if (rounded < bytes || rounded > left)
        die("the arena \"%s\" holds %zu bytes, %zu are used and %zu more were asked for", arena->name, arena->capacity,
            arena->used, bytes);
    bool is_beyond = arena->border > 0 && arena->used >= arena->border;
    void *memory = is_beyond ? arena->beyond + (arena->used - arena->border) : arena->base + arena->used;
    arena->used += rounded;
    if (arena->used > arena->peak)
        arena->peak = arena->used;
    return memory;
}

// The view is laid out first, over a dummy address that is not NULL, so that its checked size sizes the allocation.
static struct tensor place(struct arena *arena, struct tensor t) {
    t.data = arena_alloc(arena, tensor_bytes(t));
    return t;
}

struct tensor arena_1d(struct arena *arena, enum dtype dtype, int64_t a) {
    return place(arena, tensor_1d(arena, dtype, a));
}

struct tensor arena_2d(struct arena *arena, enum dtype dtype, int64_t a, int64_t b) {
    return place(arena, tensor_2d(arena, dtype, a, b));
}

struct tensor arena_3d(struct arena *arena, enum dtype dtype, int64_t a, int64_t b, int64_t c) {
    return place(arena, tensor_3d(arena, dtype, a, b, c));
}

struct tensor arena_4d(struct arena *arena, enum dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    return place(arena, tensor_4d(arena, dtype, a, b, c, d));
}

size_t arena_mark(const struct arena *arena) {
    return arena->used;
}

void arena_release(struct arena *arena, size_t mark) {
    CHECK(mark <= arena->used);
    arena->used = mark;
}
