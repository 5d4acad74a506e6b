// Cutting text into pre-tokens, the pieces inside which BPE merges. A splitter is a function from what is left of the
// text to the length of its first piece; pieces are never empty and together are the text, byte for byte.
#ifndef DATA_TOKENIZER_SPLIT_H
#define DATA_TOKENIZER_SPLIT_H

#include <stddef.h>

// GPT-2's pattern: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// The text must be the whole rest of the document, since a run of blanks is cut by what follows it. length > 0.
// Bytes that are not UTF-8 count as characters that are neither letters, numbers nor blanks. Needs unicode_require.
size_t split_gpt2(const unsigned char *text, size_t length);

#endif
