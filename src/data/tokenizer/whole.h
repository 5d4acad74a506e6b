// Is a list of tokens complete? A rank file, vocab.txt or dict.txt does not say how long it is, so one truncated while
// copying looks like a smaller one. Two things reveal it: a last line without a line end, and, for files that everybody
// downloads, a known beginning of a longer file.
#ifndef DATA_TOKENIZER_WHOLE_H
#define DATA_TOKENIZER_WHOLE_H

#include <stddef.h>
#include <stdint.h>

// A file that ends inside a line may be truncated there, which nothing else would show: it is an error.
int whole_check_end(const char *text, size_t length, const char *name);
// A text that is the beginning of a longer known file is an error, unless its number of lines equals --vocab-size.
int whole_check_known(const char *text, size_t length, const char *name, int64_t vocab_size);

#endif
