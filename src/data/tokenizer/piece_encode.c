// Three loops over a chunk's pieces, which split_pieces finds: keys and places in the cache, which are prefetched; then
// lookups without a branch that depends on the piece. Each loop takes about ten instructions less than it would if
// mixed with the others, and none waits for memory.
#include "data/tokenizer/piece_encode.h"
#include "base/error.h"

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
    batch.text = (const unsigned char *)text;
    batch.length = length;
    while (batch.length > 0) {
        batch.count = split_pieces(model->rules, model->table, batch.text, batch.length, batch.ends);
        uint32_t bytes = batch.ends[batch.count - 1];
        piece_cache_make_room(cache);
        find_keys(&batch, cache);
        TRY(look_up(model, cache, state, &batch, out));
        batch.text += bytes;
        batch.length -= bytes;
    }
    return 0;
}
