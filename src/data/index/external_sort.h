// Sorts more records than memory holds. A record is a few 64-bit words, compared word by word as unsigned numbers. What
// fills the memory is sorted and goes to a nameless file as a run; in the end the runs are merged, in several rounds
// where there are too many for one. The order that comes out does not depend on the memory.
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
    const char *beside;  // the caller's; must outlive the sort
    uint64_t *records;   // (capacity, words)
    int64_t count, capacity;
    int64_t next;        // records given out, where all are in memory
    struct spill spill;  // runs, one after another
    bool is_spilled;
    uint64_t *run_ends;  // (run_count) bytes of the spill
    int64_t run_count;
    struct external_sort_run *runs;  // of the merge that gives out records
    int64_t *heap;                   // (heap_count) runs, that with the least record first
    int64_t heap_count;
};

// beside: the path in whose folder the file stands.
void external_sort_open(struct external_sort *sort, int words, size_t memory_bytes, const char *beside);
int external_sort_add(struct external_sort *sort, const uint64_t *record);
// No record is added after this.
int external_sort_finish(struct external_sort *sort);
// The next record in order: 1, 0 after the last, -1 on error.
int external_sort_next(struct external_sort *sort, uint64_t *record);
// Begins again with the first.
int external_sort_rewind(struct external_sort *sort);
void external_sort_close(struct external_sort *sort);  // safe on a zeroed one

#endif
