// Dictionaries of fairseq: a text file of "SYMBOL COUNT" lines. Ids are <s> 0, <pad> 1, </s> 2, <unk> 3, then the lines
// in order. A symbol is a word or, for RoBERTa, an id of GPT-2's BPE in decimal.
#ifndef DATA_TOKENIZER_FAIRSEQ_H
#define DATA_TOKENIZER_FAIRSEQ_H

#include "base/buffer.h"
#include "data/tokenizer/bpe.h"
#include <stdbool.h>

enum { FAIRSEQ_BOS, FAIRSEQ_PAD, FAIRSEQ_EOS, FAIRSEQ_UNK, FAIRSEQ_SPECIALS };

// Whether a file begins like a dictionary: with a word and a count.
bool fairseq_dictionary_begins(const char *begin, size_t length);
// Of equal symbols the last counts. Errors call the text `name`. On error nothing is left to free.
int fairseq_dictionary_parse(struct vocabulary *dictionary, const char *text, size_t length, const char *name);
// The id of a symbol, FAIRSEQ_UNK if there is none.
int32_t fairseq_dictionary_find(const struct vocabulary *dictionary, const char *symbol, size_t length);

// Counts the words of a text.
void fairseq_count_words(struct byte_table *words, const char *text, size_t length);

struct fairseq_build {
    int64_t threshold;   // rarer words are left out
    int64_t most_words;  // including special symbols; 0: all
    int64_t multiple;    // padded with "madeupword0000"… to a size that is a multiple of this; 0 or 1: no padding
};
// The text of dict.txt as fairseq-preprocess writes it: by count, ties by their bytes.
void fairseq_build_dictionary(const struct byte_table *words, const struct fairseq_build *build, struct buffer *out);

#endif
