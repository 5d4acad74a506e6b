// Imports data of other programs as .bin/.idx: tokens of llm.c and nanoGPT, the output of fairseq-preprocess, or
// the text that would have been its input. From fairseq, every line of text (an item) becomes a sequence that ends
// in </s>. Documents are separated by empty lines, which fairseq stores as items of a single </s>. These are kept
// at the end of the document before them, because RoBERTa's samples (sample/roberta.h) look for them.
#ifndef DATA_IMPORT_H
#define DATA_IMPORT_H

#include "config/flag.h"
#include "data/index/index.h"
#include "data/tokenizer/tokenizer.h"
#include <stdbool.h>
#include <stdint.h>

struct import_options {
    const char *output;        // prefix of the output
    int64_t vocab_size;        // ids must be below it, and it decides the dtype; 0 if unknown
    int32_t eos;               // the only token of an empty line
    bool lines_are_documents;  // every item is a separate document
    const char *tokenizer;     // its record; NULL if it is unknown
    bool is_nanogpt;           // import_llmc: files without headers
};

struct import_summary {
    int64_t documents, sequences, tokens;
    int64_t separators;  // empty lines
    int32_t largest_id;
    enum index_dtype dtype;
};

// The output appears once it is complete; on error nothing is left.
int import_fairseq(const char *prefix, const struct import_options *options, struct import_summary *summary);

struct import_text {
    struct string_list files;  // plain or compressed; "-" is standard input
    const struct tokenizer *tokenizer;
    int threads;        // the output does not depend on it
    size_t line_limit;  // bytes; 0 for the default of lines.h
};
// Tokenizes each line as fairseq's encoder and fairseq-preprocess would, without the spaces at its ends, and appends
// options->eos. Ill-formed UTF-8 is an error.
int import_text(const struct import_text *text, const struct import_options *options, struct import_summary *summary);

// Shards of llm.c, in order. options->eos is the id that documents begin with, -1 for the one that llm.c writes;
// lines_are_documents is ignored. With is_nanogpt, files of nanoGPT.
int import_llmc(const struct string_list *files, const struct import_options *options, struct import_summary *summary);

#endif
