// Sorts more records than fit in memory. A record is a few 64-bit words, compared word by word as unsigned numbers.
// When the memory is full, its records are sorted and written to an unnamed file as a run. At the end the runs are
// merged, in several rounds if there are too many for one. The resulting order does not depend on the memory.
#ifndef DATA_INDEX_EXTERNAL_SORT_H
#define DATA_INDEX_EXTERNAL_SORT_H

#include "data/index/spill.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
