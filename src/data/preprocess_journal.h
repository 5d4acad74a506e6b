// The progress of a preprocessing run on disk: PREFIX.unfinished/ holds the unfinished datasets, their settings and a
// journal. The journal is written whole and atomically, with a checksum, after the data it describes has reached the
// disk. So a process killed at any moment leaves a correct journal, and the same command resumes from there. Settings
// that differ from those of the unfinished run are an error that names the difference.
#ifndef DATA_PREPROCESS_JOURNAL_H
#define DATA_PREPROCESS_JOURNAL_H

#include "base/buffer.h"
#include "data/text_batch.h"

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

#endif
