// The data of a run: training, validation and test samples as the flags describe them, and loaders over them.
#ifndef TRAIN_DATASETS_H
#define TRAIN_DATASETS_H

#include "config/config.h"
#include "data/loader.h"
#include "data/sample/source.h"
#include "data/sample/gpt.h"
#include "data/sample/split.h"
#include "data/tokenizer/tokenizer.h"
#include "parallel/mesh.h"
#include "step/step.h"
#include "train/corpus.h"

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

#endif
