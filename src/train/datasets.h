// The data of a run: training, validation and test samples as the flags describe them, and loaders over them.
#ifndef TRAIN_DATASETS_H
#define TRAIN_DATASETS_H

#include "config/config.h"
#include "data/index/index.h"
#include "data/loader.h"
#include "data/sample/source.h"
#include "data/sample/gpt.h"
#include "data/sample/split.h"
#include "data/sample/vocabulary.h"
#include "data/tokenizer/tokenizer.h"
#include "parallel/mesh.h"
#include "step/step.h"
#include "train/data_paths.h"
#include "train/text_data.h"

// ---- checks ----

// Checks of a run's datasets that nothing else would reveal: that all ranks see the same ones, that they were made with
// the tokenizer of the run, and that their documents end as the flags expect.

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

// ---- one split ----

// The samples of one split of a run: one dataset or a blend of several, in the form that the model learns from.

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

struct mock_data {
    int64_t vocab_size;
    struct batch_form form;
};

// Sets of samples: the first is for training, the second for validation, the third for test. Further groups of datasets
// for validation and test (--valid-weighted-split-paths) follow.
enum { DATASETS_MOST = SPLIT_COUNT + 2 * WEIGHTED_MOST_GROUPS, DATASETS_TEXT_BYTES = 64 };

struct data_set {
    enum split split;
    int64_t group;
    char text[DATASETS_TEXT_BYTES];  // "validation", "test", followed by the name of the group if there are several
};

struct datasets {
    int count;
    struct data_set sets[DATASETS_MOST];
    struct corpus *corpora[DATASETS_MOST];  // NULL if the split is empty
    struct sample_vocabulary vocabulary;    // for models other than GPT
    unsigned char *begins_word;             // RoBERTa with --mask-whole-words
    struct fim *fims[DATASETS_MOST];        // NULL without --fim-data
    struct mock_data mock;
    struct sample_source sources[DATASETS_MOST];  // count is 0 if there is none
    int32_t eod;
};

// Opens the tokenizer that the flags describe; NULL if --vocab-size or --mock-data makes one unnecessary. Sets
// config->padded_vocab_size.
int datasets_open_tokenizer(struct tokenizer **tokenizer, struct config *config);
struct datasets_options {
    const struct config *config;
    const struct mesh *mesh;
    int local_rank;
    const struct tokenizer *tokenizer;  // NULL if only --vocab-size is known
    const struct text_data *texts;      // datasets made of text; NULL if there are none
    // The run's position: the datasets must suffice from here to its end.
    int64_t iteration, consumed_train_samples, consumed_valid_samples;
};
int datasets_open(struct datasets *datasets, const struct datasets_options *options);
// For evaluation: one epoch of the data of --valid-data-path, or of --data-path (of its validation part if --split is
// given), as the validation split.
int datasets_open_epoch(struct datasets *datasets, const struct datasets_options *options);
void datasets_close(struct datasets *datasets);  // safe on a zeroed one

// A loader for this rank that begins after the given number of consumed samples.
int datasets_loader(struct loader **loader, const struct datasets *datasets, int set, const struct config *config,
                    const struct mesh *mesh, int64_t consumed_samples);
// `count` micro-batches of a loader, in the form that a step takes.
struct step_source datasets_source(struct loader *loader, int64_t count);

// ---- the validation set ----

// The validation set of a run: how much of a text is for it, and how much of it an evaluation reads. A loss over a few
// windows, or over the same ones again and again, is noise.

// If the data is text and --split is not given, chooses shares that give validation ten windows or more; if a tenth
// of the text has fewer, there is no validation, and the log says so. A number of evaluation steps that the run
// chose itself is lowered until an evaluation reads no window twice; if the user's does, a warning says so. A run
// that resumes takes the shares of its checkpoint. All ranks call and choose alike.
int validation_set_settle(struct config *config, const struct text_data *texts, const struct mesh *mesh);

#endif
