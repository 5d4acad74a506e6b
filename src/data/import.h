// Datasets of other programs made into .bin/.idx of ours. fairseq: every item (a line of text) becomes a sequence, with
// its </s>. Documents are what stands between empty lines, which fairseq keeps as items of a single </s>: these stay,
// at the end of the document before, because RoBERTa's samples (sample/block.h) look for them.
#ifndef DATA_IMPORT_H
#define DATA_IMPORT_H

#include "data/index/index.h"
#include <stdbool.h>
#include <stdint.h>

struct import_options {
    const char *input;         // prefix of fairseq's pair of files
    const char *output;        // prefix of ours
    int64_t vocab_size;        // ids beyond it are errors, and it decides the dtype; 0 where unknown
    int32_t eos;               // the only token of an empty line
    bool lines_are_documents;  // every item is a document of its own
};

struct import_summary {
    int64_t documents, sequences, tokens;
    int64_t separators;  // empty lines
    int32_t largest_id;
    enum index_dtype dtype;
};

// The output appears when it is whole; on error nothing is left of it.
int import_fairseq(const struct import_options *options, struct import_summary *summary);

#endif
