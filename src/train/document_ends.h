// Checks whether the documents of a dataset end with the tokenizer's end-of-document token. A dataset of another
// tokenizer trains without an error if all its ids are in the vocabulary, and flags that separate documents have no
// effect on one that was written without the token.
#ifndef TRAIN_DOCUMENT_ENDS_H
#define TRAIN_DOCUMENT_ENDS_H

#include "config/config.h"
#include "data/index/index.h"

// Checks a few documents and logs the result in one line. Never fails.
void document_ends_check(const struct index_reader *reader, const char *prefix, const struct config *config,
                         int32_t eod);

#endif
