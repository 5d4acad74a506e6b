// Samples of RoBERTa as fairseq makes them: blocks of sentences after a <s>, in a new order for each
// epoch, with new masks each time a block is seen. The random numbers are those of fairseq up to 0.12 under Python 3.8
// or later, so the same seed gives the same blocks, masks and order.
//
// Blocks are sorted by length and grouped into batches of one micro-batch, and the batches are shuffled: a micro-batch
// has blocks of similar length and little padding. The last, smaller batch of an epoch comes where fairseq puts it; the
// micro-batches after it are then offset from fairseq's batches.
#ifndef DATA_SAMPLE_ROBERTA_H
#define DATA_SAMPLE_ROBERTA_H

#include "base/rng.h"
#include "data/index/index.h"
#include "data/sample/source.h"
#include "data/sample/split.h"
#include "data/sample/vocabulary.h"

// Runs of whole sentences, as fairseq's TokenBlockDataset cuts a stream of them:
//
//   none          every block has `size` tokens; sentences may be cut
//   complete      as many whole sentences as fit; a longer one is a block by itself
//   complete_doc  the same, but a block ends at a document's end, which is a sentence of one token (</s>)
//   eos           each sentence by itself
//
// Sentences are the sequences of the index and include their </s>.
enum text_block_mode { BLOCK_NONE, BLOCK_COMPLETE, BLOCK_COMPLETE_DOC, BLOCK_EOS };

int text_block_mode_parse(enum text_block_mode *mode, const char *name);

struct text_block {
    int64_t sequence;  // where it begins
    int32_t offset;    // tokens of that sequence before it
    int32_t length;    // tokens
};

struct text_block_list {
    struct text_block *blocks;
    int64_t count, capacity;
};

struct text_block_options {
    int64_t begin, end;  // sequences
    enum text_block_mode mode;
    int64_t size;  // tokens
};

int text_block_list_make(struct text_block_list *list, const struct index_reader *reader,
                         const struct text_block_options *options);
void text_block_list_free(struct text_block_list *list);  // a zeroed one is fine

struct roberta_options {
    const char *prefix;
    const char *split;  // by documents; NULL: the whole dataset
    enum split which;
    enum text_block_mode mode;
    int64_t seq_length;    // --tokens-per-sample, including <s>
    int64_t sample_count;  // samples that the source offers, over several epochs; 0: one epoch
    int64_t batch_size;    // blocks of similar length that are kept together
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

// The block of sample i, and its epoch, counted from 1.
int64_t roberta_dataset_block(struct roberta_dataset *dataset, int64_t sample, int64_t *epoch);

// Whether tokens begin words, which GPT-2's BPE marks by a leading space. One byte per id; the caller frees it.
unsigned char *roberta_word_beginnings(const struct tokenizer *tokenizer);

// The seed that fairseq derives from (seed, epoch, index).
uint32_t roberta_seed(int64_t seed, int64_t epoch, int64_t index);

#endif
