// Samples of RoBERTa as fairseq makes them: blocks of sentences (text_block.h) after a <s>, in an order drawn anew
// for each epoch, with words masked anew each time a block is seen. The random numbers are those of fairseq 0.12 and
// before, so blocks, masks and their order are the same for the same seed, under a Python of 3.8 or later.
//
// Blocks are sorted by length and dealt into batches of one micro-batch, and the batches are shuffled: a micro-batch
// has blocks of one length and little padding. The last, smaller batch of an epoch is given where fairseq gives it;
// the micro-batches after it then begin inside the batches of fairseq.
#ifndef DATA_SAMPLE_ROBERTA_H
#define DATA_SAMPLE_ROBERTA_H

#include "base/rng.h"
#include "data/sample/text_block.h"
#include "data/sample/source.h"
#include "data/sample/split.h"
#include "data/sample/vocabulary.h"

struct roberta_options {
    const char *prefix;
    const char *split;  // by documents; NULL: the whole dataset
    enum split which;
    enum text_block_mode mode;
    int64_t seq_length;    // --tokens-per-sample, <s> included
    int64_t sample_count;  // samples the source offers, in epochs; 0: one epoch
    int64_t batch_size;    // blocks of similar length that stay together
    int64_t seed;
    double mask_prob, leave_unmasked_prob, random_token_prob;
    bool masks_whole_words;
    bool is_shuffled;                            // false: sorted, as for validation
    const struct sample_vocabulary *vocabulary;  // must outlive the dataset
    const unsigned char *begins_word;            // (vocabulary->size), for masks_whole_words
};

struct roberta_dataset;

int roberta_dataset_open(struct roberta_dataset **dataset, const struct roberta_options *options);
void roberta_dataset_close(struct roberta_dataset *dataset);  // NULL is fine
struct sample_source roberta_dataset_source(struct roberta_dataset *dataset);

// Which block is sample i, and in which epoch, counted from 1.
int64_t roberta_dataset_block(struct roberta_dataset *dataset, int64_t sample, int64_t *epoch);

// Whether tokens begin words, as GPT-2's BPE marks them: by the blank before them. One byte per id; the caller frees.
unsigned char *roberta_word_beginnings(const struct tokenizer *tokenizer);

// The seed that fairseq makes of (seed, epoch, index).
uint32_t roberta_seed(int64_t seed, int64_t epoch, int64_t index);

#endif
