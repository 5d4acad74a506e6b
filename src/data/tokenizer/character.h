// Where a character of UTF-8 ends, by its first byte alone: what SentencePiece goes by, also where the rest is missing.
#ifndef DATA_TOKENIZER_CHARACTER_H
#define DATA_TOKENIZER_CHARACTER_H

#include <stdbool.h>
#include <stddef.h>

// Bytes of the character that begins with `first`, of which `left` (at least 1) are there.
static inline size_t character_bytes(unsigned char first, size_t left) {
    size_t bytes = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    return bytes < left ? bytes : left;
}

#endif
