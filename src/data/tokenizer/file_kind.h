// What a tokenizer's file looks like from outside, for messages about the wrong file or the wrong type.
#ifndef DATA_TOKENIZER_FILE_KIND_H
#define DATA_TOKENIZER_FILE_KIND_H

#include "data/tokenizer/tokenizer.h"

// Puts behind the present error what a file of the options looks like and which type reads it, where that is another
// one than the options say. Returns -1.
int file_kind_explain(const char *type, const struct tokenizer_options *options);

#endif
