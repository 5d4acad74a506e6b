// Splits a text into words. See spm_words.h.
#include "data/tokenizer/spm_words.h"

void spm_words_init(struct spm_words *words, const char *text, size_t length) {
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

bool spm_words_next(struct spm_words *words) {
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
