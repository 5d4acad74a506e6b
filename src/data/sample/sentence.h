// Samples of BERT, T5 and ICT from one indexed dataset whose sequences are sentences (preprocess --split-sentences), in
// the order and with the random numbers of Megatron's BERTMaskedWordPieceDataset and T5MaskedWordPieceDataset: sample i
// has its own generator, seeded with seed + i.
//
// BERT: [CLS] A [SEP] B [SEP], where A and B are consecutive sentences or, half of the time, the two swapped. T5: the
// text with spans replaced by sentinels for the encoder, the spans after their sentinels for the decoder. ICT: a
// sentence of a block as the query, and the block, mostly without that sentence and after its document's title, as the
// context. Megatron's ICTDataset draws from one generator in the order of access, so only the blocks match.
//
// sentence_dataset_build makes the index files and sentence_dataset_open maps and verifies them, as in gpt.h.
#ifndef DATA_SAMPLE_SENTENCE_H
#define DATA_SAMPLE_SENTENCE_H

#include "data/index/index.h"
#include "data/sample/npy.h"
#include "data/sample/source.h"
#include "data/sample/split.h"
#include "data/sample/word_mask.h"

enum sentence_kind { SENTENCE_BERT, SENTENCE_T5, SENTENCE_ICT };

struct sentence_options {
    enum sentence_kind kind;
    const char *prefix;
    const char *split;  // "969, 30, 1"; NULL: `which` is the whole dataset
    enum split which;
    int64_t seq_length;          // of the encoder
    int64_t decoder_seq_length;  // T5
    int64_t sample_count;        // samples needed, over as many epochs as that takes; 0: one epoch
    int64_t seed;
    double mask_prob, short_seq_prob;
    bool has_binary_head;                        // BERT: two sentences and whether they are swapped
    const char *titles;                          // ICT: dataset of the documents' titles, or NULL
    double query_in_block_prob;                  // ICT
    bool uses_single_sentences;                  // ICT: use documents and blocks of one sentence, too
    const char *cache_folder;                    // NULL: PREFIX/cache/{class}_indices
    const struct sample_vocabulary *vocabulary;  // must outlive the dataset
};

int sentence_dataset_build(const struct sentence_options *options);

// Collects tokens; grows.
struct sentence_text {
    int32_t *tokens;
    int64_t count, capacity;
};

struct sentence_dataset {
    struct sentence_options options;       // strings not valid after opening
    struct index_reader *reader, *titles;  // titles: NULL for none
    int64_t first_document, end_document;
    char *name;       // "valid split of PREFIX"
    struct npy rows;  // (samples, 3 or 4) u32: see sentence_map.h
    struct word_mask mask;
    struct sentence_text text;  // of the current sample
    int32_t *original;          // (seq_length) its tokens before masking
};

int sentence_dataset_open(struct sentence_dataset **dataset, const struct sentence_options *options);
void sentence_dataset_close(struct sentence_dataset *dataset);  // NULL is fine
// Valid while the dataset is open; one thread at a time.
struct sample_source sentence_dataset_source(struct sentence_dataset *dataset);

// Row i of the sample map.
struct sentence_run {
    int64_t begin, end;  // sentences
    int64_t target;      // tokens; for ICT: the document
};
static inline struct sentence_run sentence_dataset_run(const struct sentence_dataset *dataset, int64_t i) {
    const uint32_t *row = (const uint32_t *)(const void *)dataset->rows.data + dataset->rows.shape.columns * i;
    return (struct sentence_run){row[0], row[1], row[2]};
}

// Appends a sentence, at most `most` tokens of it, to dataset->text; ids outside the vocabulary are errors. The other
// function appends the title of a document.
int sentence_dataset_read(struct sentence_dataset *dataset, int64_t sentence, int64_t most);
int sentence_dataset_read_title(struct sentence_dataset *dataset, int64_t document, int64_t most);

// The functions that make a row, in bert.c, t5.c and ict.c.
int sentence_fill_bert(struct sentence_dataset *dataset, int64_t sample, const struct batch *row);
int sentence_fill_t5(struct sentence_dataset *dataset, int64_t sample, const struct batch *row);
int sentence_fill_ict(struct sentence_dataset *dataset, int64_t sample, const struct batch *row);

#endif
