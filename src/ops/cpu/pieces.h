// Pieces of rows in any float dtype as fp32, for memory-bound loops: a 16-bit row is converted in the L1 cache, not in
// a buffer of its own. Private to ops/cpu.
#ifndef OPS_CPU_PIECES_H
#define OPS_CPU_PIECES_H

#include "ops/cpu/cpu.h"

enum { PIECE = 256 };

static inline void *piece_at(const struct tensor *t, int64_t first) {
    return (char *)t->data + (size_t)first * dtype_bytes(t->dtype);
}

// Elements of a contiguous tensor from `first` on: in place, or converted into `memory`.
static inline const float *piece_read(float *memory, const struct tensor *t, int64_t first, int64_t count) {
    if (t->dtype == DTYPE_F32)
        return (const float *)t->data + first;
    cpu_convert(memory, DTYPE_F32, piece_at(t, first), t->dtype, count);
    return memory;
}

// x must not alias the tensor.
static inline void piece_write(const struct tensor *t, int64_t first, const float *x, int64_t count) {
    if (t->data)
        cpu_convert(piece_at(t, first), t->dtype, x, DTYPE_F32, count);
}

// sum += x; sum += factor * x; the sum of a * b. Nothing overlaps.
void piece_add(float *sum, const float *x, int64_t count);
void piece_add_scaled(float *sum, const float *x, float factor, int64_t count);
float piece_inner(const float *a, const float *b, int64_t count);

// The expert of a place; `experts` if the place is after the last one's. Places are passed in ascending order; start
// with expert 0, then pass the previous result.
static inline int64_t piece_expert(const int32_t *offsets, int64_t experts, int64_t expert, int64_t place) {
    while (expert < experts && place >= offsets[expert + 1])
        expert++;
    return expert;
}

#endif
