// Converts text to datasets. In JSON Lines every line is a document, and each requested member goes into its own
// PREFIX_KEY_document.bin/.idx. In plain text every block of lines is a document (extract/inputs.h), stored under the
// first key. A member that is an array of strings becomes a document of several sequences, and so does one that is
// split into sentences (PREFIX_KEY_sentence). The files are identical for every number of workers and appear under
// their names only when everything is written. Until then the work is in PREFIX.unfinished/, and a stopped run resumes
// from there.
#ifndef DATA_PREPROCESS_H
#define DATA_PREPROCESS_H

#include "config/flag.h"
#include "data/extract/inputs.h"
#include "data/text_batch.h"
#include "data/tokenizer/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sentence_language;

struct preprocess_options {
    struct string_list inputs;  // files, patterns, folders, "-"
    enum text_format format;    // of the files
    struct string_list keys;    // members to tokenize
    const char *output_prefix;
    bool append_eod;  // after the last token of each non-empty document
    bool split_sentences, keep_newlines;
    const struct sentence_language *language;  // of sentences; NULL for English
    bool dedup;                                // leave out documents equal to an earlier one
    bool shuffle;                              // random order, by the seed
    uint64_t seed;
    int64_t partitions;  // above 1: documents are dealt in turn to this many parts, which are written one after another
    int workers;         // threads
    bool skip_bad_lines;
    bool replace_ill_formed;  // ill-formed UTF-8 and lone surrogates become U+FFFD instead of making a bad line
    size_t line_limit;        // bytes; 0 for the default
    int64_t log_interval;     // documents between Megatron's progress lines; 0 for a progress bar
    bool restart;             // discard an unfinished run instead of resuming it
    const char *tokenizer;    // describes the tokenizer, a line per property: a run cannot resume with another
    size_t chunk_bytes;       // text of a work item; 0 for the default
    double journal_seconds;   // between two journal entries
};

enum { PREPROCESS_LINE_LIMIT = 64 << 20 };
#define PREPROCESS_JOURNAL_SECONDS 5.0

struct preprocess_summary {
    struct text_counts counts;
    double seconds;          // of this run
    int64_t documents_kept;  // done by an earlier, stopped run
    char *bad_lines;         // name of the list of bad lines; NULL if there are none. The caller frees it
};

// Input without a single document is an error. On error, existing output files stay as they were.
int preprocess(const struct preprocess_options *options, const struct tokenizer *tokenizer,
               struct preprocess_summary *summary);

// PREFIX_KEY_document or PREFIX_KEY_sentence. The caller frees it.
char *preprocess_output_name(const struct preprocess_options *options, const char *key);

#endif
