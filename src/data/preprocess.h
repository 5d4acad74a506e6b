// JSON Lines to datasets: every line is a document, each wanted member goes into its own PREFIX_KEY_document.bin/.idx.
// A member that is an array of strings is a document of several sequences, and so is one that is split into sentences
// (PREFIX_KEY_sentence). The files are the same bytes for every number of workers, and appear under their names only
// when all is written. Until then the work is in PREFIX.unfinished/, and a run that was stopped goes on from there.
#ifndef DATA_PREPROCESS_H
#define DATA_PREPROCESS_H

#include "config/flag.h"
#include "data/text_batch.h"
#include "data/tokenizer/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sentence_language;

struct preprocess_options {
    struct string_list inputs;  // files, patterns, folders, "-"
    struct string_list keys;    // members to tokenize
    const char *output_prefix;
    bool append_eod;  // after the last token of each document that has any
    bool split_sentences, keep_newlines;
    const struct sentence_language *language;  // of sentences; NULL for English
    bool dedup;                                // leave out documents equal to an earlier one
    bool shuffle;                              // random order, by the seed
    uint64_t seed;
    int64_t partitions;  // above 1: documents are dealt out in turn to so many parts, which come one after another
    int workers;         // threads
    bool skip_bad_lines;
    bool replace_ill_formed;  // ill-formed UTF-8 and lone surrogates become U+FFFD instead of making a bad line
    size_t line_limit;        // bytes; 0 for the default
    int64_t log_interval;     // documents between Megatron's progress lines; 0 for a progress bar
    bool restart;             // a begun run is dropped, not continued
    const char *tokenizer;    // what the tokenizer is made of, a line each: another one cannot continue a run
    size_t chunk_bytes;       // text of a piece of work; 0 for the default
    double journal_seconds;   // between two notes of how far the work is
};

enum { PREPROCESS_LINE_LIMIT = 64 << 20 };
#define PREPROCESS_JOURNAL_SECONDS 5.0

struct preprocess_summary {
    struct text_counts counts;
    double seconds;          // of this run
    int64_t documents_kept;  // that an earlier, stopped run had done
    char *bad_lines;         // name of the list of bad lines, to be freed; NULL if there are none
};

// Input without a single document is an error. On error older files of the output's names stay as they were.
int preprocess(const struct preprocess_options *options, const struct tokenizer *tokenizer,
               struct preprocess_summary *summary);

// PREFIX_KEY_document or PREFIX_KEY_sentence, to be freed.
char *preprocess_output_name(const struct preprocess_options *options, const char *key);

#endif
