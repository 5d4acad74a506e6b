// Where a UTF-8 character ends according to its first byte, as in SentencePiece, even if the rest is missing.
#ifndef DATA_TOKENIZER_CHARACTER_H
#define DATA_TOKENIZER_CHARACTER_H

#include <stdbool.h>
#include <stddef.h>

// Bytes of the character that begins with `first`; `left` (at least 1) bytes are available.
static inline size_t character_bytes(unsigned char first, size_t left) {
    size_t bytes = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    return bytes < left ? bytes : left;
}

#endif
