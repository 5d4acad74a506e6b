// The parallel part of preprocessing: turns inputs into the files of a store, in input order for every number of
// threads.
//
// The unit of order is a lane: a run of plain files, or one compressed file. Threads read, tokenize and write pieces of
// the first lane that has work. A plain file always has work; a compressed one is read by one thread at a time, so
// other threads start the lanes after it. Those lanes write to stores of their own, which are copied when their turn
// comes. Pieces of a lane get their place in its store in order; any thread may write them.
//
// The error that is reported is the first in input order.
#ifndef DATA_PREPROCESS_RUN_H
#define DATA_PREPROCESS_RUN_H

#include "config/flag.h"
#include "data/preprocess_journal.h"
#include "data/preprocess_store.h"
#include "data/text_batch.h"

struct preprocess_run {
    const struct string_list *files;
    const bool *are_plain;        // (files) plain text, not JSON Lines
    uint64_t block_bytes;         // of plain text, see text_format.h
    struct text_worker *workers;  // (threads)
    int threads;
    size_t piece_bytes, line_limit;
    const struct store *store;
    struct journal *journal;  // also says where parts are stored
    bool is_journaled;        // the run can be resumed later
    double journal_seconds;   // between two entries
    // Called by one thread at a time, in order of completion, with the added amounts.
    void (*progress)(void *context, const struct text_counts *more, uint64_t input_bytes);
    void (*bad_line)(void *context, const char *problem);  // in the same way: "file:line: reason"
    void *context;
};

// Runs from *state to the end of the input and updates *state, also on error.
int preprocess_run(const struct preprocess_run *run, struct preprocess_state *state);

#endif
