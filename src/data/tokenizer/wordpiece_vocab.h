// Reads vocab.txt, one token per line, as Google's and Megatron's code do: a token's id is its line number, from 0;
// spaces around it are ignored; of equal lines the last counts.
#ifndef DATA_TOKENIZER_WORDPIECE_VOCAB_H
#define DATA_TOKENIZER_WORDPIECE_VOCAB_H

#include "data/tokenizer/trie.h"
#include "base/buffer.h"

struct wordpiece_vocab {
    struct trie trie;    // of the lines
    struct buffer text;  // all tokens, one after another
    size_t *begin;       // (size + 1) where each begins in text
    int64_t size;        // highest id + 1
    int64_t capacity;    // of begin
    int64_t distinct;    // Megatron's size: an appended token gets this id
};

// Errors call the text `name`. On error nothing is left to free.
int wordpiece_vocab_parse(struct wordpiece_vocab *vocab, const char *text, size_t length, const char *name);
void wordpiece_vocab_free(struct wordpiece_vocab *vocab);

// The string of an id in [0, size).
const char *wordpiece_vocab_string(const struct wordpiece_vocab *vocab, int32_t id, size_t *length);

// Appends a token that encoding never gives, unless a line has it; returns its id.
int32_t wordpiece_vocab_append(struct wordpiece_vocab *vocab, const char *string);

#endif
