// Creates, grows and fills the cache of short pieces; the lookup in a piece's own bucket is in the loop of
// piece_encode.c.
#include "data/tokenizer/piece_cache.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

static struct piece_bucket *make_buckets(int bits) {
    size_t bytes = ((size_t)1 << bits) * sizeof(struct piece_bucket);
    struct piece_bucket *buckets = aligned_alloc(bytes < HUGE_PAGE_BYTES ? bytes : HUGE_PAGE_BYTES, bytes);
    if (!buckets)
        die("out of memory: %zu bytes for the cache of a tokenizer", bytes);
    // Must come before the memory is touched; the kernel may refuse.
    (void)madvise(buckets, bytes, MADV_HUGEPAGE);
    memset(buckets, 0, bytes);
    return buckets;
}

void piece_cache_create(struct piece_cache *cache) {
    *cache = (struct piece_cache){.bits = PIECE_CACHE_LEAST_BITS, .buckets = make_buckets(PIECE_CACHE_LEAST_BITS)};
}

void piece_cache_free(struct piece_cache *cache) {
    free(cache->buckets);
    free(cache->spilled);
    *cache = (struct piece_cache){0};
}

static bool same_key(struct word_key a, struct word_key b) {
    return a.low == b.low && a.high == b.high;
}

static bool is_free(const struct piece_entry *entry) {
    return entry->key.high == 0;  // the length of a piece is never 0
}

static struct piece_bucket *bucket_after(struct piece_cache *cache, uint32_t place, uint32_t steps) {
    return &cache->buckets[(place + steps) & (((uint32_t)1 << cache->bits) - 1)];
}

// Puts an entry in a free place, else in place of the older one of its own bucket.
static void put(struct piece_cache *cache, uint32_t place, const struct piece_entry *entry) {
    for (uint32_t steps = 0; steps < PIECE_CACHE_REACH; steps++) {
        struct piece_bucket *bucket = bucket_after(cache, place, steps);
        for (int i = 0; i < 2; i++)
            if (is_free(&bucket->entries[i])) {
                bucket->entries[i] = *entry;
                cache->used++;
                return;
            }
    }
    struct piece_bucket *own = &cache->buckets[place];
    own->entries[1] = own->entries[0];
    own->entries[0] = *entry;
}

void piece_cache_make_room(struct piece_cache *cache) {
    if (cache->bits == PIECE_CACHE_MOST_BITS || cache->used < (int64_t)3 << (cache->bits - 1))
        return;
    struct piece_cache larger = *cache;
    larger.bits++;
    larger.used = 0;
    larger.buckets = make_buckets(larger.bits);
    for (size_t i = 0; i < (size_t)1 << cache->bits; i++)
        for (int k = 0; k < 2; k++) {
            const struct piece_entry *entry = &cache->buckets[i].entries[k];
            if (!is_free(entry))
                put(&larger, piece_cache_place(entry->key, larger.bits), entry);
        }
    free(cache->buckets);
    *cache = larger;
}

// The piece found is swapped into its own bucket. There is nothing beyond a free entry, since entries are put into the
// first free place and are never freed one by one.
const struct piece_entry *piece_cache_find_next(struct piece_cache *cache, uint32_t place, struct word_key key) {
    struct piece_entry *own = &cache->buckets[place].entries[1];
    if (is_free(own))
        return NULL;
    for (uint32_t steps = 1; steps < PIECE_CACHE_REACH; steps++) {
        struct piece_bucket *bucket = bucket_after(cache, place, steps);
        for (int i = 0; i < 2; i++)
            if (same_key(bucket->entries[i].key, key)) {
                struct piece_entry found = bucket->entries[i];
                bucket->entries[i] = *own;
                *own = found;
                return own;
            }
        if (is_free(&bucket->entries[1]))
            break;
    }
    return NULL;
}

static int32_t spill(struct piece_cache *cache, const int32_t *ids, int64_t count) {
    if (cache->spilled_count + count > cache->spilled_capacity) {
        cache->spilled_capacity = cache->spilled_capacity ? 2 * cache->spilled_capacity : 4096;
        cache->spilled = memory_realloc(cache->spilled, (size_t)cache->spilled_capacity * sizeof *cache->spilled);
    }
    memcpy(cache->spilled + cache->spilled_count, ids, (size_t)count * sizeof *ids);
    cache->spilled_count += count;
    return (int32_t)(cache->spilled_count - count);
}

void piece_cache_add(struct piece_cache *cache, uint32_t place, struct word_key key, const int32_t *ids,
                     int64_t count) {
    struct piece_entry entry = {.key = key, .count = (int32_t)count};
    if (count > PIECE_CACHE_IDS) {
        if (cache->spilled_count + count > PIECE_CACHE_SPILLED) {  // full of ids of entries long gone: start over
            memset(cache->buckets, 0, ((size_t)1 << cache->bits) * sizeof *cache->buckets);
            cache->used = cache->spilled_count = 0;
        }
        entry.ids[0] = spill(cache, ids, count);
    } else {
        memcpy(entry.ids, ids, (size_t)count * sizeof *ids);
    }
    put(cache, place, &entry);
}
