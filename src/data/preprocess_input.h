// The inputs of a preprocessing run, cut into pieces in order. A reader takes a run of consecutive plain files, or one
// compressed file or pipe. Plain files are cut by arithmetic, so one reader has work for all threads. Anything else is
// read by one thread at a time, so further readers are started after it.
#ifndef DATA_PREPROCESS_INPUT_H
#define DATA_PREPROCESS_INPUT_H

#include "data/preprocess_run.h"

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
