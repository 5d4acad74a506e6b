// Fills a long array whose pieces come in any order, where neither the array fits memory nor writing here and there on
// a disk would be fast. The array is cut into regions; a piece goes to the list of its region in a nameless file, block
// by block, and in the end one region after the other is put together in memory and handed on, from the first byte of
// the array to the last. A region too large for memory is scattered again.
#ifndef DATA_INDEX_SCATTER_H
#define DATA_INDEX_SCATTER_H

#include "data/index/spill.h"
#include <stddef.h>
#include <stdint.h>

struct scatter_region;

struct scatter {
    uint64_t begin, end;    // bytes of the array
    uint64_t region_bytes;  // the last region may be shorter
    int64_t region_count;
    size_t block_bytes;
    size_t memory_bytes;
    const char *beside;              // the caller's
    struct scatter_region *regions;  // (region_count)
    unsigned char *blocks;           // (region_count, block_bytes) the blocks being filled
    struct spill spill;
};

// beside: the path in whose folder the file stands. The array has total_bytes.
int scatter_open(struct scatter *scatter, uint64_t total_bytes, size_t memory_bytes, const char *beside);
// Bytes that belong at `offset` of the array. Every byte of it must be put exactly once.
int scatter_put(struct scatter *scatter, uint64_t offset, const void *bytes, size_t count);

struct scatter_sink {
    void *context;
    int (*take)(void *context, const unsigned char *bytes, size_t count);
};
// Hands the whole array on, in order. Nothing may be put after this.
int scatter_drain(struct scatter *scatter, struct scatter_sink sink);
void scatter_close(struct scatter *scatter);  // safe on a zeroed one

#endif
