// A long run of ids while it is merged, for both orders of merging (bpe_merge.c, merge_ids.c): the ids are a linked
// list in an array, and the pairs that may be merged are in a heap, lowest rank first and leftmost among equals. A pair
// that disappears stays in the heap: merge_apply detects that.
//
// Every merge removes one node and adds at most two candidates, so a run of n ids never has more than 3n of them.
#ifndef DATA_TOKENIZER_MERGE_HEAP_H
#define DATA_TOKENIZER_MERGE_HEAP_H

#include "data/tokenizer/bpe.h"
#include <stdbool.h>

// Nodes kept between calls; memory beyond that is freed.
enum { MERGE_KEPT_NODES = 1 << 20 };

struct merge_node {
    int32_t id;              // -1 once merged into the node before
    int32_t previous, next;  // -1 at the ends
};

// A pair that may be merged: its first node, and its rank when it was found.
struct merge_candidate {
    int32_t rank, node;
};

struct merge_heap {
    struct merge_candidate *items;
    size_t count;
};

static inline bool merge_goes_before(struct merge_candidate a, struct merge_candidate b) {
    return a.rank < b.rank || (a.rank == b.rank && a.node < b.node);
}

static inline void merge_heap_push(struct merge_heap *heap, struct merge_candidate candidate) {
    size_t at = heap->count++;
    while (at > 0 && merge_goes_before(candidate, heap->items[(at - 1) / 2])) {
        heap->items[at] = heap->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->items[at] = candidate;
}

static inline struct merge_candidate merge_heap_pop(struct merge_heap *heap) {
    struct merge_candidate top = heap->items[0], last = heap->items[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && merge_goes_before(heap->items[child + 1], heap->items[child]))
            child++;
        if (!merge_goes_before(heap->items[child], last))
            break;
        heap->items[at] = heap->items[child];
    }
    heap->items[at] = last;
    return top;
}

// The rank of the pair that begins at a node; BPE_NO_RANK if there is none (node may be -1).
static inline int32_t merge_rank_at(const struct bpe *bpe, const struct merge_node *nodes, int32_t node) {
    if (node < 0 || nodes[node].next < 0)
        return BPE_NO_RANK;
    const struct bpe_pair *pair = bpe_pair_find(bpe, nodes[node].id, nodes[nodes[node].next].id);
    return pair ? pair->rank : BPE_NO_RANK;
}

// Merges the pair at a candidate's node. False if the node or its neighbour has changed since it was found.
static inline bool merge_apply(const struct bpe *bpe, struct merge_node *nodes, struct merge_candidate candidate) {
    struct merge_node *left = &nodes[candidate.node];
    if (left->id < 0 || left->next < 0)
        return false;
    struct merge_node *right = &nodes[left->next];
    const struct bpe_pair *pair = bpe_pair_find(bpe, left->id, right->id);
    if (!pair || pair->rank != candidate.rank)
        return false;
    left->id = pair->id;
    right->id = -1;
    left->next = right->next;
    if (right->next >= 0)
        nodes[right->next].previous = candidate.node;
    return true;
}

#endif
