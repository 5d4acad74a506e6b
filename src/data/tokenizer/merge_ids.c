// Short runs are scanned for the lowest rank after each merge; long ones use a linked list and a heap of candidates.
#include "data/tokenizer/merge_ids.h"
#include "data/tokenizer/merge_heap.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { SHORT_IDS = 48 };

struct short_pair {
    int32_t rank, id;
};

static inline struct short_pair pair_of(const struct bpe *bpe, int32_t left, int32_t right) {
    const struct bpe_pair *pair = bpe_pair_find(bpe, left, right);
    return pair ? (struct short_pair){pair->rank, pair->id} : (struct short_pair){BPE_NO_RANK, 0};
}

static int64_t merge_short(const struct bpe *bpe, int32_t *ids, int count) {
    struct short_pair pairs[SHORT_IDS];  // pairs[i] is of ids[i], ids[i + 1]
    for (int i = 0; i + 1 < count; i++)
        pairs[i] = pair_of(bpe, ids[i], ids[i + 1]);
    while (count > 1) {
        int at = 0;
        for (int i = 1; i + 1 < count; i++)
            at = pairs[i].rank < pairs[at].rank ? i : at;
        if (pairs[at].rank == BPE_NO_RANK)
            break;
        ids[at] = pairs[at].id;
        memmove(ids + at + 1, ids + at + 2, (size_t)(count - at - 2) * sizeof *ids);
        memmove(pairs + at, pairs + at + 1, (size_t)(count - at - 2) * sizeof *pairs);
        count--;
        if (at + 1 < count)
            pairs[at] = pair_of(bpe, ids[at], ids[at + 1]);
        if (at > 0)
            pairs[at - 1] = pair_of(bpe, ids[at - 1], ids[at]);
    }
    return count;
}

static void push_pair(const struct bpe *bpe, const struct merge_node *nodes, int32_t node, struct merge_heap *heap) {
    int32_t rank = merge_rank_at(bpe, nodes, node);
    if (rank != BPE_NO_RANK)
        merge_heap_push(heap, (struct merge_candidate){rank, node});
}

void merge_scratch_free(struct merge_scratch *scratch) {
    free(scratch->nodes);
    free(scratch->heap);
    *scratch = (struct merge_scratch){0};
}

static void scratch_reserve(struct merge_scratch *scratch, size_t count) {
    if (scratch->capacity >= count)
        return;
    merge_scratch_free(scratch);
    scratch->nodes = memory_realloc(NULL, count * sizeof *scratch->nodes);
    scratch->heap = memory_realloc(NULL, 3 * count * sizeof *scratch->heap);
    scratch->capacity = count;
}

static int64_t merge_long(const struct bpe *bpe, struct merge_scratch *scratch, int32_t *ids, int32_t count) {
    scratch_reserve(scratch, (size_t)count);
    struct merge_node *nodes = scratch->nodes;
    struct merge_heap heap = {scratch->heap, 0};
    for (int32_t i = 0; i < count; i++)
        nodes[i] = (struct merge_node){ids[i], i - 1, i + 1 < count ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < count; i++)
        push_pair(bpe, nodes, i, &heap);
    while (heap.count > 0) {
        struct merge_candidate candidate = merge_heap_pop(&heap);
        if (!merge_apply(bpe, nodes, candidate))
            continue;
        push_pair(bpe, nodes, nodes[candidate.node].previous, &heap);
        push_pair(bpe, nodes, candidate.node, &heap);
    }
    int64_t kept = 0;
    for (int32_t i = 0; i >= 0; i = nodes[i].next)
        ids[kept++] = nodes[i].id;
    if (scratch->capacity > MERGE_KEPT_NODES)
        merge_scratch_free(scratch);
    return kept;
}

int64_t merge_ids(const struct bpe *bpe, struct merge_scratch *scratch, int32_t *ids, int64_t count) {
    return count <= SHORT_IDS ? merge_short(bpe, ids, (int)count) : merge_long(bpe, scratch, ids, (int32_t)count);
}

int merge_bytes(const struct bpe *bpe, struct merge_scratch *scratch, const unsigned char *piece, size_t length,
                struct token_list *out) {
    TRY(bpe_check_length(length));
    token_list_reserve(out, (int64_t)length);
    int32_t *ids = out->ids + out->count;
    for (size_t i = 0; i < length; i++)
        ids[i] = bpe->byte_id[piece[i]];
    out->count += merge_ids(bpe, scratch, ids, (int64_t)length);
    return 0;
}
