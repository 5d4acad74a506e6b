// Samples of BERT and T5 from one indexed dataset whose sequences are sentences (preprocess --split-sentences), in the
// order and with the random numbers of Megatron's BERTMaskedWordPieceDataset and T5MaskedWordPieceDataset: sample i is
// made by a generator of its own, seeded with seed + i.
//
// BERT: [CLS] A [SEP] B [SEP], where A and B are consecutive sentences or, half of the time, the two swapped. T5: the
// text with spans replaced by sentinels for the encoder, the spans behind their sentinels for the decoder.
//
// As with gpt.h, sentence_dataset_build makes the index files and sentence_dataset_open maps and proves them.
#ifndef DATA_SAMPLE_SENTENCE_H
#define DATA_SAMPLE_SENTENCE_H

#include "data/index/index.h"
#include "data/sample/npy.h"
#include "data/sample/source.h"
#include "data/sample/split.h"
#include "data/sample/word_mask.h"

enum sentence_kind { SENTENCE_BERT, SENTENCE_T5 };

struct sentence_options {
    enum sentence_kind kind;
    const char *prefix;
    const char *split;  // "969, 30, 1"; NULL: `which` is the whole dataset
    enum split which;
    int64_t seq_length;          // of the encoder
    int64_t decoder_seq_length;  // T5
    int64_t sample_count;        // samples wanted; as many epochs as that takes. 0: one epoch
    int64_t seed;
    double mask_prob, short_seq_prob;
    bool has_binary_head;                        // BERT: two sentences and whether they are swapped
    const char *cache_folder;                    // NULL: PREFIX/cache/{class}_indices
    const struct sample_vocabulary *vocabulary;  // must outlive the dataset
};

int sentence_dataset_build(const struct sentence_options *options);

// Tokens as they are gathered; grows.
struct sentence_text {
    int32_t *tokens;
    int64_t count, capacity;
};

struct sentence_dataset {
    struct sentence_options options;  // strings not valid after opening
    struct index_reader *reader;
    int64_t first_document, end_document;
    char *name;       // "valid split of PREFIX"
    struct npy rows;  // (samples, 3) u32: see sentence_map.h
    struct word_mask mask;
    struct sentence_text text;  // of the sample at hand
    int32_t *original;          // (seq_length) its tokens before they were masked
};

int sentence_dataset_open(struct sentence_dataset **dataset, const struct sentence_options *options);
void sentence_dataset_close(struct sentence_dataset *dataset);  // NULL is fine
// Valid while the dataset is open; one thread at a time.
struct sample_source sentence_dataset_source(struct sentence_dataset *dataset);

// Row i of the sample map.
struct sentence_run {
    int64_t begin, end;  // sentences
    int64_t target;      // tokens
};
static inline struct sentence_run sentence_dataset_run(const struct sentence_dataset *dataset, int64_t i) {
    const uint32_t *row = (const uint32_t *)(const void *)dataset->rows.data + 3 * i;
    return (struct sentence_run){row[0], row[1], row[2]};
}

// Appends a sentence, at most `most` tokens of it, to dataset->text; ids outside the vocabulary are errors.
int sentence_dataset_read(struct sentence_dataset *dataset, int64_t sentence, int64_t most);

// The two ways to make a row, in bert.c and t5.c.
int sentence_fill_bert(struct sentence_dataset *dataset, int64_t sample, const struct batch_row *row);
int sentence_fill_t5(struct sentence_dataset *dataset, int64_t sample, const struct batch_row *row);

#endif
