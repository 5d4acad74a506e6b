// Merging one piece. Short pieces (nearly all) are in arrays on the stack that are scanned for the lowest rank; long
// ones are a linked list with a heap of candidate pairs, so that no input takes quadratic time. Both do the same: a
// round takes the lowest rank and merges every occurrence of its pair from left to right. Pairs that appear during a
// round wait for the next one, even if an unusual merge file ranks them lower.
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/merge_heap.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { SHORT_BYTES = 64 };

// ---- short pieces ----

// A piece while it is merged. ranks[i] and merged[i] are those of the pair of ids i and i + 1.
struct short_piece {
    int count;
    int32_t ids[SHORT_BYTES], ranks[SHORT_BYTES], merged[SHORT_BYTES];
};

static inline void pair_up(const struct bpe *bpe, struct short_piece *piece, int at) {
    const struct bpe_pair *pair = bpe_pair_find(bpe, piece->ids[at], piece->ids[at + 1]);
    piece->ranks[at] = pair ? pair->rank : BPE_NO_RANK;
    piece->merged[at] = pair ? pair->id : 0;
}

// One round: merges the pairs whose rank is `best`.
static void merge_round(const struct bpe *bpe, struct short_piece *piece, int32_t best) {
    int kept = 0, changed = -2;  // index of the last merged id written, whose ranks must be looked up again
    for (int i = 0; i < piece->count; kept++) {
        bool merges = i + 1 < piece->count && piece->ranks[i] == best;
        piece->ids[kept] = merges ? piece->merged[i] : piece->ids[i];
        i += merges ? 2 : 1;
        if (kept > 0 && (merges || changed == kept - 1))
            pair_up(bpe, piece, kept - 1);
        piece->ranks[kept] = i < piece->count ? piece->ranks[i - 1] : BPE_NO_RANK;
        piece->merged[kept] = piece->merged[i - 1];
        if (merges)
            changed = kept;
    }
    piece->count = kept;
}

static void encode_short(const struct bpe *bpe, const unsigned char *bytes, int length, struct token_list *out) {
    struct short_piece piece;
    piece.count = length;
    for (int i = 0; i < length; i++)
        piece.ids[i] = bpe->byte_id[bytes[i]];
    for (int i = 0; i + 1 < length; i++)
        pair_up(bpe, &piece, i);
    for (;;) {
        int32_t best = BPE_NO_RANK;
        for (int i = 0; i + 1 < piece.count; i++)
            best = piece.ranks[i] < best ? piece.ranks[i] : best;
        if (best == BPE_NO_RANK)
            break;
        merge_round(bpe, &piece, best);
    }
    token_list_reserve(out, piece.count);
    memcpy(out->ids + out->count, piece.ids, (size_t)piece.count * sizeof piece.ids[0]);
    out->count += piece.count;
}

// ---- long pieces ----

static void scratch_reserve(struct bpe_scratch *scratch, size_t length) {
    if (scratch->capacity >= length)
        return;
    scratch->capacity = length;
    scratch->nodes = memory_realloc(scratch->nodes, length * sizeof *scratch->nodes);
    scratch->heap = memory_realloc(scratch->heap, 3 * length * sizeof *scratch->heap);
    scratch->later = memory_realloc(scratch->later, 2 * length * sizeof *scratch->later);
}

void bpe_scratch_free(struct bpe_scratch *scratch) {
    free(scratch->nodes);
    free(scratch->heap);
    free(scratch->later);
    *scratch = (struct bpe_scratch){0};
}

// Adds the pair that begins at node to a list, if it can be merged.
static void note_candidate(const struct bpe *bpe, const struct merge_node *nodes, int32_t node,
                           struct merge_candidate *later, size_t *count) {
    int32_t rank = merge_rank_at(bpe, nodes, node);
    if (rank != BPE_NO_RANK)
        later[(*count)++] = (struct merge_candidate){rank, node};
}

static void encode_long(const struct bpe *bpe, struct bpe_scratch *scratch, const unsigned char *piece, int32_t length,
                        struct token_list *out) {
    scratch_reserve(scratch, (size_t)length);
    struct merge_node *nodes = scratch->nodes;
    struct merge_heap heap = {scratch->heap, 0};
    struct merge_candidate *later = scratch->later;
    size_t later_count = 0;
    for (int32_t i = 0; i < length; i++)
        nodes[i] = (struct merge_node){bpe->byte_id[piece[i]], i - 1, i + 1 < length ? i + 1 : -1};
    for (int32_t i = 0; i < length; i++)
        note_candidate(bpe, nodes, i, later, &later_count);
    for (;;) {
        for (size_t i = 0; i < later_count; i++)
            merge_heap_push(&heap, later[i]);
        later_count = 0;
        if (heap.count == 0)
            break;
        int32_t best = heap.items[0].rank;
        while (heap.count > 0 && heap.items[0].rank == best) {
            struct merge_candidate candidate = merge_heap_pop(&heap);
            if (!merge_apply(bpe, nodes, candidate))
                continue;
            note_candidate(bpe, nodes, nodes[candidate.node].previous, later, &later_count);
            note_candidate(bpe, nodes, candidate.node, later, &later_count);
        }
    }
    for (int32_t i = 0; i >= 0; i = nodes[i].next)
        token_list_append(out, nodes[i].id);
}

int bpe_check_length(size_t length) {
    if (length < INT32_MAX)
        return 0;
    return error_set("a word of %zu bytes is too long to tokenize; the limit is 2^31 - 1", length);
}

int bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const unsigned char *piece, size_t length,
               struct token_list *out) {
    if (length <= SHORT_BYTES) {
        encode_short(bpe, piece, (int)length, out);
        return 0;
    }
    TRY(bpe_check_length(length));
    encode_long(bpe, scratch, piece, (int32_t)length, out);
    if (scratch->capacity > MERGE_KEPT_NODES)
        bpe_scratch_free(scratch);
    return 0;
}
