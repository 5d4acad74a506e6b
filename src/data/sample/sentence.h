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

#include "base/rng.h"
#include "data/index/index.h"
#include "data/sample/index_cache.h"
#include "data/sample/source.h"
#include "data/sample/split.h"
#include "data/sample/vocabulary.h"

// ---- masked words ----

// Chooses the words of a sample that a model must predict, as Megatron does for BERT and T5. A word is a token with its
// continuations (##ing); runs of up to max_ngram words are covered, in random order, until the budget is used.
struct word_mask_options {
    const struct sample_vocabulary *vocabulary;
    double probability;   // share of the tokens
    int64_t max_ngram;    // words
    bool is_geometric;    // lengths with probability 0.2 (0.8)^(n-1), as in SpanBERT; false: proportional to 1 / n
    bool replaces_all;    // every covered token becomes [MASK]; false: 80 % do, 10 % become random, 10 % are kept
    int64_t most_tokens;  // of a sample
};

// A run of words that was covered: entries [begin, end) of `places`.
struct word_span {
    int64_t begin, end;
};

struct word_mask {
    struct word_mask_options options;
    double *cumulative;   // (max_ngram) probability of a length up to n
    int64_t place_count;  // tokens that belong to words, in order
    int32_t *places;      // (place_count) position of each in the sample
    int64_t word_count;
    int32_t *words;          // (word_count + 1) first entry of each in places
    int64_t *candidates;     // (word_count) words in random order
    unsigned char *covered;  // (place_count)
    int64_t span_count;
    struct word_span *spans;  // (span_count) in the order of the text
};

void word_mask_create(struct word_mask *mask, const struct word_mask_options *options);
void word_mask_free(struct word_mask *mask);  // a zeroed one is fine

// A sample being masked: `tokens` become the model's input; `target` is the length that the sample was cut for.
struct word_mask_text {
    int32_t *tokens;  // (count)
    int64_t count;
    int64_t target;
};
// Fills places, covered and spans.
void word_mask_run(struct word_mask *mask, struct word_mask_text *text, struct mt19937 *random);

// ---- the sentences of each sample ----

// As in Megatron's build_mapping and build_blocks_mapping: documents
// are processed in order, epoch after epoch, and cut into runs of whole sentences that reach a target length. Then all
// runs are shuffled. For BERT and T5, some targets are drawn short. For ICT, the target of a document is the length
// minus that of its title.
enum { SENTENCE_MAP_COLUMNS = 3, SENTENCE_MAP_BLOCK_COLUMNS = 4, SENTENCE_MAP_LONGEST = 512 };

struct sentence_map_options {
    int64_t first_document, end_document;
    int64_t max_length;        // tokens, without those put around them; at least 2
    int64_t min_sentences;     // of a sample
    double short_probability;  // 0: every target is max_length
    int64_t sample_count;      // at least this many, in whole epochs; 0: one epoch
    uint32_t seed;
};

struct sentence_map {
    int64_t count, capacity;
    int columns;
    // (count, columns): first sentence, the sentence after the last, and the target length; for ICT instead the
    // document and the number of the block in its epoch.
    uint32_t *rows;
};

// Fails if no document has a sample, or the index is damaged.
int sentence_map_build(struct sentence_map *map, const struct index_reader *reader,
                       const struct sentence_map_options *options);
// The map for ICT. `titles` has a title for every document, NULL for none.
int sentence_map_build_blocks(struct sentence_map *map, const struct index_reader *reader,
                              const struct index_reader *titles, const struct sentence_map_options *options);
// The range [*begin, *end) of a document's sentences.
int sentence_map_document(const struct index_reader *reader, int64_t document, int64_t *begin, int64_t *end);
void sentence_map_free(struct sentence_map *map);

// ---- the dataset ----

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
    struct npy rows;  // (samples, 3 or 4) u32: see struct sentence_map
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

// The functions that make a row, in sentence_rows.c.
int sentence_fill_bert(struct sentence_dataset *dataset, int64_t sample, const struct batch *row);
int sentence_fill_t5(struct sentence_dataset *dataset, int64_t sample, const struct batch *row);
int sentence_fill_ict(struct sentence_dataset *dataset, int64_t sample, const struct batch *row);

#endif
