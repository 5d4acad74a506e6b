// Lists, arrays and sorting beyond memory, in unnamed files beside the result.
#ifndef DATA_INDEX_SPILL_H
#define DATA_INDEX_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- lists ----

// A list too long for memory, kept in an unnamed file: written once from front to back, then read anywhere. The file is
// unlinked as soon as it is created, so it never outlives the process.

struct spill {
    int descriptor;          // -1 if closed
    unsigned char *pending;  // bytes not yet in the file
    size_t pending_bytes;
    uint64_t bytes;  // all bytes accepted
    char *beside;    // the path whose folder holds the file, for errors
};

// Creates the file in the folder of `beside`, where the result needs space anyway.
int spill_open(struct spill *spill, const char *beside);
int spill_write(struct spill *spill, const void *bytes, size_t count);
// Reads count bytes at offset, after flushing pending writes.
int spill_read(struct spill *spill, uint64_t offset, void *out, size_t count);
void spill_close(struct spill *spill);

// ---- arrays in any order ----

// Fills a long array whose pieces come in any order, if the array does not fit in memory and random writes to disk
// would be slow. The array is split into regions. A piece is appended to the list of its region in an unnamed file,
// block by block. At the end the regions are assembled in memory one after another and passed on, from the first byte
// of the array to the last. A region too large for memory is scattered again.

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

// ---- sorting ----

// Sorts more records than fit in memory. A record is a few 64-bit words, compared word by word as unsigned numbers.
// When the memory is full, its records are sorted and written to an unnamed file as a run. At the end the runs are
// merged, in several rounds if there are too many for one. The resulting order does not depend on the memory.

enum { EXTERNAL_SORT_WORDS = 4 };

struct external_sort_run {
    uint64_t begin, end;   // bytes of the spill not yet in memory
    uint64_t *records;     // its part of the memory
    int64_t next, loaded;  // records
};

struct external_sort {
    int words;  // of a record, 1 to EXTERNAL_SORT_WORDS
    size_t memory_bytes;
    const char *beside;  // owned by the caller; must outlive the sort
    uint64_t *records;   // (capacity, words)
    int64_t count, capacity;
    int64_t next;        // records returned, if all are in memory
    struct spill spill;  // runs, one after another
    bool is_spilled;
    uint64_t *run_ends;  // (run_count) bytes of the spill
    int64_t run_count;
    struct external_sort_run *runs;  // of the merge that returns records
    int64_t *heap;                   // (heap_count) runs, the one with the smallest record first
    int64_t heap_count;
};

// The temporary file is in the folder of the path `beside`.
void external_sort_open(struct external_sort *sort, int words, size_t memory_bytes, const char *beside);
int external_sort_add(struct external_sort *sort, const uint64_t *record);
// No records may be added after this.
int external_sort_finish(struct external_sort *sort);
// The next record in order: 1, 0 after the last, -1 on error.
int external_sort_next(struct external_sort *sort, uint64_t *record);
// Starts over with the first record.
int external_sort_rewind(struct external_sort *sort);
void external_sort_close(struct external_sort *sort);  // safe on a zeroed one

#endif
