// What both passes of attention share: the cut into tiles, which keys a query sees, and addresses of strided rows.
// Private to ops/cpu.
#ifndef OPS_CPU_ATTENTION_H
#define OPS_CPU_ATTENTION_H

#include "ops/cpu/cpu.h"

// A tile of scores has this many queries and keys. A row of keys is a multiple of DROPOUT_GRAIN.
enum { QUERY_TILE = 64, KEY_TILE = 128, MAX_HEAD_SIZE = 256 };

// Element (b, t, head, 0) of a (B, T, heads, D) view.
static inline float *attention_row(const struct tensor *t, int64_t b, int64_t row, int64_t head) {
    return (float *)t->data + b * t->stride[0] + row * t->stride[1] + head * t->stride[2];
}

// How many of the keys [first_key, first_key + keys) this query sees. Causal: key j where j <= query + Tk - Tq.
static inline int64_t attention_visible(bool is_causal, int64_t query, int64_t offset, int64_t first_key,
                                        int64_t keys) {
    if (!is_causal)
        return keys;
    int64_t visible = query + offset + 1 - first_key;
    return visible < 0 ? 0 : visible > keys ? keys : visible;
}

#endif
