// The parts of preprocessing: a store of unfinished datasets, a journal of progress, the run that fills them, and the
// end that publishes them.
#ifndef DATA_PREPROCESS_RUN_H
#define DATA_PREPROCESS_RUN_H

#include "base/buffer.h"
#include "data/text_batch.h"
#include "config/flag.h"
#include "data/preprocess.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- store ----

// The files of unfinished datasets: tokens, lengths and documents for every key (see text_batch.h), and one list of bad
// lines. They hold plain bytes without offsets, so results of several threads, or an early part, are joined by copying.
// Writers give the offset, and any thread may write.

enum store_kind { STORE_TOKENS, STORE_LENGTHS, STORE_DOCUMENTS, STORE_KINDS };

struct store {
    char *prefix;  // of the files' paths
    int64_t keys;
    int *descriptors;        // (store_files)
    struct write_map *maps;  // (keys) of the tokens, if there are many writers; else NULL, see preprocess_store.c
};

static inline int64_t store_files(int64_t keys) {
    return STORE_KINDS * keys + 1;
}

static inline int64_t store_file(int64_t key, enum store_kind kind) {
    return STORE_KINDS * key + (int64_t)kind;
}

static inline int64_t store_bad_lines(int64_t keys) {
    return STORE_KINDS * keys;
}

// Path of a file of the store. The caller frees it.
char *store_path(const char *prefix, int64_t keys, int64_t file);

// Opens or creates the files. `bytes` (store_files) is the size they must have: longer files are truncated, shorter
// ones are an error.
int store_open(struct store *store, const char *prefix, int64_t keys, const uint64_t *bytes);
void store_close(struct store *store);   // safe on a zeroed or closed one
void store_remove(struct store *store);  // closes the store and deletes its files

// Lets several threads write tokens at the same time. Until store_cut the files may be longer than the data.
void store_share(struct store *store);
int store_cut(struct store *store, const uint64_t *bytes);  // truncates the files to these sizes

int store_write(const struct store *store, int64_t file, uint64_t offset, const void *bytes, size_t count);
int store_read(const struct store *store, int64_t file, uint64_t offset, void *out, size_t count);
int store_sync(const struct store *store);
// Copies the first bytes[i] bytes of file i of `from` to offset at[i] of file i of `to`.
int store_copy(const struct store *to, const uint64_t *at, const struct store *from, const uint64_t *bytes);

// ---- journal ----

// The progress of a preprocessing run on disk: PREFIX.unfinished/ holds the unfinished datasets, their settings and a
// journal. The journal is written whole and atomically, with a checksum, after the data it describes has reached the
// disk. So a process killed at any moment leaves a correct journal, and the same command resumes from there. Settings
// that differ from those of the unfinished run are an error that names the difference.

// The work up to some place of the input.
struct preprocess_state {
    int64_t file;     // the next input to read
    uint64_t offset;  // and the next byte of its text
    int64_t line;     // and the number of its next line, from 1
    struct text_counts counts;
    uint64_t *bytes;  // (store_files) in each file of the store
};

void preprocess_state_init(struct preprocess_state *state, int64_t keys);
void preprocess_state_copy(struct preprocess_state *to, const struct preprocess_state *from, int64_t keys);
// Adds the amounts; the place becomes that of `more`.
void preprocess_state_add(struct preprocess_state *sum, const struct preprocess_state *more, int64_t keys);
void preprocess_state_free(struct preprocess_state *state);

enum journal_phase {
    JOURNAL_NEW,       // nothing was done yet
    JOURNAL_TOKENIZE,  // done up to the state
    JOURNAL_PUBLISH,   // all work is done; the finished files are being renamed
};

struct journal {
    char *folder;  // PREFIX.unfinished
    char *prefix;  // of the store's files in it
    int64_t keys;
    int lock;      // descriptor of a file that the running process has locked
    bool is_kept;  // there is a journal on disk
};

struct journal_options {
    const char *output_prefix;
    int64_t keys;
    const char *settings;  // one line for each setting that must not change
    bool restart;          // start over, ignoring earlier work
};

// Creates the folder, or finds an unfinished run in it: its phase and state (initialized by preprocess_state_init).
int journal_open(struct journal *journal, const struct journal_options *options, enum journal_phase *phase,
                 struct preprocess_state *state);
int journal_write(struct journal *journal, enum journal_phase phase, const struct preprocess_state *state);
// If there is no journal on disk, or if `finished`, the folder is removed.
void journal_close(struct journal *journal, bool finished);

// ---- run ----

// The parallel part of preprocessing: turns inputs into the files of a store, in input order for every number of
// threads.
//
// The unit of order is a lane: a run of plain files, or one compressed file. Threads read, tokenize and write pieces of
// the first lane that has work. A plain file always has work; a compressed one is read by one thread at a time, so
// other threads start the lanes after it. Those lanes write to stores of their own, which are copied when their turn
// comes. Pieces of a lane get their place in its store in order; any thread may write them.
//
// The error that is reported is the first in input order.

struct preprocess_run {
    const struct string_list *files;
    const bool *are_plain;        // (files) plain text, not JSON Lines
    uint64_t block_bytes;         // of plain text, see extract/inputs.h
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

// ---- end ----

// The end of preprocessing: the store's files become datasets and get their final names. Until the first rename nothing
// of the run is visible outside its folder. From then on the journal says so, and a run that was killed in between
// resumes with the remaining names.

struct preprocess_publish {
    const struct preprocess_options *options;
    struct journal *journal;
    enum index_dtype dtype;
    char *const *targets;   // (keys) final prefixes of the datasets
    const char *bad_lines;  // name of the list of bad lines
    const char *tokenizer;  // its record, see tokenizer/tokenizer.h
};

// Writes the .idx files, drops and reorders documents if requested, and syncs everything to disk. Closes the store and
// updates state->counts.
int preprocess_finish(const struct preprocess_publish *publish, struct store *store, struct preprocess_state *state);
// Renames the finished files.
int preprocess_publish(const struct preprocess_publish *publish, const struct preprocess_state *state);
// Publishes only the list of bad lines, if there are any.
int preprocess_publish_bad_lines(const struct preprocess_publish *publish, const struct preprocess_state *state);

#endif
