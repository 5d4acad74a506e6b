// Is a list of tokens whole? A rank file, vocab.txt or dict.txt says nowhere how long it is, so one that was cut while
// it was copied looks like a smaller one. Two things give it away: a last line without an end, and, for the files that
// everybody downloads, a beginning that is known to go on.
#ifndef DATA_TOKENIZER_WHOLE_H
#define DATA_TOKENIZER_WHOLE_H

#include <stddef.h>
#include <stdint.h>

// A file that ends inside a line may be cut there, which nothing else would show: it is an error.
int whole_check_end(const char *text, size_t length, const char *name);
// A text that is the beginning of a known file, and not all of it, is an error, unless its number of lines is what the
// user has said by --vocab-size.
int whole_check_known(const char *text, size_t length, const char *name, int64_t vocab_size);

#endif
