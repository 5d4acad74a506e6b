// Checks of a run's datasets that nothing else would reveal: that all ranks see the same ones, that they were made with
// the tokenizer of the run, and that their documents end as the flags expect.
#ifndef TRAIN_DATASET_CHECKS_H
#define TRAIN_DATASET_CHECKS_H

#include "config/config.h"
#include "data/index/index.h"
#include "data/tokenizer/tokenizer.h"
#include "parallel/mesh.h"

// Each of the ranks that share a sample reads it by itself. If machines have their own copies and one of them is
// outdated or damaged, the ranks would train on rows that do not belong together. Two checks: one at the start, which
// costs little and finds whatever differs in much of a file, and one before every save, which leaves no doubt about
// what was trained on.

// All ranks of the group call with the same number of prefixes. Returns -1 on all of them if any rank's PREFIX.idx or
// PREFIX.bin differs from the first rank's; the message names the rank and the file. Compares the sizes, all of a file
// up to 32 MiB, and of a larger one a piece of 4 KiB from each 1024th of it, at places that are drawn again at each
// call: a difference that covers one of these parts, as any of two 1024ths does, is always found, another sometimes. A
// file that no rank has is left to whoever opens it.
int same_data_check(struct group *all, const char *const *prefixes, int64_t count);
// All ranks call with the digest of the rows they have taken so far (loader_digest). Returns -1 on all of them if ranks
// that share rows have read different ones; the message names the first that has.
int same_data_check_rows(const struct mesh *mesh, uint64_t digest);

// Whether a dataset was made with the tokenizer of the run. With another one, its ids mean other words: nothing fails,
// and the model learns nonsense. `bevatron preprocess` records its tokenizer beside the dataset; datasets of other
// programs say nothing, and pass.
//
// A tokenizer that does not fit is an error with EXIT_CODE_BAD_DATA, or a warning with --allow-changed-data.
int dataset_tokenizer_check(const struct tokenizer *tokenizer, const struct config *config, const char *const *prefixes,
                            int64_t count);

// Checks whether the documents of a dataset end with the tokenizer's end-of-document token. A dataset of another
// tokenizer trains without an error if all its ids are in the vocabulary, and flags that separate documents have no
// effect on one that was written without the token.
//
// Checks a few documents and logs the result in one line. Never fails.
void document_ends_check(const struct index_reader *reader, const char *prefix, const struct config *config,
                         int32_t eod);

#endif
