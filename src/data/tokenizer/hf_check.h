// Proof that a tokenizer.json says what the tokenizer does.
#ifndef DATA_TOKENIZER_HF_CHECK_H
#define DATA_TOKENIZER_HF_CHECK_H

#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/tokenizer.h"

// Reads the text of a tokenizer.json and compares the ids of a list of strings, which has rare characters and some of
// the tokenizer's own tokens. An error names the first string that differs.
int hf_check(const struct tokenizer *tokenizer, const struct hf_parts *parts, const struct buffer *json);

#endif
