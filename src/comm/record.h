// The flight recorder: this rank's recent collectives. When a run hangs, the ranks' records side by side show who is
// missing: the rank whose last entry differs from the others'. It also adds up the traffic of each group, so that tests
// and reports can compare it with the formulas.
#ifndef COMM_RECORD_H
#define COMM_RECORD_H

#include <stdint.h>
#include <stdio.h>

enum collective_kind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_SEND,
    COLLECTIVE_RECEIVE,
    COLLECTIVE_HOST,      // values of the host, not tensors
    COLLECTIVE_RECORDED,  // all collectives of one replayed recording
    COLLECTIVE_KINDS
};

enum { RECORD_ENTRIES = 256 };

struct record_entry {
    int64_t number;     // counted from 1 on each rank
    const char *name;   // of the collective; must live as long as the program
    const char *group;  // lives as long as the world
    enum collective_kind kind;
    int64_t bytes;  // of the larger side: all of a gather or scatter, all rows sent or received
    // Seconds of the monotonic clock, coarse (some ms) for small messages; end is 0 while it runs.
    double start, end;
};

struct record {
    struct record_entry entries[RECORD_ENTRIES];  // entry n is at (n - 1) % RECORD_ENTRIES
    int64_t count;                                // how many so far
};

struct traffic {
    int64_t count, bytes;
};

// The next entry, with its number and without an end; the caller fills in the rest in place. It starts now, or when the
// previous one started if that was read from a clock that is ahead.
static inline struct record_entry *record_begin(struct record *record, double now) {
    double before = record->entries[(uint64_t)(record->count - 1) % RECORD_ENTRIES].start;
    struct record_entry *entry = &record->entries[(uint64_t)record->count % RECORD_ENTRIES];
    entry->number = ++record->count;
    entry->start = now > before ? now : before;
    entry->end = 0;
    return entry;
}

// Does nothing if the entry has been overwritten since.
static inline void record_end(struct record *record, int64_t number, double now) {
    struct record_entry *entry = &record->entries[(uint64_t)(number - 1) % RECORD_ENTRIES];
    if (entry->number == number)
        entry->end = now > entry->start ? now : entry->start;
}

const char *collective_kind_name(enum collective_kind kind);  // "all_reduce"

// One JSON object per line, oldest first; unfinished entries have no "seconds".
void record_write(const struct record *record, int rank, FILE *file);

#endif
