// The work item of preprocessing: a piece of JSON lines or of plain text (in blocks, see extract/inputs.h) and, once
// tokenized, its documents under each key, as the bytes that go to disk. They do not depend on the text before the
// piece: lengths are counts, not offsets, and lines are numbered from 0, so batches can be made in any order and
// concatenated.
#ifndef DATA_TEXT_BATCH_H
#define DATA_TEXT_BATCH_H

#include "data/extract/jsonl.h"
#include "data/extract/lines.h"
#include "data/index/index.h"
#include "data/tokenizer/tokenizer.h"

// Counts of preprocessing.
struct text_counts {
    int64_t documents;
    int64_t empty_documents;  // without a token under at least one key
    int64_t tokens;           // under all keys
    int64_t longest_tokens;   // of one document under one key
    int64_t bad_lines, blank_lines, repaired_lines;
    int64_t text_bytes;  // of the lines, decompressed
    int64_t duplicates;  // documents left out because they equal an earlier one
};

// A position in a column.
struct text_mark {
    int64_t tokens;
    size_t lengths, documents;  // bytes
};

// The documents of one batch under one key.
struct text_column {
    struct token_list tokens;
    size_t token_bytes;       // in the dataset's dtype, at the place of the ids
    struct buffer lengths;    // int32 per sequence: its tokens
    struct buffer documents;  // int32 per document: its sequences
    struct text_mark before;  // the current line: a bad line is rolled back to here
};

struct text_problem {
    int64_t line;  // of the piece, from 0
    char *message;
};

struct text_batch {
    struct line_piece piece;
    struct text_column *columns;  // (keys)
    int64_t keys;
    int64_t lines;  // in the piece
    struct text_counts counts;
    struct text_problem *problems;  // (counts.bad_lines) lines that were skipped
    int64_t problem_capacity;
    int64_t failed_line;  // the line that made tokenizing fail, from 0; else -1
};

struct sentence_language;

// A thread's settings and memory for tokenizing.
struct text_worker {
    struct tokenizer_encoder *encoder;
    struct jsonl_parser parser;
    enum index_dtype dtype;
    int32_t eod;           // put after each document that has a token; -1 for none
    size_t line_limit;     // bytes
    bool split_sentences;  // every sentence is a sequence
    bool keep_newlines;    // see sentence.h
    const struct sentence_language *language;
};

struct text_batch *text_batch_create(int64_t keys);
void text_batch_free(struct text_batch *batch);
// Frees buffers larger than `bytes`.
void text_batch_shrink(struct text_batch *batch, size_t bytes);

// Fills everything from the piece.
int text_batch_tokenize(struct text_batch *batch, struct text_worker *worker);

void text_counts_add(struct text_counts *sum, const struct text_counts *more);

#endif
