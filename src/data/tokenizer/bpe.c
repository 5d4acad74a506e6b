// The table of merges: open addressing with linear probing, never more than half full.
#include "data/tokenizer/bpe.h"
#include "base/memory.h"
#include <stdlib.h>

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
