// Three loops over a chunk's pieces, which split_pieces finds: keys and places in the cache, which are prefetched; then
// lookups without a branch that depends on the piece. Each loop takes about ten instructions less than it would if
// mixed with the others, and none waits for memory.
#include "data/tokenizer/piece_encode.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>

// ---- the cache ----

static struct piece_bucket *make_buckets(int bits) {
    return word_cache_buckets(((size_t)1 << bits) * sizeof(struct piece_bucket));
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

// Doubles the table if it is nearly full and may grow. Places found before are then invalid.
static void piece_cache_make_room(struct piece_cache *cache) {
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
static const struct piece_entry *piece_cache_find_next(struct piece_cache *cache, uint32_t place, struct word_key key) {
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

// Stores ids[0…count) for a key that was not found.
static void piece_cache_add(struct piece_cache *cache, uint32_t place, struct word_key key, const int32_t *ids,
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

// ---- encoding ----

// Bytes read for a key; and the most ids that a cached piece has per byte, so that room for its ids needs no check.
enum { LOADED = 16, IDS_PER_BYTE = 2 };

struct word_batch {
    const unsigned char *text;
    size_t length;  // readable bytes
    int count;
    uint32_t ends[SPLIT_MOST];
    struct word_key keys[SPLIT_MOST];
    uint32_t places[SPLIT_MOST];
};

// The part of 16 bytes that belongs to a piece of each length. A piece that is too long gets none of them, and a length
// that no entry has.
#define BYTES(n) (((uint64_t)1 << 8 * (n)) - 1)
#define ALL (~(uint64_t)0)
static const struct word_key key_masks[LOADED + 1] = {
    {0, 0},          {BYTES(1), 0},   {BYTES(2), 0},   {BYTES(3), 0},   {BYTES(4), 0},   {BYTES(5), 0},
    {BYTES(6), 0},   {BYTES(7), 0},   {ALL, 0},        {ALL, BYTES(1)}, {ALL, BYTES(2)}, {ALL, BYTES(3)},
    {ALL, BYTES(4)}, {ALL, BYTES(5)}, {ALL, BYTES(6)}, {ALL, BYTES(7)}, {0, 0},
};

static inline struct word_key key_of(const unsigned char *text, uint32_t length) {
    uint64_t known = length < LOADED ? length : LOADED;
    struct word_key key;
    memcpy(&key, text, sizeof key);
    key.low &= key_masks[known].low;
    key.high = (key.high & key_masks[known].high) | known << 56;
    return key;
}

// Pieces up to `until`, at each of which 16 bytes can be read.
static void find_safe_keys(struct word_batch *batch, const struct piece_cache *cache, int until) {
    const unsigned char *text = batch->text;
    const struct piece_bucket *buckets = cache->buckets;
    const uint32_t *restrict ends = batch->ends;
    struct word_key *restrict keys = batch->keys;
    uint32_t *restrict places = batch->places;
    const int bits = cache->bits;
    uint32_t begin = 0;
    for (int i = 0; i < until; i++) {
        uint32_t end = ends[i];
        struct word_key key = key_of(text + begin, end - begin);
        uint32_t place = piece_cache_place(key, bits);
        keys[i] = key;
        places[i] = place;
        __builtin_prefetch(&buckets[place]);
        begin = end;
    }
}

static void find_keys(struct word_batch *batch, const struct piece_cache *cache) {
    int safe = batch->count;
    while (safe > 0 && (safe > 1 ? batch->ends[safe - 2] : 0) + (size_t)LOADED > batch->length)
        safe--;
    find_safe_keys(batch, cache, safe);
    for (int i = safe; i < batch->count; i++) {  // near the end of the text
        unsigned char bytes[LOADED] = {0};
        uint32_t begin = i > 0 ? batch->ends[i - 1] : 0, length = batch->ends[i] - begin;
        memcpy(bytes, batch->text + begin, length < LOADED ? length : LOADED);
        batch->keys[i] = key_of(bytes, length);
        batch->places[i] = piece_cache_place(batch->keys[i], cache->bits);
    }
}

// Encodes a piece that is not in its own bucket.
static int encode_missing(const struct piece_model *model, struct piece_cache *cache, void *state,
                          const struct word_batch *batch, int i, struct token_list *out) {
    uint32_t begin = i > 0 ? batch->ends[i - 1] : 0, place = batch->places[i];
    size_t length = batch->ends[i] - begin;
    if (length > PIECE_CACHE_MAX_BYTES)
        return model->encode(model->model, state, batch->text + begin, length, out);
    const struct piece_entry *entry = piece_cache_find_next(cache, place, batch->keys[i]);
    if (entry) {
        const int32_t *ids = entry->count > PIECE_CACHE_IDS ? cache->spilled + entry->ids[0] : entry->ids;
        memcpy(out->ids + out->count, ids, (size_t)entry->count * sizeof *ids);
        out->count += entry->count;
        return 0;
    }
    int64_t before = out->count;
    TRY(model->encode(model->model, state, batch->text + begin, length, out));
    if (out->count - before <= IDS_PER_BYTE * (int64_t)length)
        piece_cache_add(cache, place, batch->keys[i], out->ids + before, out->count - before);
    return 0;
}

// Makes room for the ids of all pieces from byte `from` on that are in the cache, and for writing a few too many.
static void make_room(const struct word_batch *batch, uint32_t from, struct token_list *out) {
    uint32_t bytes = batch->ends[batch->count - 1] - from;
    token_list_reserve(out, IDS_PER_BYTE * (int64_t)bytes + PIECE_CACHE_IDS + 1);
}

static int look_up(const struct piece_model *model, struct piece_cache *cache, void *state,
                   const struct word_batch *batch, struct token_list *out) {
    const struct piece_bucket *const buckets = cache->buckets;
    const struct word_key *keys = batch->keys;
    const uint32_t *places = batch->places;
    const int batch_count = batch->count;
    make_room(batch, 0, out);
    int32_t *at = out->ids + out->count;
    for (int i = 0; i < batch_count; i++) {
        const struct piece_bucket *bucket = &buckets[places[i]];
        struct word_key key = keys[i];
        const struct piece_entry *entries = bucket->entries;
        bool is_first = (entries[0].key.low == key.low) & (entries[0].key.high == key.high);
        bool is_second = (entries[1].key.low == key.low) & (entries[1].key.high == key.high);
        const struct piece_entry *entry = &entries[!is_first];
        if (!(is_first | is_second)) {
            out->count = at - out->ids;
            TRY(encode_missing(model, cache, state, batch, i, out));
            make_room(batch, batch->ends[i], out);
            at = out->ids + out->count;
            continue;
        }
        int32_t count = entry->count;
        if (count <= PIECE_CACHE_IDS)
            memcpy(at, entry->ids, sizeof entry->ids + sizeof entry->count);
        else
            memcpy(at, cache->spilled + entry->ids[0], (size_t)count * sizeof *at);
        at += count;
    }
    out->count = at - out->ids;
    return 0;
}

int piece_encode(const struct piece_model *model, struct piece_cache *cache, void *state, const char *text,
                 size_t length, struct token_list *out) {
    struct word_batch batch;  // not zeroed as a whole: for a short text that would take longer than the rest
    unsigned char split = 0;
    batch.text = (const unsigned char *)text;
    batch.length = length;
    while (batch.length > 0) {
        batch.count = split_pieces(model->splitter, batch.text, batch.length, batch.ends, &split);
        uint32_t bytes = batch.ends[batch.count - 1];
        piece_cache_make_room(cache);
        find_keys(&batch, cache);
        TRY(look_up(model, cache, state, &batch, out));
        batch.text += bytes;
        batch.length -= bytes;
    }
    return 0;
}

int piece_state_create(const struct tokenizer *tokenizer, void **opaque) {
    (void)tokenizer;
    struct piece_state *state = memory_alloc(sizeof *state);
    piece_cache_create(&state->cache);
    *opaque = state;
    return 0;
}

void piece_state_free(void *opaque) {
    struct piece_state *state = opaque;
    piece_cache_free(&state->cache);
    merge_scratch_free(&state->merge);
    pattern_scratch_free(&state->pattern);
    free(state);
}
