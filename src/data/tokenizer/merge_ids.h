// Byte-pair merging as in tiktoken and Hugging Face: of all neighbouring pairs that can be merged, the one of lowest
// rank is merged first (leftmost among equals), and the pairs it forms take part at once. GPT-2's own code (bpe_encode)
// merges all occurrences of a pair in one round. The two differ only if a merge has a lower rank than one that it
// depends on.
#ifndef DATA_TOKENIZER_MERGE_IDS_H
#define DATA_TOKENIZER_MERGE_IDS_H

#include "data/tokenizer/bpe.h"

// Memory for long runs, reused between calls; one per thread. Zeroed is valid.
struct merge_scratch {
    struct merge_node *nodes;
    struct merge_candidate *heap;
    size_t capacity;  // ids of the longest run that fits
};

void merge_scratch_free(struct merge_scratch *scratch);

// Merges ids[0…count) in place with the pairs of bpe and returns the new count. count < 2^31. Takes O(n log n).
int64_t merge_ids(const struct bpe *bpe, struct merge_scratch *scratch, int32_t *ids, int64_t count);
// Appends the ids of a piece: those of its bytes, merged. Fails if the piece is too long.
int merge_bytes(const struct bpe *bpe, struct merge_scratch *scratch, const unsigned char *piece, size_t length,
                struct token_list *out);

#endif
