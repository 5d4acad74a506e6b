// Whether a dataset was made with the tokenizer of the run. With another one, its ids mean other words: nothing fails,
// and the model learns nonsense. `bevatron preprocess` records its tokenizer beside the dataset; datasets of other
// programs say nothing, and pass.
#ifndef TRAIN_DATASET_TOKENIZER_H
#define TRAIN_DATASET_TOKENIZER_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"

// A tokenizer that does not fit is an error with EXIT_CODE_BAD_DATA, or a warning with --allow-changed-data.
int dataset_tokenizer_check(const struct tokenizer *tokenizer, const struct config *config, const char *const *prefixes,
                            int64_t count);

#endif
