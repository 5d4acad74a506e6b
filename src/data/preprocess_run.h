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

// ---- inputs ----

// The inputs of a run, cut into pieces in order. A reader takes a run of consecutive plain files, or one compressed
// file or pipe. Plain files are cut by arithmetic, so one reader has work for all threads. Anything else is read by one
// thread at a time, so further readers are started after it.
struct preprocess_input;
struct text_reader;

// Starts at *begin. `charge` is called with the context as described in struct line_file_options; the run must outlive
// the input.
struct preprocess_input *preprocess_input_open(const struct preprocess_run *run, const struct preprocess_state *begin,
                                               void (*charge)(void *context, struct line_piece *piece, size_t bytes),
                                               void *context);
void preprocess_input_close(struct preprocess_input *input);  // after all its readers
// Readers were started for all files.
bool preprocess_input_is_used_up(struct preprocess_input *input);

// The next reader, in input order; NULL if none can start now.
struct text_reader *text_reader_begin(struct preprocess_input *input);
void text_reader_end(struct text_reader *reader);

// One thread at a time may call the next two for a reader. The first cuts the next piece: 1, 0 at the end, -1 on error.
// The second does so only if no reading is needed; else it returns false.
int text_reader_next(struct text_reader *reader, struct line_piece *piece);
bool text_reader_next_at_once(struct text_reader *reader, struct line_piece *piece);
// The file that the last piece came from.
int64_t text_reader_file(const struct text_reader *reader);

#endif
