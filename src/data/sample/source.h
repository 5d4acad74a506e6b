// Where a loader takes its samples from: anything that can fill seq_length + 1 token ids for the sample numbers
// 0…count-1 (a GPT dataset; a blend of several). The extra token makes inputs and labels of the same length.
#ifndef DATA_SAMPLE_SOURCE_H
#define DATA_SAMPLE_SOURCE_H

#include <stdint.h>

struct sample_source {
    void *context;
    const char *name;    // what errors call it: "valid split of data/books"
    int64_t count;       // samples
    int64_t seq_length;  // tokens of one sample, without the extra one
    // A number below 0 stands for no token: the loader gives it no loss.
    // May be called from a thread other than the one that opened the source, but from one at a time.
    int (*read)(void *context, int64_t sample, int32_t *tokens /* (seq_length + 1) */);
};

#endif
