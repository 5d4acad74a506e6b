// The identity of a tokenizer: two with the same identity give the same ids.
#ifndef DATA_TOKENIZER_IDENTITY_H
#define DATA_TOKENIZER_IDENTITY_H

#include "data/tokenizer/tokenizer.h"

// Appends a line for every option that ids depend on. Files count by content, so that a copy elsewhere is the same.
void tokenizer_describe(struct buffer *out, const struct tokenizer_options *options);

// SHA-256 of the texts of the first `count` tokens, whichever files they come from. Further tokens after them do not
// change it.
void tokenizer_digest(const struct tokenizer *tokenizer, int64_t count, char hex[65]);
// A dataset's record of its tokenizer: "COUNT SHA-256"; "" for NullTokenizer, which has no texts.
enum { TOKENIZER_RECORD = 96 };
void tokenizer_record(const struct tokenizer *tokenizer, char record[TOKENIZER_RECORD]);
// Whether the tokenizer gives the ids of a dataset with that record their meaning; true if either says nothing.
bool tokenizer_fits(const struct tokenizer *tokenizer, const char *record);

#endif
