// The final pass over complete datasets: drops duplicate documents, and puts the rest into a random order that depends
// only on the seed, or into that of Megatron's partitions. Memory is bounded for any size; the rest goes through
// unnamed files beside the output, so a new order needs disk space for one more copy.
//
// Several datasets are treated as one whose documents have several parts (preprocess writes one for each key): document
// i of all of them stays together, and it is a duplicate only if all parts are equal.
//
// Documents are equal if they have the same sequences of the same tokens; deduplication keeps the first. Equal hashes
// are not trusted: the bytes are compared. The shuffle sorts the remaining documents by
//
//   philox4x32(seed, i low, i high, 0x53485546, 0) words 0 and 1 as a 64-bit number (word 1 high), then i
//
// where i numbers the remaining documents in their order. With partitions, document i goes to partition i mod
// partitions, and the partitions are written one after another. See docs/internals/rearrange.md.
#ifndef DATA_INDEX_REARRANGE_H
#define DATA_INDEX_REARRANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index_rearrange_options {
    char *const *inputs;   // (count) prefixes of datasets with the same number of documents
    char *const *outputs;  // (count) prefixes to write; they may be the inputs, which are then replaced
    int64_t count;
    bool dedup;    // drop documents equal to an earlier one
    bool shuffle;  // random order; without it documents keep theirs
    uint64_t seed;
    int64_t partitions;   // to deal documents to; 0 or 1 for none. Ignored with shuffle
    size_t memory_bytes;  // working memory; 0 for 256 MiB. At least 64 KiB is used
    int hash_bits;        // 0 for all 128; tests use fewer, to make hashes collide
};

struct index_rearrange_summary {
    int64_t documents_read, documents_written;
    int64_t tokens_read, tokens_written;  // of all datasets together
    int64_t duplicates;                   // documents_read - documents_written
};

// Inputs are verified first. The outputs appear together when all are complete; on error none of them is left, and
// existing files of their names are kept.
int index_rearrange(const struct index_rearrange_options *options, struct index_rearrange_summary *summary);

#endif
