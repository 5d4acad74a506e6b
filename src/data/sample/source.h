// Where a loader takes its samples from: anything that can give the samples 0…count-1 (a dataset; a blend of several).
//
// A source of running text gives seq_length + 1 token ids through `read`: the extra token makes inputs and labels of
// the same length, and the loader makes masks and positions. A source whose samples are more than that (masked words,
// two sentences, encoder and decoder) has `fill` instead, which writes whole rows of the form it names.
#ifndef DATA_SAMPLE_SOURCE_H
#define DATA_SAMPLE_SOURCE_H

#include "data/sample/batch.h"
#include <stdint.h>

// Both functions may be called from a thread other than the one that opened the source, but from one at a time.
struct sample_source {
    void *context;
    const char *name;    // what errors call it: "valid split of data/books"
    int64_t count;       // samples
    int64_t seq_length;  // tokens of one sample, without the extra one; form.columns where there is a `fill`
    // A number below 0 stands for no token: the loader gives it no loss.
    int (*read)(void *context, int64_t sample, int32_t *tokens /* (seq_length + 1) */);
    struct batch_form form;  // only with `fill`
    int (*fill)(void *context, int64_t sample, const struct batch_row *row);
};

#endif
