// What distinguishes tokenizers: two with the same identity give the same ids.
#ifndef DATA_TOKENIZER_IDENTITY_H
#define DATA_TOKENIZER_IDENTITY_H

#include "data/tokenizer/tokenizer.h"

// Appends a line for every option that ids depend on. Files count by content, so that a copy elsewhere is the same.
void tokenizer_describe(struct buffer *out, const struct tokenizer_options *options);

#endif
