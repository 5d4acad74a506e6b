// WikiText's files have spaces around punctuation (" @-@ ", " , "). Megatron removes them by its own rules before it
// tokenizes such a file, but counts words in the original file. We do the same, to get the same perplexities.
#ifndef EVALUATE_DETOKENIZE_H
#define EVALUATE_DETOKENIZE_H

#include "base/buffer.h"
#include <stdint.h>

// Whitespace is what Python's \s and strip() take for it. The first character of [at, end) after it; the end of [begin,
// end) before it.
const char *text_skip_spaces(const char *at, const char *end);
const char *text_trim_end(const char *begin, const char *end);
// Like Python's str.replace.
void text_replace_all(struct buffer *text, const char *from, const char *to);

void detokenize_wikitext(struct buffer *text);

// Counts the pieces between single spaces, after removing whitespace at both ends. Line ends belong to the pieces.
int64_t detokenize_count_words(const char *text, size_t length);

#endif
