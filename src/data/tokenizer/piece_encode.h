// Encodes text piece by piece, for every tokenizer whose ids are those of its pieces concatenated: a splitter cuts the
// text into pieces, a chunk at a time; each piece is looked up in a cache, and the tokenizer encodes
// those that are missing.
#ifndef DATA_TOKENIZER_PIECE_ENCODE_H
#define DATA_TOKENIZER_PIECE_ENCODE_H

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/token_list.h"
#include "data/tokenizer/word_cache.h"

// ---- the cache ----

// Caches the ids of short pieces of text, for byte-level tokenizers: a few thousand pieces make up most of any text.
// The key is the piece itself, at most 15 bytes padded with zeros, and its length in the last byte.
//
// A bucket is two entries on one cache line. A piece is in its own bucket or one of the few after it; if all are full,
// an entry is evicted. So any entry may be missing, but none is ever wrong. The table doubles as it fills up, from 2
// MiB to 16 MiB. At most 4 MiB more hold the ids of pieces that have more ids than fit in an entry.

enum {
    PIECE_CACHE_MAX_BYTES = 15,
    PIECE_CACHE_IDS = 3,
    PIECE_CACHE_LEAST_BITS = 15,  // of the number of buckets
    PIECE_CACHE_MOST_BITS = 18,
    PIECE_CACHE_REACH = 8,          // buckets that a piece may be in
    PIECE_CACHE_SPILLED = 1 << 20,  // ids
};

struct piece_entry {
    struct word_key key;
    int32_t ids[PIECE_CACHE_IDS];  // if there are more, ids[0] is their index among the spilled
    int32_t count;
};

struct piece_bucket {
    struct piece_entry entries[2];
};

struct piece_cache {
    struct piece_bucket *buckets;
    int bits;
    int64_t used;  // entries
    int32_t *spilled;
    int64_t spilled_count, spilled_capacity;
};

void piece_cache_create(struct piece_cache *cache);
void piece_cache_free(struct piece_cache *cache);

// Nearly all pieces have at most 8 bytes, so the high word is little more than the length.
static inline uint32_t piece_cache_place(struct word_key key, int bits) {
    uint64_t mixed = (key.low ^ (key.high >> 27 | key.high << 37)) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed >> (64 - bits));
}

// ---- encoding ----

// A tokenizer's part. The caller owns the pointers.
struct piece_model {
    const struct splitter *splitter;
    // Appends the ids of one piece. `state` is that passed to piece_encode.
    int (*encode)(const void *model, void *state, const unsigned char *piece, size_t length, struct token_list *out);
    const void *model;
};

// The state of an encoder that needs no more than this: what state_create and state_free of such a kind are.
struct piece_state {
    struct piece_cache cache;
    struct merge_scratch merge;
    struct pattern_scratch pattern;
};
struct tokenizer;
int piece_state_create(const struct tokenizer *tokenizer, void **state);
void piece_state_free(void *state);

// Appends the ids of the text. One cache per thread; never use it with two models.
int piece_encode(const struct piece_model *model, struct piece_cache *cache, void *state, const char *text,
                 size_t length, struct token_list *out);

#endif
