// WikiText's files have blanks around punctuation (" @-@ ", " , "). Megatron takes them back, in a way of its own,
// before it tokenizes such a file, and counts words in the file as it was; so do we, to give the same perplexities.
#ifndef TRAIN_DETOKENIZE_H
#define TRAIN_DETOKENIZE_H

#include "base/buffer.h"
#include <stdint.h>

void detokenize_wikitext(struct buffer *text);

// Pieces between single blanks, line ends being part of them, after whitespace at both ends was taken off.
int64_t detokenize_count_words(const char *text, size_t length);

#endif
