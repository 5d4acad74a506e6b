// A stack of tensors in one block of device memory. Tensors are not freed one by one: take a mark, and releasing to it
// drops everything allocated since. The peak tells how much memory a run needs: one step on the paper backend, with
// arenas over unlimited memory, measures how large the real arenas must be.
//
// The upper part of an arena, from a certain height on, may lie elsewhere, in memory that other code needs only at
// other times. No allocation crosses the border; one that would begins beyond it.
#ifndef TENSOR_ARENA_H
#define TENSOR_ARENA_H

#include "tensor/tensor.h"

enum { ARENA_ALIGNMENT = 256 };

struct arena {
    const char *name;  // for messages
    unsigned char *base;
    size_t capacity;
    size_t used;
    size_t peak;
    size_t border;          // 0: there is none
    size_t crossing;        // where the last block moved beyond it would have ended
    unsigned char *beyond;  // where the border is
};

void arena_init(struct arena *arena, const char *name, void *memory, size_t capacity_bytes);

// Moves the part above this height to other memory. Call before anything is allocated.
void arena_set_border(struct arena *arena, size_t border, void *beyond);

// Running out is a broken invariant, because the arena was measured beforehand: dies with the arena's name and sizes.
void *arena_alloc(struct arena *arena, size_t bytes);
struct tensor arena_1d(struct arena *arena, enum dtype dtype, int64_t a);
struct tensor arena_2d(struct arena *arena, enum dtype dtype, int64_t a, int64_t b);
struct tensor arena_3d(struct arena *arena, enum dtype dtype, int64_t a, int64_t b, int64_t c);
struct tensor arena_4d(struct arena *arena, enum dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d);

size_t arena_mark(const struct arena *arena);
void arena_release(struct arena *arena, size_t mark);

#endif
