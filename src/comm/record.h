// The flight recorder: what this rank has asked of its groups lately. When a run hangs, the ranks' records side by side
// show who is missing: the rank whose last entry is not the others' last entry. It also adds up the traffic of each
// group, so that tests and reports can hold it against the formulas.
#ifndef COMM_RECORD_H
#define COMM_RECORD_H

#include <stdint.h>
#include <stdio.h>

enum collective_kind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_SEND,
    COLLECTIVE_RECEIVE,
    COLLECTIVE_HOST,      // values of the host's, not tensors
    COLLECTIVE_RECORDED,  // all those of one recording, replayed
    COLLECTIVE_KINDS
};

enum { RECORD_ENTRIES = 256 };

struct record_entry {
    int64_t number;     // counted from 1 on each rank
    const char *name;   // of the collective: a string that lives as long as the program
    const char *group;  // lives as long as the world
    enum collective_kind kind;
    int64_t bytes;  // of the larger side: the whole of a gather or scatter
    // Seconds of the monotonic clock, of a small message to its tick (some ms); end is 0 while it runs.
    double start, end;
};

struct record {
    struct record_entry entries[RECORD_ENTRIES];  // entry n is at (n - 1) % RECORD_ENTRIES
    int64_t count;                                // so far
};

struct traffic {
    int64_t count, bytes;
};

// The next entry, with its number and without an end; the caller fills in the rest in place. It starts now, or with the
// one before where that was read from a clock that is ahead.
static inline struct record_entry *record_begin(struct record *record, double now) {
    double before = record->entries[(uint64_t)(record->count - 1) % RECORD_ENTRIES].start;
    struct record_entry *entry = &record->entries[(uint64_t)record->count % RECORD_ENTRIES];
    entry->number = ++record->count;
    entry->start = now > before ? now : before;
    entry->end = 0;
    return entry;
}

// Nothing where the entry has been overwritten since.
static inline void record_end(struct record *record, int64_t number, double now) {
    struct record_entry *entry = &record->entries[(uint64_t)(number - 1) % RECORD_ENTRIES];
    if (entry->number == number)
        entry->end = now > entry->start ? now : entry->start;
}

// One JSON object per line, oldest first; unfinished ones have no "seconds".
void record_write(const struct record *record, int rank, FILE *file);
const char *collective_kind_name(enum collective_kind kind);

#endif
