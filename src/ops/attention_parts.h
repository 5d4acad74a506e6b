// Splitting of attention into parts. Samples are independent, and so are key heads, so attention may process some of
// them at a time, with the same result: a part is whole samples, or whole key heads of one sample with all query heads
// that use them. Parts of one operation are equal, so one plan of a library serves all.
//
// A few heads of ATTENTION_PART_ELEMENTS keep a GPU busy. A part's operands have the strides of the whole operation, so
// their elements may lie far apart, and cuDNN 9.14 counts some of them in 32 bits: an operand of a larger extent is
// packed in workspace first (measured on an H200, bench/RESULTS.md).
#ifndef OPS_ATTENTION_PARTS_H
#define OPS_ATTENTION_PARTS_H

#include "tensor/tensor.h"

static const int64_t ATTENTION_PART_ELEMENTS = INT64_C(1) << 28;
// The most elements from an operand's first to its last that cuDNN addresses right: of out and dout where it sums their
// products by row, of the gradients that it writes, and of what it reads or writes otherwise.
static const int64_t ATTENTION_SUMMED_EXTENT = INT64_C(1) << 31;
static const int64_t ATTENTION_WRITTEN_EXTENT = INT64_C(1) << 32;
static const int64_t ATTENTION_READ_EXTENT = INT64_C(1) << 34;

struct attention_part {
    int64_t samples, key_heads, heads;
    int64_t count;     // number of parts
    int64_t elements;  // of a part: of its queries, or of its keys and values repeated for each query head
};

// The largest divisor of `all` of at most `most`; 1 if there is none.
static inline int64_t attention_divisor(int64_t all, int64_t most) {
    int64_t divisor = all < most ? all : most;
    while (divisor > 1 && all % divisor != 0)
        divisor--;
    return divisor > 1 ? divisor : 1;
}

// Parts of attention of q (B, Tq, H, D), k (B, Tk, G, D) and v (B, Tk, G, V), none of them empty. A part has at most
// `most` elements, unless a single key head has more.
static inline struct attention_part attention_part(struct tensor q, struct tensor k, struct tensor v, int64_t most) {
    int64_t B = q.shape[0], G = k.shape[2], group = q.shape[2] / G;
    int64_t T = q.shape[1] > k.shape[1] ? q.shape[1] : k.shape[1];
    int64_t of_head = group * T * (q.shape[3] > v.shape[3] ? q.shape[3] : v.shape[3]);
    struct attention_part part;
    part.samples = attention_divisor(B, most / (G * of_head));
    part.key_heads = G * of_head > most ? attention_divisor(G, most / of_head) : G;
    part.heads = group * part.key_heads;
    part.count = B / part.samples * (G / part.key_heads);
    part.elements = part.samples * part.key_heads * of_head;
    return part;
}

// The first part of an operand (B, T, heads, D).
static inline struct tensor attention_first_part(struct tensor t, int64_t samples, int64_t heads) {
    t.shape[0] = samples;
    t.shape[2] = heads;
    return t;
}

static inline int64_t attention_extent(struct tensor t) {
    int64_t extent = 1;
    for (int i = 0; i < t.rank; i++)
        extent += (t.shape[i] - 1) * t.stride[i];
    return extent;
}

#endif
