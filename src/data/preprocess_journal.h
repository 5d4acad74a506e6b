// How far a run of preprocessing is, on disk: PREFIX.unfinished/ holds the datasets in the making, the settings they
// are made with, and a journal. The journal is written whole and atomically, with a checksum, after what it speaks of
// has reached the disk; so a process killed at any moment leaves a journal that is true, and the same command goes on
// from there. Settings that differ from those of a begun run are an error that names the difference.
#ifndef DATA_PREPROCESS_JOURNAL_H
#define DATA_PREPROCESS_JOURNAL_H

#include "base/buffer.h"
#include "data/text_batch.h"

// Everything up to some place of the input.
struct preprocess_state {
    int64_t file;     // the input that is read next
    uint64_t offset;  // and the byte of its text
    int64_t line;     // and the number of its next line, from 1
    struct text_counts counts;
    uint64_t *bytes;  // (store_files) in each file of the store
};

void preprocess_state_init(struct preprocess_state *state, int64_t keys);
void preprocess_state_copy(struct preprocess_state *to, const struct preprocess_state *from, int64_t keys);
void preprocess_state_free(struct preprocess_state *state);

enum journal_phase {
    JOURNAL_NEW,       // nothing is done yet
    JOURNAL_TOKENIZE,  // done up to the state
    JOURNAL_PUBLISH,   // all is done, and the finished files take their names
};

struct journal {
    char *folder;  // PREFIX.unfinished
    char *prefix;  // of the store's files in it
    int64_t keys;
    int lock;      // descriptor of a file that the process at work has locked
    bool is_kept;  // a journal stands on disk
};

struct journal_options {
    const char *output_prefix;
    int64_t keys;
    const char *settings;  // a line for each thing that must not change in between
    bool restart;          // begin anew, whatever there is
};

// Makes the folder, or finds a begun run in it: the phase and its state (made by preprocess_state_init).
int journal_open(struct journal *journal, const struct journal_options *options, enum journal_phase *phase,
                 struct preprocess_state *state);
int journal_write(struct journal *journal, enum journal_phase phase, const struct preprocess_state *state);
// Closes. Where no journal stands on disk, or `finished`, the folder goes too.
void journal_close(struct journal *journal, bool finished);

#endif
