// Byte-level byte-pair encoding: a table of merges, each a pair of ids that becomes one id, with a rank; lower ranks go
// first. A piece of text begins as one id per byte; then the pair of lowest rank in it is merged, all its occurrences
// from left to right, until no pair is in the table.
//
// The loader of a struct bpe (bpe_file.c) verifies that every byte has an id and every merge a result, so encoding
// never lacks a token and decoding returns every byte.
#ifndef DATA_TOKENIZER_BPE_H
#define DATA_TOKENIZER_BPE_H

#include "data/tokenizer/byte_table.h"
#include "data/tokenizer/token_list.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- vocabularies ----

// The tokens of a vocabulary file as written there: string to id and id to string. Used while a tokenizer is loaded;
// encoders work with ids.
struct vocabulary {
    struct byte_table tokens;
    int32_t *index;    // (size) by id: the index of its token in tokens; -1 if no token has the id
    int64_t size;      // highest id + 1
    int64_t capacity;  // of index, while it grows
};

// Reads {"token": id, …}, in any order. Ids are integers from 0, each used once, without large gaps; strings are
// distinct and not empty. On error nothing is left to free. vocabulary_parse_json does the same for bytes in memory;
// errors call them `name`.
int vocabulary_read_json(struct vocabulary *vocabulary, const char *path);
int vocabulary_parse_json(struct vocabulary *vocabulary, const char *text, size_t length, const char *name);
void vocabulary_free(struct vocabulary *vocabulary);

// Appends a string, and returns its id, the next one. An equal string keeps its id, but the new one is found.
int32_t vocabulary_append(struct vocabulary *vocabulary, const char *string, size_t length);

// Id of a string, -1 if it is not a token.
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *string, size_t length);
// String of an id in [0, size); NULL and length 0 if no token has the id.
const char *vocabulary_string(const struct vocabulary *vocabulary, int32_t id, size_t *length);

// ---- merges ----

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
// The bytes of a token, NULL if no token has the id.
static inline const char *bpe_token(const struct bpe *bpe, int32_t id, size_t *length) {
    *length = bpe->begin[id + 1] - bpe->begin[id];
    return *length > 0 ? (const char *)bpe->bytes + bpe->begin[id] : NULL;
}
// Which tokens are bytes or the result of a merge: (vocab_size), freed by the caller.
bool *bpe_find_made(const struct bpe *bpe);
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

// ---- merging ----

// GPT-2's own code (bpe_encode) merges all occurrences of a pair in one round: pairs that appear during a round wait
// for the next one, even if an unusual merge file ranks them lower. In tiktoken, Hugging Face and SentencePiece
// (merge_ids), of all neighbouring pairs that can be merged, the one of lowest rank is merged first (leftmost among
// equals), and the pairs it forms take part at once. The two differ only if a merge has a lower rank than one that it
// depends on.

// Memory for long runs, reused between calls; one per thread. Zeroed is valid.
struct merge_scratch {
    struct merge_node *nodes;
    struct merge_candidate *heap;
    struct merge_candidate *later;  // found since the heap was last filled
    size_t later_count;
    size_t capacity;  // ids of the longest run that fits
    // If not NULL: for each id, the two that were last found to form it, in the order in which SentencePiece finds
    // them.
    struct merge_parts {
        int32_t left, right;
    } * parts;
};

void merge_scratch_free(struct merge_scratch *scratch);

// 0, or -1 with a message if a piece of `length` bytes is too long to merge: the limit is 2^31 - 1.
int bpe_check_length(size_t length);
// Append the ids of a piece: those of its bytes, merged in rounds, or one pair after another. Fail if the piece is too
// long.
int bpe_encode(const struct bpe *bpe, struct merge_scratch *scratch, const unsigned char *piece, size_t length,
               struct token_list *out);
int merge_bytes(const struct bpe *bpe, struct merge_scratch *scratch, const unsigned char *piece, size_t length,
                struct token_list *out);
// Merges ids[0…count) in place with the pairs of bpe and returns the new count. count < 2^31. Takes O(n log n).
int64_t merge_ids(const struct bpe *bpe, struct merge_scratch *scratch, int32_t *ids, int64_t count);

#endif
