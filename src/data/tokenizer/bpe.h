// Byte-level byte-pair encoding: a table of merges, each a pair of ids that becomes one id, with a rank; lower ranks go
// first. A piece of text begins as one id per byte; then the pair of lowest rank in it is merged, all its occurrences
// from left to right, until no pair is in the table.
//
// The loader of a struct bpe (bpe_load.c) verifies that every byte has an id and every merge a result, so encoding
// never lacks a token and decoding returns every byte.
#ifndef DATA_TOKENIZER_BPE_H
#define DATA_TOKENIZER_BPE_H

#include "data/tokenizer/token_list.h"
#include "data/tokenizer/vocabulary.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BPE_NO_RANK = INT32_MAX };

struct bpe_pair {
    int32_t left, right;  // left < 0: the slot is free
    int32_t rank;
    int32_t id;  // the result
};

struct bpe {
    int32_t byte_id[256];
    struct bpe_pair *pairs;  // hash table, open addressing, at most half full
    int pair_shift;          // 64 - log2(slots)
    size_t pair_mask;
    int64_t merge_count;
    int64_t vocab_size;
    size_t *begin;         // (vocab_size + 1) where the bytes of each token begin; a missing token has none
    unsigned char *bytes;  // of all tokens
};

// The text of merges.txt, and the names of the two files for errors.
struct bpe_merge_text {
    const char *text;
    size_t length;
    const char *vocab_name, *merge_name;
};

// Builds the table from a vocabulary and the text of merges.txt. Neither is needed afterwards.
int bpe_build(struct bpe **bpe, const struct vocabulary *vocabulary, const struct bpe_merge_text *merges);
// bpe_build with merges.txt in a file. It is an error if merges are missing for tokens that consist of two others: the
// file is truncated, or belongs to another tokenizer. A few tokens added by hand are only noted in the log.
int bpe_open(struct bpe **bpe, const struct vocabulary *vocabulary, const char *vocab_file, const char *merge_file);
void bpe_free(struct bpe *bpe);  // NULL is fine
// Whether a token is written like a special one: <|endoftext|>, <s>, [MASK].
bool bpe_is_bracketed(const char *text, size_t length);

// An empty table with room for merge_count merges; and adding a merge to it. -1, without a message, if the pair is
// already in the table.
void bpe_pairs_create(struct bpe *bpe, int64_t merge_count);
int bpe_pairs_add(struct bpe *bpe, struct bpe_pair pair);

static inline size_t bpe_pair_slot(const struct bpe *bpe, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key ^= key >> 29;  // brings the left id into the low bits, which the multiplication spreads upward
    return (size_t)(key * 0x9E3779B97F4A7C15u >> bpe->pair_shift);
}

// The merge of two neighbours, NULL if there is none.
static inline const struct bpe_pair *bpe_pair_find(const struct bpe *bpe, int32_t left, int32_t right) {
    for (size_t slot = bpe_pair_slot(bpe, left, right);; slot = (slot + 1) & bpe->pair_mask) {
        const struct bpe_pair *pair = &bpe->pairs[slot];
        if (pair->left == left && pair->right == right)
            return pair;
        if (pair->left < 0)
            return NULL;
    }
}

// Memory for long pieces, reused between calls; one per thread. Zeroed is valid.
struct bpe_scratch {
    struct merge_node *nodes;
    struct merge_candidate *heap;
    struct merge_candidate *later;  // found in this round
    size_t capacity;                // bytes of the longest piece that fits
};

void bpe_scratch_free(struct bpe_scratch *scratch);

// 0, or -1 with a message if a piece of `length` bytes is too long to merge: the limit is 2^31 - 1.
int bpe_check_length(size_t length);
// Appends the ids of one piece, in O(n log n). A piece of 2^31 bytes or more is an error.
int bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const unsigned char *piece, size_t length,
               struct token_list *out);

#endif
