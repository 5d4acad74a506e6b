// The part of preprocessing that uses all processors: inputs to the files of a store, in the order of the input,
// whatever the number of threads.
//
// The unit of order is a lane: a run of plain files, or one compressed file. Threads read, tokenize and write pieces of
// the first lane that has work to give. A plain file always has; a compressed one can be read by one thread at a time,
// and so others begin the lanes after it, whose results go to stores of their own until their turn comes and they are
// copied. Pieces of a lane are given their place in its store in order; writing them there is again anybody's work.
//
// The error that counts is the first in the order of the input.
#ifndef DATA_PREPROCESS_RUN_H
#define DATA_PREPROCESS_RUN_H

#include "config/flag.h"
#include "data/preprocess_journal.h"
#include "data/preprocess_store.h"
#include "data/text_batch.h"

struct preprocess_run {
    const struct string_list *files;
    struct text_worker *workers;  // (threads)
    int threads;
    size_t piece_bytes, line_limit;
    const struct store *store;
    struct journal *journal;  // also says where parts are kept
    bool is_journaled;        // it can be continued later
    double journal_seconds;   // between two entries
    // Told in order of completion, by one thread at a time, what has been added.
    void (*progress)(void *context, const struct text_counts *more, uint64_t input_bytes);
    void (*bad_line)(void *context, const char *problem);  // the same: "file:line: reason"
    void *context;
};

// From *state to the end of the input; *state says how far it got, also on error.
int preprocess_run(const struct preprocess_run *run, struct preprocess_state *state);

#endif
