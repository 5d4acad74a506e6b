// The table of merges, and the two orders of merging. Short runs of ids (nearly all) are in arrays on the stack that
// are scanned for the lowest rank; long ones are a linked list with a heap of candidate pairs, so that no input takes
// quadratic time.
#include "data/tokenizer/bpe.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// ---- the table: open addressing with linear probing, never more than half full ----

void bpe_pairs_create(struct bpe *bpe, int64_t merge_count) {
    int bits = 4;
    while ((int64_t)1 << bits < merge_count * 2)
        bits++;
    size_t slots = (size_t)1 << bits;
    bpe->pairs = memory_alloc(slots * sizeof *bpe->pairs);
    for (size_t i = 0; i < slots; i++)
        bpe->pairs[i].left = -1;
    bpe->pair_mask = slots - 1;
    bpe->pair_shift = 64 - bits;
}

int bpe_pairs_add(struct bpe *bpe, struct bpe_pair pair) {
    size_t slot = bpe_pair_slot(bpe, pair.left, pair.right);
    for (; bpe->pairs[slot].left >= 0; slot = (slot + 1) & bpe->pair_mask)
        if (bpe->pairs[slot].left == pair.left && bpe->pairs[slot].right == pair.right)
            return -1;
    bpe->pairs[slot] = pair;
    return 0;
}

void bpe_free(struct bpe *bpe) {
    if (!bpe)
        return;
    free(bpe->pairs);
    free(bpe->begin);
    free(bpe->bytes);
    free(bpe);
}

// ---- long runs ----

// The ids are a linked list in an array, and the pairs that may be merged are in a heap, lowest rank first and leftmost
// among equals. A pair that disappears stays in the heap: merge_apply detects that. Every merge removes one node and
// adds at most two candidates, so a run of n ids never has more than 3n of them.

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

static bool merge_goes_before(struct merge_candidate a, struct merge_candidate b) {
    return a.rank < b.rank || (a.rank == b.rank && a.node < b.node);
}

static void merge_heap_push(struct merge_heap *heap, struct merge_candidate candidate) {
    size_t at = heap->count++;
    while (at > 0 && merge_goes_before(candidate, heap->items[(at - 1) / 2])) {
        heap->items[at] = heap->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->items[at] = candidate;
}

static struct merge_candidate merge_heap_pop(struct merge_heap *heap) {
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

// Merges the pair at a candidate's node. False if the node or its neighbour has changed since it was found.
static bool merge_apply(const struct bpe *bpe, struct merge_node *nodes, struct merge_candidate candidate) {
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

void merge_scratch_free(struct merge_scratch *scratch) {
    free(scratch->nodes);
    free(scratch->heap);
    free(scratch->later);
    free(scratch->parts);
    *scratch = (struct merge_scratch){0};
}

static void scratch_reserve(struct merge_scratch *scratch, size_t count) {
    if (scratch->capacity >= count)
        return;
    scratch->capacity = count;
    scratch->nodes = memory_realloc(scratch->nodes, count * sizeof *scratch->nodes);
    scratch->heap = memory_realloc(scratch->heap, 3 * count * sizeof *scratch->heap);
    scratch->later = memory_realloc(scratch->later, 2 * count * sizeof *scratch->later);
}

// Adds the pair that begins at a node to the list for later, if it can be merged.
static void note_candidate(const struct bpe *bpe, struct merge_scratch *scratch, int32_t node) {
    const struct merge_node *nodes = scratch->nodes;
    if (node < 0 || nodes[node].next < 0)
        return;
    int32_t left = nodes[node].id, right = nodes[nodes[node].next].id;
    const struct bpe_pair *pair = bpe_pair_find(bpe, left, right);
    if (!pair)
        return;
    scratch->later[scratch->later_count++] = (struct merge_candidate){pair->rank, node};
    if (scratch->parts)
        scratch->parts[pair->id] = (struct merge_parts){left, right};
}

// Merges ids[0…count) in place and returns the new count. In rounds, pairs that appear wait until all of the lowest
// rank are merged; else they take part at once.
static int64_t merge_long(const struct bpe *bpe, struct merge_scratch *scratch, int32_t *ids, int32_t count,
                          bool in_rounds) {
    scratch_reserve(scratch, (size_t)count);
    struct merge_node *nodes = scratch->nodes;
    struct merge_heap heap = {scratch->heap, 0};
    scratch->later_count = 0;
    for (int32_t i = 0; i < count; i++)
        nodes[i] = (struct merge_node){ids[i], i - 1, i + 1 < count ? i + 1 : -1};
    for (int32_t i = 0; i < count; i++)
        note_candidate(bpe, scratch, i);
    for (;;) {
        for (size_t i = 0; i < scratch->later_count; i++)
            merge_heap_push(&heap, scratch->later[i]);
        scratch->later_count = 0;
        if (heap.count == 0)
            break;
        int32_t best = heap.items[0].rank;
        do {
            struct merge_candidate candidate = merge_heap_pop(&heap);
            if (!merge_apply(bpe, nodes, candidate))
                continue;
            note_candidate(bpe, scratch, nodes[candidate.node].previous);
            note_candidate(bpe, scratch, candidate.node);
        } while (in_rounds && heap.count > 0 && heap.items[0].rank == best);
    }
    int64_t kept = 0;
    for (int32_t i = 0; i >= 0; i = nodes[i].next)
        ids[kept++] = nodes[i].id;
    if (scratch->capacity > MERGE_KEPT_NODES) {
        struct merge_parts *parts = scratch->parts;
        scratch->parts = NULL;
        merge_scratch_free(scratch);
        scratch->parts = parts;
    }
    return kept;
}

// ---- in rounds: all occurrences of a pair, from left to right ----

enum { SHORT_BYTES = 64 };

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

// ---- one pair after another ----

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

int64_t merge_ids(const struct bpe *bpe, struct merge_scratch *scratch, int32_t *ids, int64_t count) {
    return count <= SHORT_IDS && !scratch->parts ? merge_short(bpe, ids, (int)count)
                                                 : merge_long(bpe, scratch, ids, (int32_t)count, false);
}

// ---- pieces ----

int bpe_check_length(size_t length) {
    if (length < INT32_MAX)
        return 0;
    return error_set("a word of %zu bytes is too long to tokenize; the limit is 2^31 - 1", length);
}

// Makes room for the ids of a piece's bytes, and writes them there.
static int32_t *append_bytes(const struct bpe *bpe, const unsigned char *piece, size_t length, struct token_list *out) {
    token_list_reserve(out, (int64_t)length);
    int32_t *ids = out->ids + out->count;
    for (size_t i = 0; i < length; i++)
        ids[i] = bpe->byte_id[piece[i]];
    return ids;
}

int bpe_encode(const struct bpe *bpe, struct merge_scratch *scratch, const unsigned char *piece, size_t length,
               struct token_list *out) {
    if (length <= SHORT_BYTES) {
        encode_short(bpe, piece, (int)length, out);
        return 0;
    }
    TRY(bpe_check_length(length));
    out->count += merge_long(bpe, scratch, append_bytes(bpe, piece, length, out), (int32_t)length, true);
    return 0;
}

int merge_bytes(const struct bpe *bpe, struct merge_scratch *scratch, const unsigned char *piece, size_t length,
                struct token_list *out) {
    TRY(bpe_check_length(length));
    out->count += merge_ids(bpe, scratch, append_bytes(bpe, piece, length, out), (int64_t)length);
    return 0;
}
