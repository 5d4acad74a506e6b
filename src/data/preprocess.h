// JSON Lines to datasets: every line is a document, each wanted member goes into its own PREFIX_KEY_document.bin/.idx.
// A member that is an array of strings is a document of several sequences. The files are the same bytes for every
// number of workers, and appear under their names only when all is written.
#ifndef DATA_PREPROCESS_H
#define DATA_PREPROCESS_H

#include "config/flag.h"
#include "data/tokenizer/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct preprocess_options {
    struct string_list inputs;  // files, patterns, "-"
    struct string_list keys;    // members to tokenize
    const char *output_prefix;
    bool append_eod;  // after the last token of each document that has any
    int workers;      // threads
    bool skip_bad_lines;
    bool replace_ill_formed;  // ill-formed UTF-8 becomes U+FFFD instead of making a bad line
    size_t line_limit;        // bytes; 0 for the default
    int64_t log_interval;     // documents between Megatron's progress lines; 0 for a progress bar
};

struct preprocess_summary {
    int64_t documents;
    int64_t empty_documents;  // without a token under at least one key
    int64_t tokens;           // under all keys
    int64_t bad_lines, blank_lines, repaired_lines;
    uint64_t text_bytes;  // of the lines, decompressed
    double seconds;
};

// Input without a single document is an error. On error nothing is left of the output, and older files of its names
// stay as they were.
int preprocess(const struct preprocess_options *options, const struct tokenizer *tokenizer,
               struct preprocess_summary *summary);

// PREFIX_KEY_document, to be freed.
char *preprocess_output_name(const char *output_prefix, const char *key);

#endif
