// Splits a text into words, a batch at a time: a word ends where two bytes may be separated, according to a table of
// all pairs. The table is read for 64 places in a row without a branch. Each word of a batch gets its key and its
// bucket in the cache, which is prefetched meanwhile: finding the words costs less than looking them up one by one
// would.
#ifndef DATA_TOKENIZER_SPM_WORDS_H
#define DATA_TOKENIZER_SPM_WORDS_H

#include "data/tokenizer/word_cache.h"
#include <stdbool.h>

// A batch takes blocks until it has SPM_BATCH words, enough to hide the latency of memory.
enum { SPM_PAIRS = 1 << 16, SPM_BLOCK = 64, SPM_BATCH = 64 };

// The index of the pair "a, then b" in a table of SPM_PAIRS.
static inline size_t spm_pair_index(unsigned char a, unsigned char b) {
    return a | (size_t)b << 8;
}

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

// A reader of text[0…length), which must outlive it.
void spm_words_init(struct spm_words *words, const char *text, size_t length);
// Fills the batch; false, with an empty batch, at the end.
bool spm_words_next(struct spm_words *words);

#endif
