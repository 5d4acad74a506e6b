// Data of other programs as .bin/.idx of ours: shards of llm.c, what fairseq-preprocess made, or the text it would have
// been given. Of fairseq, every line of text (an item) becomes a sequence, with </s> at its end. Documents are what
// stands between empty lines, which fairseq keeps as items of a single </s>: these stay, at the end of the document
// before, because RoBERTa's samples (sample/block.h) look for them.
#ifndef DATA_IMPORT_H
#define DATA_IMPORT_H

#include "config/flag.h"
#include "data/index/index.h"
#include "data/tokenizer/tokenizer.h"
#include <stdbool.h>
#include <stdint.h>

struct import_options {
    const char *output;        // prefix of ours
    int64_t vocab_size;        // ids beyond it are errors, and it decides the dtype; 0 if unknown
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
int import_fairseq(const char *prefix, const struct import_options *options, struct import_summary *summary);

struct import_text {
    struct string_list files;  // plain or compressed; "-" is standard input
    const struct tokenizer *tokenizer;
    int threads;        // the output does not depend on it
    size_t line_limit;  // bytes; 0 for the default of lines.h
};
// Each line goes through the tokenizer as fairseq's encoder and fairseq-preprocess would take it, the blanks at its
// ends left out, and gets options->eos. Ill-formed UTF-8 is an error.
int import_text(const struct import_text *text, const struct import_options *options, struct import_summary *summary);

// Shards of llm.c, in order. options->eos is the id that documents begin with, -1 for the one that llm.c writes;
// lines_are_documents has no meaning here.
int import_llmc(const struct string_list *files, const struct import_options *options, struct import_summary *summary);

#endif
