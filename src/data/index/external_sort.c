// External merge sort. Invariant while merging: every run in the heap has its smallest remaining record in memory.
#include "data/index/spill.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_RUN_BYTES = 4096, INSERTION_RECORDS = 24, LEAST_MEMORY_BYTES = 4 * LEAST_RUN_BYTES };

static bool is_less(const uint64_t *a, const uint64_t *b, int words) {
    for (int i = 0; i < words; i++)
        if (a[i] != b[i])
            return a[i] < b[i];
    return false;
}

// ---- in memory ----

static void insertion_sort(uint64_t *records, int64_t count, int words) {
    size_t bytes = (size_t)words * sizeof *records;
    uint64_t moved[EXTERNAL_SORT_WORDS];
    for (int64_t i = 1; i < count; i++) {
        memcpy(moved, records + i * words, bytes);
        int64_t at = i;
        for (; at > 0 && is_less(moved, records + (at - 1) * words, words); at--)
            memcpy(records + at * words, records + (at - 1) * words, bytes);
        memcpy(records + at * words, moved, bytes);
    }
}

static unsigned digit_of(const uint64_t *record, int digit) {
    return (unsigned)(record[digit / 8] >> (56 - 8 * (digit % 8))) & 255;
}

// Moves every record into the bucket of its digit; each swap puts at least one in its final bucket. begin has one extra
// entry.
static void permute(uint64_t *records, int words, int digit, const int64_t begin[257]) {
    int64_t next[256];
    memcpy(next, begin, sizeof next);
    size_t bytes = (size_t)words * sizeof *records;
    for (unsigned bucket = 0; bucket < 256; bucket++) {
        while (next[bucket] < begin[bucket + 1]) {
            uint64_t *here = records + next[bucket] * words;
            unsigned home = digit_of(here, digit);
            if (home == bucket) {
                next[bucket]++;
                continue;
            }
            uint64_t *there = records + next[home]++ * words, swapped[EXTERNAL_SORT_WORDS];
            memcpy(swapped, there, bytes);
            memcpy(there, here, bytes);
            memcpy(here, swapped, bytes);
        }
    }
}

// Sorts in place by bytes, most significant first ("American flag sort"): records with the same byte form a bucket,
// which the next byte splits. Records agree in all digits before `digit`, so the recursion is at most 8 * words deep.
static void radix_sort(uint64_t *records, int64_t count, int words, int digit) {
    int64_t begin[257];
    for (; digit < 8 * words; digit++) {
        if (count <= INSERTION_RECORDS) {
            insertion_sort(records, count, words);
            return;
        }
        memset(begin, 0, sizeof begin);
        for (int64_t i = 0; i < count; i++)
            begin[digit_of(records + i * words, digit) + 1]++;
        if (begin[digit_of(records, digit) + 1] < count)
            break;  // else all have the same digit, and the next one decides
    }
    if (digit == 8 * words)
        return;
    for (int bucket = 0; bucket < 256; bucket++)
        begin[bucket + 1] += begin[bucket];
    permute(records, words, digit, begin);
    for (int bucket = 0; bucket < 256; bucket++)
        if (begin[bucket + 1] - begin[bucket] > 1)
            radix_sort(records + begin[bucket] * words, begin[bucket + 1] - begin[bucket], words, digit + 1);
}

// ---- runs ----

void external_sort_open(struct external_sort *sort, int words, size_t memory_bytes, const char *beside) {
    CHECK(words >= 1 && words <= EXTERNAL_SORT_WORDS);
    if (memory_bytes < LEAST_MEMORY_BYTES)
        memory_bytes = LEAST_MEMORY_BYTES;
    *sort = (struct external_sort){.words = words, .memory_bytes = memory_bytes, .beside = beside};
    sort->spill.descriptor = -1;
}

static size_t record_bytes(const struct external_sort *sort) {
    return (size_t)sort->words * sizeof(uint64_t);
}

static void add_run(struct external_sort *sort) {
    sort->run_ends = memory_realloc(sort->run_ends, (size_t)(sort->run_count + 1) * sizeof *sort->run_ends);
    sort->run_ends[sort->run_count++] = sort->spill.bytes;
}

static int write_run(struct external_sort *sort) {
    if (!sort->is_spilled) {
        TRY(spill_open(&sort->spill, sort->beside));
        sort->is_spilled = true;
    }
    radix_sort(sort->records, sort->count, sort->words, 0);
    TRY(spill_write(&sort->spill, sort->records, (size_t)sort->count * record_bytes(sort)));
    add_run(sort);
    sort->count = 0;
    return 0;
}

int external_sort_add(struct external_sort *sort, const uint64_t *record) {
    if (sort->count == sort->capacity) {
        int64_t most = (int64_t)(sort->memory_bytes / record_bytes(sort));
        if (sort->capacity == most) {
            TRY(write_run(sort));
        } else {
            int64_t wanted = sort->capacity ? 2 * sort->capacity : 256;
            sort->capacity = wanted < most ? wanted : most;
            sort->records = memory_realloc(sort->records, (size_t)sort->capacity * record_bytes(sort));
        }
    }
    memcpy(sort->records + sort->count++ * sort->words, record, record_bytes(sort));
    return 0;
}

// ---- merging ----

// Loads the next records of a run into memory; if run->loaded is 0, none are left.
static int load(struct external_sort *sort, struct external_sort_run *run, int64_t most) {
    uint64_t left = (run->end - run->begin) / record_bytes(sort);
    run->loaded = left < (uint64_t)most ? (int64_t)left : most;
    run->next = 0;
    size_t bytes = (size_t)run->loaded * record_bytes(sort);
    TRY(spill_read(&sort->spill, run->begin, run->records, bytes));
    run->begin += bytes;
    return 0;
}

static bool run_is_less(const struct external_sort *sort, int64_t a, int64_t b) {
    const struct external_sort_run *of_a = &sort->runs[a], *of_b = &sort->runs[b];
    return is_less(of_a->records + of_a->next * sort->words, of_b->records + of_b->next * sort->words, sort->words);
}

static void sift_down(struct external_sort *sort, int64_t at) {
    int64_t moved = sort->heap[at];
    for (int64_t child; (child = 2 * at + 1) < sort->heap_count; at = child) {
        if (child + 1 < sort->heap_count && run_is_less(sort, sort->heap[child + 1], sort->heap[child]))
            child++;
        if (!run_is_less(sort, sort->heap[child], moved))
            break;
        sort->heap[at] = sort->heap[child];
    }
    sort->heap[at] = moved;
}

static int64_t run_capacity(const struct external_sort *sort, int64_t runs) {
    return (int64_t)(sort->memory_bytes / (size_t)runs / record_bytes(sort));
}

// Starts a merge of the runs first…first+count-1, which share the memory.
static int begin_merge(struct external_sort *sort, int64_t first, int64_t count) {
    int64_t capacity = run_capacity(sort, count);
    sort->heap_count = 0;
    for (int64_t i = 0; i < count; i++) {
        struct external_sort_run *run = &sort->runs[i];
        run->begin = first + i ? sort->run_ends[first + i - 1] : 0;
        run->end = sort->run_ends[first + i];
        run->records = sort->records + i * capacity * sort->words;
        TRY(load(sort, run, capacity));
        if (run->loaded)
            sort->heap[sort->heap_count++] = i;
    }
    for (int64_t at = sort->heap_count / 2 - 1; at >= 0; at--)
        sift_down(sort, at);
    return 0;
}

static int merge_next(struct external_sort *sort, int64_t capacity, uint64_t *record) {
    if (sort->heap_count == 0)
        return 0;
    struct external_sort_run *run = &sort->runs[sort->heap[0]];
    memcpy(record, run->records + run->next++ * sort->words, record_bytes(sort));
    if (run->next == run->loaded) {
        TRY(load(sort, run, capacity));
        if (run->loaded == 0)
            sort->heap[0] = sort->heap[--sort->heap_count];
    }
    if (sort->heap_count)
        sift_down(sort, 0);
    return 1;
}

// One round: groups of `most` runs become one run each, in a new file.
static int merge_round(struct external_sort *sort, int64_t most) {
    struct external_sort merged = {.words = sort->words, .beside = sort->beside};
    TRY(spill_open(&merged.spill, sort->beside));
    int result = 0;
    for (int64_t first = 0; result >= 0 && first < sort->run_count; first += most) {
        int64_t count = sort->run_count - first < most ? sort->run_count - first : most;
        int64_t capacity = run_capacity(sort, count);
        uint64_t record[EXTERNAL_SORT_WORDS];
        result = begin_merge(sort, first, count);
        while (result >= 0 && (result = merge_next(sort, capacity, record)) == 1)
            if (spill_write(&merged.spill, record, record_bytes(sort)) < 0)
                result = -1;
        add_run(&merged);
    }
    spill_close(&sort->spill);
    free(sort->run_ends);
    sort->spill = merged.spill;
    sort->run_ends = merged.run_ends;
    sort->run_count = merged.run_count;
    return result;
}

int external_sort_finish(struct external_sort *sort) {
    if (!sort->is_spilled) {
        radix_sort(sort->records, sort->count, sort->words, 0);
        return 0;
    }
    TRY(write_run(sort));
    int64_t most = (int64_t)(sort->memory_bytes / LEAST_RUN_BYTES);
    int64_t runs = sort->run_count < most ? sort->run_count : most;
    sort->runs = memory_alloc((size_t)runs * sizeof *sort->runs);
    sort->heap = memory_alloc((size_t)runs * sizeof *sort->heap);
    while (sort->run_count > most)
        TRY(merge_round(sort, most));
    return external_sort_rewind(sort);
}

int external_sort_rewind(struct external_sort *sort) {
    sort->next = 0;
    return sort->is_spilled ? begin_merge(sort, 0, sort->run_count) : 0;
}

int external_sort_next(struct external_sort *sort, uint64_t *record) {
    if (sort->is_spilled)
        return merge_next(sort, run_capacity(sort, sort->run_count), record);
    if (sort->next == sort->count)
        return 0;
    memcpy(record, sort->records + sort->next++ * sort->words, record_bytes(sort));
    return 1;
}

void external_sort_close(struct external_sort *sort) {
    if (sort->is_spilled)
        spill_close(&sort->spill);
    free(sort->records);
    free(sort->run_ends);
    free(sort->runs);
    free(sort->heap);
    *sort = (struct external_sort){0};
}
