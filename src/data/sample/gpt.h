// The samples of a GPT from one indexed dataset. The order of documents, the bounds of samples and their order are
// exactly those of Megatron's GPTDataset, so a run sees the same tokens in the same order.
//
// The three index arrays are stored as .npy files. gpt_dataset_build creates them if they are missing or damaged;
// gpt_dataset_open maps and verifies them. In a job of several ranks, one rank per file system builds, all wait, and
// then all open. Opening checks everything it maps against a checksum, so a truncated or altered cache is never used.
#ifndef DATA_SAMPLE_GPT_H
#define DATA_SAMPLE_GPT_H

#include "data/index/index.h"
#include "data/sample/index_cache.h"
#include "data/sample/source.h"
#include "data/sample/split.h"

// ---- the arrays ----

// The three arrays that turn a stream of documents into GPT training samples, as Megatron builds them:
//
//   documents (E * n)       the documents of one epoch, E times, shuffled: the order in which they are concatenated
//   samples   (total+1, 2)  where sample k begins: position in `documents` and token offset there; it ends one token
//                           after the beginning of sample k+1, so that neighbours share one token
//   order     (total)       the order in which samples are delivered
//
// A sample may span documents. If less than 80 % of the last epoch is needed, it is shuffled separately, so that each
// earlier document is seen before any of them repeats.

// Values that follow from sizes alone.
struct gpt_shape {
    int64_t seq_length;           // s
    int64_t documents_per_epoch;  // n
    int64_t tokens_per_epoch;     // T
    int64_t epochs;               // E, the smallest with E T >= requested s + 1
    int64_t samples;              // total = (E T - 1) / s
    int64_t samples_before_last;  // ((E - 1) T - 1) / s: samples without tokens of the last epoch; 0 if E = 1
    bool is_last_separate;
    bool wide_samples;  // int64 instead of int32
    bool wide_order;    // int64 instead of uint32
};

// The documents of one split.
struct gpt_range {
    const struct index_reader *reader;
    int64_t begin, end;  // sequences
};

struct gpt_index {
    int32_t *documents;
    void *samples;  // int32_t or int64_t
    void *order;    // uint32_t or int64_t
};

// requested = 0 means one epoch. Fails if there are no tokens or a number exceeds 63 bits.
int gpt_shape_make(struct gpt_shape *shape, struct gpt_range range, int64_t seq_length, int64_t requested);
int64_t gpt_shape_documents(const struct gpt_shape *shape);  // entries of `documents`

int gpt_index_build(struct gpt_index *index, const struct gpt_shape *shape, struct gpt_range range, uint32_t seed);
void gpt_index_free(struct gpt_index *index);  // a zeroed one is fine

// ---- the dataset ----

struct gpt_options {
    const char *prefix;
    const char *split;  // "969, 30, 1"; NULL if `which` is the whole dataset
    enum split which;
    int64_t seq_length;
    int64_t sample_count;      // samples needed, over as many epochs as that takes; 0 for one epoch
    int64_t seed;              // 0…2^32-1
    const char *cache_folder;  // NULL: PREFIX/cache/GPTDataset_indices
    int64_t vocab_size;        // ids of this size or larger are errors when read; 0 to skip the check
};

// Creates the cache unless there is a complete one; a damaged one is replaced, with a warning.
int gpt_dataset_build(const struct gpt_options *options);

enum gpt_array { GPT_DOCUMENTS, GPT_SAMPLES, GPT_ORDER, GPT_ARRAY_COUNT };

struct gpt_dataset {
    struct index_reader *reader;
    struct gpt_range range;  // the sequences of the split
    struct gpt_shape shape;  // shape.samples is the number of samples, at least as many as requested
    int64_t vocab_size;
    uint32_t seed;
    char *name;                          // "valid split of PREFIX"
    struct npy arrays[GPT_ARRAY_COUNT];  // struct gpt_index, mapped from its files
};

// Opens the files of gpt_dataset_build. The dataset is constant afterwards and may be read by several threads.
int gpt_dataset_open(struct gpt_dataset **dataset, const struct gpt_options *options);
void gpt_dataset_close(struct gpt_dataset *dataset);  // NULL is fine

// Sample i: seq_length + 1 tokens, of which the first seq_length are inputs and the last seq_length are labels.
int gpt_dataset_sample(const struct gpt_dataset *dataset, int64_t i, int32_t *tokens);

// Entries of the mapped arrays: where sample `row` begins, and which row is sample i.
struct gpt_start {
    int64_t position;  // in the document index
    int64_t offset;    // tokens
};

static inline struct gpt_start gpt_dataset_start(const struct gpt_dataset *dataset, int64_t row) {
    const unsigned char *data = dataset->arrays[GPT_SAMPLES].data;
    if (dataset->shape.wide_samples)
        return (struct gpt_start){((const int64_t *)data)[2 * row], ((const int64_t *)data)[2 * row + 1]};
    return (struct gpt_start){((const int32_t *)data)[2 * row], ((const int32_t *)data)[2 * row + 1]};
}

static inline int64_t gpt_dataset_order(const struct gpt_dataset *dataset, int64_t i) {
    const unsigned char *data = dataset->arrays[GPT_ORDER].data;
    return dataset->shape.wide_order ? ((const int64_t *)data)[i] : ((const uint32_t *)data)[i];
}

// The arrays on disk, in FOLDER/{md5}-GPTDataset-{train|valid|test}-*: document_index, sample_index and shuffle_index.
// The names are Megatron's; the description adds the dataset's sizes, so that a new dataset under an old name does not
// use the old cache.
void gpt_cache_name(struct index_cache *cache, const struct gpt_options *options, const struct index_reader *reader);
int gpt_cache_write(const struct index_cache *cache, const struct gpt_shape *shape, const struct gpt_index *index);

// The dataset as a source for a loader; valid while the dataset is open.
struct sample_source gpt_dataset_source(struct gpt_dataset *dataset);

#endif
