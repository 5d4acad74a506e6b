// Code common to both passes of attention: tiles, the keys that a query sees, and addresses of strided rows. A query
// always sees a single range of keys. Private to ops/cpu.
#ifndef OPS_CPU_ATTENTION_H
#define OPS_CPU_ATTENTION_H

#include "ops/cpu/block.h"

// A tile of scores has this many queries and keys. A row of keys is a multiple of DROPOUT_GRAIN. Heads may have any
// width: matmuls take slices of this many channels of them.
enum { QUERY_TILE = 64, KEY_TILE = 128, HEAD_SLICE = BLOCK_LINES };

// Element (b, t, head, 0) of a (B, T, heads, D) view.
static inline float *attention_row(const struct tensor *t, int64_t b, int64_t row, int64_t head) {
    return (float *)t->data + b * t->stride[0] + row * t->stride[1] + head * t->stride[2];
}

// Rows [first, first + count) of a head, each a line.
static inline struct block_operand attention_block(const struct tensor *t, int64_t b, int64_t first, int64_t head,
                                                   int64_t count) {
    return (struct block_operand){
        {attention_row(t, b, first, head), DTYPE_F32, t->stride[1], false}, count, t->shape[3], 1};
}

// The slice of such a block that begins with this channel; all of it unless the head is wide.
static inline struct block_operand attention_slice(struct block_operand block, int64_t channel) {
    block.source.data = (const float *)block.source.data + channel;
    block.steps = block.steps - channel < HEAD_SLICE ? block.steps - channel : HEAD_SLICE;
    return block;
}

// The rules that decide which keys a query sees, from either operation.
struct attention_rules {
    int64_t query_count, key_count;
    bool is_causal;
    const struct attention_mask *mask;
};

// The keys that this query sees; empty ranges have first == end.
static inline struct cpu_range attention_seen(const struct attention_rules *rules, int64_t b, int64_t query) {
    const struct attention_mask *mask = rules->mask;
    struct cpu_range seen = {0, rules->key_count};
    if (rules->is_causal) {
        seen.end = query + rules->key_count - rules->query_count + 1;
        if (mask->window > 0 && seen.end > mask->window)
            seen.first = seen.end - mask->window;
    }
    if (mask->key_counts.data) {
        int64_t count = ((const int32_t *)mask->key_counts.data)[b];
        seen.end = count < seen.end ? count : seen.end;
    }
    if (mask->first_keys.data) {
        int64_t first = ((const int32_t *)mask->first_keys.data)[b * rules->query_count + query];
        seen.first = first > seen.first ? first : seen.first;
    }
    if (seen.end < seen.first)
        seen.end = seen.first;
    return seen;
}

// The number of queries before the first one that sees no key before `end`. The first visible key never decreases from
// one query to the next.
static inline int64_t attention_queries_before(const struct attention_rules *rules, int64_t b, int64_t end) {
    int64_t low = 0, high = rules->query_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (attention_seen(rules, b, middle).first < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The part of a range that lies within [first, first + count), counted from first.
static inline struct cpu_range attention_within(struct cpu_range seen, int64_t first, int64_t count) {
    int64_t start = seen.first - first, end = seen.end - first;
    start = start < 0 ? 0 : start > count ? count : start;
    end = end < start ? start : end > count ? count : end;
    return (struct cpu_range){start, end};
}

// The relative bias of a query's score with key 0; later keys follow. NULL if there is none.
static inline const float *attention_bias_row(const struct attention_rules *rules, int64_t head, int64_t query) {
    const struct tensor *bias = &rules->mask->relative_bias;
    return bias->data ? (const float *)bias->data + head * bias->shape[1] + rules->query_count - 1 - query : NULL;
}

#endif
