// The finishing pass over complete datasets: leaves out documents that stood before, and puts the rest into a random
// order that depends on the seed alone, or into that of Megatron's partitions. Memory is bounded whatever the size;
// what does not fit goes through nameless files beside the output, which needs the space of one more copy for a new
// order.
//
// Several datasets are treated as one whose documents have several parts (preprocess writes one for each key): document
// i of all of them stays together, and it is a duplicate only if all parts are equal.
//
// Deduplication keeps the first of equal documents, those with the same sequences of the same tokens. Equal hashes are
// never believed: the bytes are compared. The shuffle sorts the documents that are left by
//
//   philox4x32(seed, i low, i high, 0x53485546, 0) words 0 and 1 as a 64-bit number (word 1 high), then i
//
// where i counts the documents that are left, in their order. With partitions they are dealt out like cards, document i
// to pile i mod partitions, and the piles come one after another. docs/internals/rearrange.md says more.
#ifndef DATA_INDEX_REARRANGE_H
#define DATA_INDEX_REARRANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index_rearrange_options {
    char *const *inputs;   // (count) prefixes of datasets with the same number of documents
    char *const *outputs;  // (count) prefixes to be written; they may be the inputs, which are then replaced
    int64_t count;
    bool dedup;    // drop documents equal to an earlier one
    bool shuffle;  // random order; without it documents keep theirs
    uint64_t seed;
    int64_t partitions;   // piles to deal documents out to; 0 or 1 for none. Without effect on a shuffle
    size_t memory_bytes;  // working memory; 0 for 256 MiB. No less than 64 KiB is used
    int hash_bits;        // 0 for all 128; tests have fewer, to make hashes collide
};

struct index_rearrange_summary {
    int64_t documents_read, documents_written;
    int64_t tokens_read, tokens_written;  // of all datasets together
    int64_t duplicates;                   // documents_read - documents_written
};

// Inputs are verified first. The outputs appear together, when all are whole; on error nothing of them is left, and
// what had their names before stays.
int index_rearrange(const struct index_rearrange_options *options, struct index_rearrange_summary *summary);

#endif
