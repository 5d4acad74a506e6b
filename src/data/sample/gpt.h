// The samples of a GPT from one indexed dataset. The order of documents, the bounds of samples and their order are
// exactly those of Megatron's GPTDataset, so a run sees the same tokens in the same order.
//
// The three index arrays are stored as .npy files. gpt_dataset_build creates them if they are missing or damaged;
// gpt_dataset_open maps and verifies them. In a job of several ranks, one rank per file system builds, all wait, and
// then all open. Opening checks everything it maps against a checksum, so a truncated or altered cache is never used.
#ifndef DATA_SAMPLE_GPT_H
#define DATA_SAMPLE_GPT_H

#include "data/index/index.h"
#include "data/sample/gpt_index.h"
#include "data/sample/npy.h"
#include "data/sample/source.h"
#include "data/sample/split.h"

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

// The dataset as a source for a loader; valid while the dataset is open.
struct sample_source gpt_dataset_source(struct gpt_dataset *dataset);

#endif
