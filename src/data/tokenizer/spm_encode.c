// Encodes with a SentencePiece model: text to words, words to ids, with a cache of short words (word_cache.h).
//
// In a unigram model the library sums scores from the beginning of the text in single precision, so rounding decides
// between near equals, and the ids of a word depend on its position. We keep the same sum. A word is cached with the
// largest sum up to which rounding cannot change its ids: each of at most n additions errs by at most 2^-24 of a sum
// below M, so two segmentations of n bytes keep their order if they are more than 2 n M 2^-24 apart. Beyond that sum,
// or if the library might subtract the sum within the word (see unigram.h), it is encoded again with the same rounding.
#include "data/tokenizer/spm_model.h"
#include "data/tokenizer/word_cache.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

// ---- words ----

// A text is split into words, a batch at a time: a word ends where two bytes may be separated, according to the model's
// table of all pairs. The table is read for 64 places in a row without a branch. Each word of a batch gets its key and
// its bucket in the cache, which is prefetched meanwhile: finding the words costs less than looking them up one by one
// would. A batch takes blocks until it has SPM_BATCH words, enough to hide the latency of memory.
enum { SPM_BLOCK = 64, SPM_BATCH = 64 };

struct spm_word {
    const unsigned char *text;
    size_t length;
    struct word_key key;         // up to WORD_CACHE_MAX_BYTES
    struct word_bucket *bucket;  // NULL for longer ones
};

struct spm_words {
    const unsigned char *text;
    size_t length;
    const unsigned char *is_cut;  // (SPM_PAIRS) 1 if a word may end between the two
    const struct word_cache *cache;
    size_t begin;  // of the word not delivered yet
    size_t at;     // the next place to check: before text[at]
    struct spm_word batch[SPM_BATCH + SPM_BLOCK];
    int count;
};

// Begins with text[0…length), which must outlive the words.
static void spm_words_init(struct spm_words *words, const char *text, size_t length) {
    words->text = (const unsigned char *)text;
    words->length = length;
    words->begin = 0;
    words->at = 1;
}

static inline uint64_t cut_at(const unsigned char *is_cut, const unsigned char *text) {
    uint16_t pair;
    memcpy(&pair, text - 1, sizeof pair);  // little-endian: the byte before is the low one
    return is_cut[pair];
}

// Bit i is set if a word may end before text[i]; text[-1] and text[0…64) are readable.
static uint64_t cuts_in_block(const unsigned char *is_cut, const unsigned char *text) {
    uint64_t cuts = 0;
    for (int i = 0; i < SPM_BLOCK; i += 8) {
        uint64_t eight = cut_at(is_cut, text + i) | cut_at(is_cut, text + i + 1) << 1 |
                         cut_at(is_cut, text + i + 2) << 2 | cut_at(is_cut, text + i + 3) << 3 |
                         cut_at(is_cut, text + i + 4) << 4 | cut_at(is_cut, text + i + 5) << 5 |
                         cut_at(is_cut, text + i + 6) << 6 | cut_at(is_cut, text + i + 7) << 7;
        cuts |= eight << i;
    }
    return cuts;
}

// The key of a short word with 16 readable bytes, same as word_key_of but without a branch.
static inline struct word_key key_of_short(const unsigned char *text, size_t length) {
    static const uint64_t low[9] = {
        0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFF, 0xFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF};
    struct word_key key;
    memcpy(&key, text, sizeof key);
    key.low &= low[length < 8 ? length : 8];
    key.high = (key.high & low[length > 8 ? length - 8 : 0]) | (uint64_t)length << 56;
    return key;
}

static inline void add_word(struct spm_words *words, size_t end) {
    struct spm_word *word = &words->batch[words->count++];
    word->text = words->text + words->begin;
    word->length = end - words->begin;
    word->bucket = NULL;
    if (word->length <= WORD_CACHE_MAX_BYTES) {
        size_t readable = words->length - words->begin;
        word->key = readable >= sizeof word->key ? key_of_short(word->text, word->length)
                                                 : word_key_of(word->text, word->length, readable);
        word->bucket = word_cache_bucket(words->cache, word->key);
        __builtin_prefetch(word->bucket);
    }
    words->begin = end;
}

// Fills the batch; false, with an empty batch, at the end.
static bool spm_words_next(struct spm_words *words) {
    words->count = 0;
    while (words->count < SPM_BATCH && words->at + SPM_BLOCK <= words->length) {
        uint64_t cuts = cuts_in_block(words->is_cut, words->text + words->at);
        for (; cuts; cuts &= cuts - 1)
            add_word(words, words->at + (size_t)__builtin_ctzll(cuts));
        words->at += SPM_BLOCK;
    }
    if (words->count >= SPM_BATCH)
        return true;
    for (; words->at < words->length; words->at++)
        if (cut_at(words->is_cut, words->text + words->at))
            add_word(words, words->at);
    if (words->begin < words->length)
        add_word(words, words->length);
    return words->count > 0;
}

// ---- the encoder ----

// A unigram model stores the largest sum in place of the last id of a cache entry.
enum { UNIGRAM_IDS = WORD_CACHE_MAX_IDS - 1 };

struct spm_encoder {
    const struct spm_model *model;
    struct word_cache cache;
    struct spm_words words;
    struct buffer normalised;  // the text, if it needs normalizing
    struct buffer word;        // one word, if it needs folding
    struct token_list ids;     // of one word
    struct spm_bpe_scratch bpe;
    struct unigram_scratch unigram;
    float sum;      // of the scores so far
    int64_t begin;  // ids in the list before this text
};

struct spm_encoder *spm_encoder_create(const struct spm_model *model) {
    struct spm_encoder *encoder = memory_alloc(sizeof *encoder);
    encoder->model = model;
    word_cache_create(&encoder->cache);
    encoder->words.is_cut = model->cuts;
    encoder->words.cache = &encoder->cache;
    return encoder;
}

void spm_encoder_free(struct spm_encoder *encoder) {
    if (!encoder)
        return;
    word_cache_free(&encoder->cache);
    buffer_free(&encoder->normalised);
    buffer_free(&encoder->word);
    token_list_free(&encoder->ids);
    spm_bpe_scratch_free(&encoder->bpe);
    unigram_scratch_free(&encoder->unigram);
    free(encoder);
}

// ---- from pieces to ids ----

static void append_bytes(const struct spm_model *model, const char *text, size_t length, struct token_list *ids) {
    const char *const space = SPM_SPACE;
    bool unfolds = model->file.normaliser.escape_whitespaces;
    for (size_t i = 0; i < length; i++) {
        if (unfolds && text[i] == ' ')
            for (int k = 0; k < SPM_SPACE_BYTES; k++)
                token_list_append(ids, model->byte_ids[(unsigned char)space[k]]);
        else
            token_list_append(ids, model->byte_ids[(unsigned char)text[i]]);
    }
}

// Adds one piece to the ids of a word. A run of unknown pieces is one id.
static void add_piece(struct spm_encoder *encoder, int32_t id, const char *text, int32_t length) {
    const struct spm_model *model = encoder->model;
    struct token_list *ids = &encoder->ids;
    if (id == model->unknown_id && model->file.byte_fallback)
        append_bytes(model, text, (size_t)length, ids);
    else if (id != model->unknown_id || ids->count == 0 || ids->ids[ids->count - 1] != id)
        token_list_append(ids, id);
}

// Appends the ids of a word to those of the text, in which a run of unknown pieces can continue.
static void append_word(const struct spm_encoder *encoder, const int32_t *ids, int64_t count, struct token_list *out) {
    const struct spm_model *model = encoder->model;
    int64_t first = count > 0 && ids[0] == model->unknown_id && !model->file.byte_fallback &&
                    out->count > encoder->begin && out->ids[out->count - 1] == ids[0];
    if (out->count + count > out->capacity)
        token_list_reserve(out, count);
    for (int64_t i = first; i < count; i++)
        out->ids[out->count++] = ids[i];
}

// ---- words of a BPE model ----

// The entry of a word, NULL if there is none. The most recently used of a bucket's two entries is kept first, so that a
// new word replaces the other.
static inline const struct word_entry *find_entry(const struct spm_word *word) {
    if (!word->bucket)
        return NULL;
    struct word_entry *entries = word->bucket->entries;
    if (entries[0].key.low == word->key.low && entries[0].key.high == word->key.high)
        return entries;
    if (entries[1].key.low != word->key.low || entries[1].key.high != word->key.high)
        return NULL;
    struct word_entry other = entries[0];
    entries[0] = entries[1];
    entries[1] = other;
    return entries;
}

// A word of original text may contain U+2581, which becomes a space.
static struct spm_text folded_word(struct spm_encoder *encoder, const unsigned char *text, size_t length) {
    struct spm_text word = {(const char *)text, length};
    if (encoder->model->is_raw && memchr(text, SPM_SPACE[0], length)) {
        buffer_clear(&encoder->word);
        spm_fold(word.data, length, &encoder->word);
        word = (struct spm_text){encoder->word.data, encoder->word.length};
    }
    return word;
}

static void encode_bpe_word(struct spm_encoder *encoder, const unsigned char *text, size_t length) {
    struct spm_text word = folded_word(encoder, text, length);
    spm_bpe_encode(&encoder->model->bpe, &encoder->bpe, word.data, word.length);
    encoder->ids.count = 0;
    for (int64_t i = 0; i < encoder->bpe.count; i++) {
        add_piece(encoder, encoder->bpe.symbols[i].id, word.data, encoder->bpe.symbols[i].length);
        word.data += encoder->bpe.symbols[i].length;
    }
}

static void append_new_bpe_word(struct spm_encoder *encoder, const struct spm_word *word, struct token_list *out) {
    encode_bpe_word(encoder, word->text, word->length);
    append_word(encoder, encoder->ids.ids, encoder->ids.count, out);
    if (word->bucket)
        word_cache_add(word->bucket, word->key, encoder->ids.ids, encoder->ids.count);
}

// With byte fallback there are no unknown pieces to join, and four ids can be copied unconditionally.
static void append_bpe_batch(struct spm_encoder *encoder, struct token_list *out) {
    bool has_unknown = !encoder->model->file.byte_fallback;
    const struct spm_words *words = &encoder->words;
    for (int i = 0; i < words->count; i++) {
        const struct spm_word *word = &words->batch[i];
        const struct word_entry *entry = find_entry(word);
        if (!entry) {
            append_new_bpe_word(encoder, word, out);
            continue;
        }
        int64_t count = 1 + (entry->ids[1] >= 0) + (entry->ids[2] >= 0) + (entry->ids[3] >= 0);
        if (has_unknown) {
            append_word(encoder, entry->ids, count, out);
            continue;
        }
        if (out->count + WORD_CACHE_MAX_IDS > out->capacity)
            token_list_reserve(out, WORD_CACHE_MAX_IDS);
        memcpy(out->ids + out->count, entry->ids, sizeof entry->ids);
        out->count += count;
    }
}

static void encode_bpe_words(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *out) {
    if (!encoder->model->is_cut) {
        append_new_bpe_word(encoder, &(struct spm_word){.text = (const unsigned char *)text, .length = length}, out);
        return;
    }
    spm_words_init(&encoder->words, text, length);
    while (spm_words_next(&encoder->words))
        append_bpe_batch(encoder, out);
}

// ---- words of a unigram model ----

static void take_unigram_pieces(struct spm_encoder *encoder, const char *text) {
    encoder->ids.count = 0;
    for (int64_t i = 0; i < encoder->unigram.count; i++) {
        add_piece(encoder, encoder->unigram.pieces[i].id, text, encoder->unigram.pieces[i].length);
        text += encoder->unigram.pieces[i].length;
    }
}

static void encode_unigram_word(struct spm_encoder *encoder, const unsigned char *text, size_t length,
                                struct token_list *out) {
    struct spm_text word = folded_word(encoder, text, length);
    encoder->sum =
        unigram_best_rounded(&encoder->model->unigram, &encoder->unigram, word.data, word.length, encoder->sum);
    take_unigram_pieces(encoder, word.data);
    append_word(encoder, encoder->ids.ids, encoder->ids.count, out);
}

static float largest_sum(const struct spm_model *model, double margin, size_t length) {
    double n = (double)length + 2, reach = n * model->most_score;
    return (float)(fmin(0.5 * margin * 0x1p23 / n, UNIGRAM_LARGEST_SUM) - reach);
}

// Encodes a short word regardless of the sum, and caches it. A word with too many ids, or with an unknown piece, which
// has no score of its own, is cached so that no sum is small enough for it.
static void learn_unigram_word(struct spm_encoder *encoder, const struct spm_word *word) {
    struct spm_text text = folded_word(encoder, word->text, word->length);
    double margin = unigram_best(&encoder->model->unigram, &encoder->unigram, text.data, text.length);
    float largest = largest_sum(encoder->model, margin, text.length);
    int32_t ids[WORD_CACHE_MAX_IDS] = {-1, -1, -1, -1};
    for (int64_t i = 0; i < encoder->unigram.count; i++) {
        if (i == UNIGRAM_IDS || encoder->unigram.pieces[i].id == encoder->model->unknown_id) {
            largest = -1;
            break;
        }
        ids[i] = encoder->unigram.pieces[i].id;
    }
    memcpy(&ids[UNIGRAM_IDS], &largest, sizeof largest);
    word_cache_add(word->bucket, word->key, ids, WORD_CACHE_MAX_IDS);
}

// Appends a cached word; false if the sum has grown too large for it.
static bool append_unigram_entry(struct spm_encoder *encoder, const struct word_entry *entry, struct token_list *out) {
    float largest;
    memcpy(&largest, &entry->ids[UNIGRAM_IDS], sizeof largest);
    if (!(fabsf(encoder->sum) <= largest))
        return false;
    if (out->count + UNIGRAM_IDS > out->capacity)
        token_list_reserve(out, UNIGRAM_IDS);
    const double *scores = encoder->model->unigram.scores;
    for (int i = 0; i < UNIGRAM_IDS && entry->ids[i] >= 0; i++) {
        out->ids[out->count++] = entry->ids[i];
        encoder->sum = unigram_add(encoder->sum, scores[entry->ids[i]]);
    }
    return true;
}

static void append_unigram_word(struct spm_encoder *encoder, const struct spm_word *word, struct token_list *out) {
    const struct word_entry *entry = find_entry(word);
    if (!entry && word->bucket) {
        learn_unigram_word(encoder, word);
        entry = find_entry(word);
    }
    if (entry && append_unigram_entry(encoder, entry, out))
        return;
    encode_unigram_word(encoder, word->text, word->length, out);
}

static void encode_unigram_words(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *out) {
    spm_words_init(&encoder->words, text, length);
    while (spm_words_next(&encoder->words))
        for (int i = 0; i < encoder->words.count; i++)
            append_unigram_word(encoder, &encoder->words.batch[i], out);
}

// ---- models of characters and of words ----

static size_t character_or_symbol(const struct spm_model *model, const char *text, size_t length) {
    struct trie_match symbol = spm_match_user_defined(&model->user_defined, text, length);
    return symbol.length > 0 ? symbol.length : character_bytes((unsigned char)text[0], length);
}

// A word extends up to the next space (which begins the next one).
static size_t word_bytes(const struct spm_model *model, const char *text, size_t length) {
    bool folds = model->file.normaliser.escape_whitespaces;
    size_t mark_bytes = folds ? 1 : SPM_SPACE_BYTES;
    for (size_t i = 1; i + mark_bytes <= length; i++)
        if (memcmp(text + i, folds ? " " : SPM_SPACE, mark_bytes) == 0)
            return i;
    return length;
}

static void encode_whole(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *out) {
    const struct spm_model *model = encoder->model;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        bytes = model->file.model_type == SPM_CHAR ? character_or_symbol(model, text + at, length - at)
                                                   : word_bytes(model, text + at, length - at);
        int32_t id = trie_find(&model->whole, text + at, bytes);
        encoder->ids.count = 0;
        add_piece(encoder, id >= 0 ? id : model->unknown_id, text + at, (int32_t)bytes);
        append_word(encoder, encoder->ids.ids, encoder->ids.count, out);
    }
}

// ---- texts ----

static void encode_words(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *out) {
    if (encoder->model->file.model_type == SPM_UNIGRAM)
        encode_unigram_words(encoder, text, length, out);
    else if (encoder->model->file.model_type == SPM_BPE)
        encode_bpe_words(encoder, text, length, out);
    else
        encode_whole(encoder, text, length, out);
}

// Text that needs no normalizer is encoded in place, after the dummy space was put before its first word.
static void encode_raw(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *out) {
    const struct spm_model *model = encoder->model;
    const unsigned char *bytes = (const unsigned char *)text;
    size_t first = 0;
    if (model->file.normaliser.add_dummy_prefix) {
        unsigned char before = ' ';
        for (; first < length && !model->cuts[spm_pair_index(before, bytes[first])]; first++)
            before = bytes[first];
        buffer_clear(&encoder->normalised);
        buffer_append_byte(&encoder->normalised, ' ');
        buffer_append(&encoder->normalised, text, first);
        encode_words(encoder, encoder->normalised.data, encoder->normalised.length, out);
    }
    encode_words(encoder, text + first, length - first, out);
}

static int too_long(size_t length) {
    return error_set_code(EXIT_CODE_BAD_DATA, "a text of %zu bytes is too long for SentencePiece; split it", length);
}

int spm_encode(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *out) {
    const struct spm_model *model = encoder->model;
    if (length == 0)
        return 0;
    if (length >= INT32_MAX)
        return too_long(length);
    encoder->sum = 0;
    encoder->begin = out->count;
    if (model->is_raw && utf8_check(text, length) == length) {
        encode_raw(encoder, text, length, out);
    } else {
        buffer_clear(&encoder->normalised);
        spm_normalise(&model->normaliser, text, length, &encoder->normalised);
        if (encoder->normalised.length >= INT32_MAX)
            return too_long(encoder->normalised.length);
        encode_words(encoder, encoder->normalised.data, encoder->normalised.length, out);
    }
    return 0;
}
