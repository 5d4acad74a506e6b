// Special ids of a vocabulary, and which tokens continue a word, for datasets with masked words. Taken from a
// tokenizer; missing ids are -1.
#ifndef DATA_SAMPLE_VOCABULARY_H
#define DATA_SAMPLE_VOCABULARY_H

#include "data/tokenizer/tokenizer.h"
#include <stdbool.h>
#include <stdint.h>

struct sample_vocabulary {
    int64_t size;      // all ids are below it; random replacements are drawn from all of them
    int32_t cls, sep;  // around sentences
    int32_t mask, pad;
    int32_t bos, eos;          // of a decoder's text
    int64_t sentinel_count;    // <extra_id_0>, …
    int32_t *sentinels;        // (sentinel_count)
    unsigned char *continues;  // (size) 1 if the token continues the word before it (##ing)
};

void sample_vocabulary_make(struct sample_vocabulary *vocabulary, const struct tokenizer *tokenizer);
void sample_vocabulary_free(struct sample_vocabulary *vocabulary);  // a zeroed one is fine

#endif
