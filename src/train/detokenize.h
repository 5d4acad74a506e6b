// WikiText's files have spaces around punctuation (" @-@ ", " , "). Megatron removes them by its own rules before it
// tokenizes such a file, but counts words in the original file. We do the same, to get the same perplexities.
#ifndef TRAIN_DETOKENIZE_H
#define TRAIN_DETOKENIZE_H

#include "base/buffer.h"
#include <stdint.h>

void detokenize_wikitext(struct buffer *text);

// Counts the pieces between single spaces, after removing whitespace at both ends. Line ends belong to the pieces.
int64_t detokenize_count_words(const char *text, size_t length);

#endif
