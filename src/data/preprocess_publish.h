// The end of preprocessing: the store's files become datasets and get their final names. Until the first rename nothing
// of the run is visible outside its folder. From then on the journal says so, and a run that was killed in between
// resumes with the remaining names.
#ifndef DATA_PREPROCESS_PUBLISH_H
#define DATA_PREPROCESS_PUBLISH_H

#include "data/preprocess.h"
#include "data/preprocess_journal.h"
#include "data/preprocess_store.h"

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
