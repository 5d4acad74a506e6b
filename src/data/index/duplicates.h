// Which documents stood before: a step of index_rearrange.
#ifndef DATA_INDEX_DUPLICATES_H
#define DATA_INDEX_DUPLICATES_H

#include "data/index/external_sort.h"
#include "data/index/index.h"

struct duplicates_options {
    struct index_reader *const *readers;  // (count) verified, with the same number of documents
    int64_t count;
    int hash_bits;        // of 128
    size_t memory_bytes;  // at most this much at once, dropped's own memory not counted
    const char *beside;   // where temporary files go
};

// Adds to `dropped` (one word) the number of every document that equals an earlier one, in any order.
int duplicates_find(const struct duplicates_options *options, struct external_sort *dropped);

// The sequences of a document and where its tokens lie in .bin; of a verified dataset.
struct index_document {
    int64_t first_sequence, sequence_count;
    uint64_t begin_byte, bytes;
};
struct index_document index_document(const struct index_reader *reader, int64_t document);

#endif
