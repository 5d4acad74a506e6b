// Fills a long array whose pieces come in any order, if the array does not fit in memory and random writes to disk
// would be slow. The array is split into regions. A piece is appended to the list of its region in an unnamed file,
// block by block. At the end the regions are assembled in memory one after another and passed on, from the first byte
// of the array to the last. A region too large for memory is scattered again.
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
    const char *beside;              // owned by the caller
    struct scatter_region *regions;  // (region_count)
    unsigned char *blocks;           // (region_count, block_bytes) the blocks being filled
    struct spill spill;
};

// The temporary file is in the folder of the path `beside`. The array has total_bytes bytes.
int scatter_open(struct scatter *scatter, uint64_t total_bytes, size_t memory_bytes, const char *beside);
// Puts bytes at `offset` of the array. Every byte of it must be put exactly once.
int scatter_put(struct scatter *scatter, uint64_t offset, const void *bytes, size_t count);

struct scatter_sink {
    void *context;
    int (*take)(void *context, const unsigned char *bytes, size_t count);
};
// Passes the whole array to the sink, in order. Nothing may be put after this.
int scatter_drain(struct scatter *scatter, struct scatter_sink sink);
void scatter_close(struct scatter *scatter);  // safe on a zeroed one

#endif
