// Finds documents that equal an earlier one: a step of index_rearrange.
#ifndef DATA_INDEX_DUPLICATES_H
#define DATA_INDEX_DUPLICATES_H

#include "data/index/external_sort.h"
#include "data/index/index.h"

// Approximate bytes of .idx that looking up one document touches: two boundaries, two pointers.
enum { DOCUMENT_ENTRY_BYTES = 32 };

struct duplicates_options {
    struct index_reader *const *readers;  // (count) verified, with the same number of documents
    int64_t count;
    int hash_bits;        // of 128
    size_t memory_bytes;  // limit for the memory in use at once, without that of `dropped`
    const char *beside;   // where temporary files go
};

// Adds to `dropped` (one word per record) the number of every document that equals an earlier one, in any order.
int duplicates_find(const struct duplicates_options *options, struct external_sort *dropped);

#endif
