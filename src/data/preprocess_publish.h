// The end of preprocessing: the store's files become datasets, and these take their names. Until the first name is
// taken nothing of the run can be seen outside its folder; from then on the journal says so, and whoever is killed
// in between goes on with the names that are left.
#ifndef DATA_PREPROCESS_PUBLISH_H
#define DATA_PREPROCESS_PUBLISH_H

#include "config/flag.h"
#include "data/index/index.h"
#include "data/preprocess_journal.h"
#include "data/preprocess_store.h"

struct preprocess_publish {
    struct journal *journal;
    enum index_dtype dtype;
    char *const *targets;   // (keys) prefixes that the datasets get
    const char *bad_lines;  // name of the list of bad lines
    bool dedup, shuffle;
    uint64_t seed;
    int64_t partitions;
};

// Writes the .idx files, drops and reorders documents where that is asked for, and brings all to disk. The store is
// closed. state->counts follow.
int preprocess_finish(const struct preprocess_publish *publish, struct store *store, struct preprocess_state *state);
// Gives what is finished its name.
int preprocess_publish(const struct preprocess_publish *publish, const struct preprocess_state *state);
// The list of bad lines alone, if there are any.
int preprocess_publish_bad_lines(const struct preprocess_publish *publish, const struct preprocess_state *state);

#endif
