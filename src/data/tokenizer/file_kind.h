// Recognizes the kind of a tokenizer's file, for messages about the wrong file or the wrong type.
#ifndef DATA_TOKENIZER_FILE_KIND_H
#define DATA_TOKENIZER_FILE_KIND_H

#include "data/tokenizer/tokenizer.h"

// If a file in the options belongs to another type than the given one, appends its apparent kind and the type that
// reads it to the current error. Returns -1.
int file_kind_explain(const char *type, const struct tokenizer_options *options);

#endif
