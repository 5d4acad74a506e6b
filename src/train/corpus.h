// The samples of one split of a run: one dataset or a blend of several, in the form that the model learns from.
#ifndef TRAIN_CORPUS_H
#define TRAIN_CORPUS_H

#include "config/config.h"
#include "data/sample/source.h"
#include "data/sample/split.h"
#include "data/sample/vocabulary.h"
#include "parallel/mesh.h"
#include "train/data_paths.h"
#include "train/text_data.h"

// The rank that opens a corpus. Its place decides whether it builds index files that are missing.
struct corpus_place {
    const struct mesh *mesh;
    int local_rank;
};

struct corpus_options {
    const struct config *config;
    struct corpus_place place;
    const struct text_data *texts;      // datasets made of text; NULL if there are none
    const struct tokenizer *tokenizer;  // NULL if only --vocab-size is known
    int64_t vocab_size;
    int32_t eod;                                 // the tokenizer's end-of-document token; -1 for none
    const struct sample_vocabulary *vocabulary;  // for all models but GPT; must outlive the corpus, as must the next
    const unsigned char *begins_word;            // RoBERTa with --mask-whole-words
    enum split which;
    int64_t group;         // of datasets for this split, see data_paths.h
    int64_t sample_count;  // number of samples that the run needs
    bool is_epoch;         // exactly one epoch, however many samples that is
    bool is_needed;        // a split without data is an error
};

struct corpus;

// *corpus is NULL if the flags name no data for the split, or leave nothing for it. Shares may leave nothing of a small
// dataset for validation or test, but not for training or an evaluation of one epoch: that is an error.
int corpus_open(struct corpus **corpus, const struct corpus_options *options);
// A quick check that builds and keeps nothing: finds data that is missing, damaged or empty for the split before
// minutes are spent on the index of another split. All ranks call; they agree on the result.
int corpus_check(const struct corpus_options *options);
void corpus_close(struct corpus *corpus);  // NULL is fine
struct sample_source corpus_source(const struct corpus *corpus);

#endif
