// Caches the ids of short pieces, since a few thousand of them make up most of any text. It holds pieces of at most 15
// bytes that have at most 4 ids. The key is the piece itself, padded with zeros and with its length in the last byte. A
// bucket is two entries on one cache line; a new entry evicts the older one, so memory is fixed and nothing is
// rehashed.
#ifndef DATA_TOKENIZER_WORD_CACHE_H
#define DATA_TOKENIZER_WORD_CACHE_H

#include "data/tokenizer/token_list.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WORD_CACHE_MAX_BYTES = 15, WORD_CACHE_MAX_IDS = 4, WORD_CACHE_BUCKET_BITS = 16 };

struct word_key {
    uint64_t low, high;  // high's top byte is the length: never 0, so a zeroed entry is free
};

struct word_entry {
    struct word_key key;
    int32_t ids[WORD_CACHE_MAX_IDS];  // -1 after the last
};

struct word_bucket {
    struct word_entry entries[2];  // the newer one first
};

struct word_cache {
    struct word_bucket *buckets;  // 4 MiB, aligned to 64 bytes
};

// Zeroed memory of a power of two of bytes for buckets, in large pages if there are any. Freed with free().
void *word_cache_buckets(size_t bytes);
void word_cache_create(struct word_cache *cache);
void word_cache_free(struct word_cache *cache);

// The key of text[0…length), 1 <= length <= 15; `readable` bytes can be read at text.
static inline struct word_key word_key_of(const unsigned char *text, size_t length, size_t readable) {
    struct word_key key = {0, 0};
    if (readable >= 16) {
        memcpy(&key, text, sizeof key);
        uint64_t mask = length & 7 ? ~(uint64_t)0 >> (64 - 8 * (length & 7)) : 0;
        key.high = length > 8 ? key.high & mask : 0;
        if (length < 8)
            key.low &= mask;
    } else {
        memcpy(&key, text, length);
    }
    key.high |= (uint64_t)length << 56;
    return key;
}

static inline struct word_bucket *word_cache_bucket(const struct word_cache *cache, struct word_key key) {
    uint64_t hash = (key.low ^ (key.high * 0xD6E8FEB86659FD93u)) * 0x9E3779B97F4A7C15u;
    return &cache->buckets[hash >> (64 - WORD_CACHE_BUCKET_BITS)];
}

// The entry of a key, NULL if it is not there.
static inline const struct word_entry *word_cache_find(const struct word_bucket *bucket, struct word_key key) {
    for (int i = 0; i < 2; i++)
        if (bucket->entries[i].key.low == key.low && bucket->entries[i].key.high == key.high)
            return &bucket->entries[i];
    return NULL;
}

// Appends the ids of a key. False if they are not in the cache; *bucket is where they belong.
static inline bool word_cache_append(const struct word_cache *cache, struct word_key key, struct word_bucket **bucket,
                                     struct token_list *out) {
    *bucket = word_cache_bucket(cache, key);
    const struct word_entry *entry = word_cache_find(*bucket, key);
    for (int i = 0; entry && i < WORD_CACHE_MAX_IDS && entry->ids[i] >= 0; i++)
        token_list_append(out, entry->ids[i]);
    return entry != NULL;
}

// Stores ids[0…count) for a key that was not found; more than 4 are not stored.
void word_cache_add(struct word_bucket *bucket, struct word_key key, const int32_t *ids, int64_t count);

#endif
