// Where a loader takes its samples from: anything that can provide samples 0…count-1 (a dataset, a blend of several).
//
// A source of running text returns seq_length + 1 token ids through `read`: the extra token gives inputs and labels the
// same length, and the loader makes masks and positions. A source whose samples are more than that (masked words, two
// sentences, encoder and decoder) has `fill` instead, which writes whole rows of its form.
#ifndef DATA_SAMPLE_SOURCE_H
#define DATA_SAMPLE_SOURCE_H

#include "data/batch.h"
#include <stdint.h>

// Both functions may be called from another thread than the one that opened the source, but from one at a time.
struct sample_source {
    void *context;
    const char *name;    // the source in messages: "valid split of data/books"
    int64_t count;       // samples
    int64_t seq_length;  // tokens of one sample, without the extra one; form.T if there is a `fill`
    // A negative number means no token: the loader gives it no loss.
    int (*read)(void *context, int64_t sample, int32_t *tokens /* (seq_length + 1) */);
    struct batch_form form;  // only with `fill`
    int (*fill)(void *context, int64_t sample, const struct batch *row);
};

#endif
