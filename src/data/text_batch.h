// The unit of work of preprocessing: a chunk of JSON lines and, once tokenized, its documents under each key.
#ifndef DATA_TEXT_BATCH_H
#define DATA_TEXT_BATCH_H

#include "data/extract/jsonl.h"
#include "data/extract/lines.h"
#include "data/index/index.h"
#include "data/tokenizer/tokenizer.h"

struct text_counts {
    int64_t *items;
    int64_t count, capacity;
};

// The documents of one batch under one key: tokens of all sequences, tokens per sequence, sequences per document.
struct text_column {
    struct token_list tokens;
    struct text_counts sequences;
    struct text_counts documents;
};

struct text_batch {
    struct line_chunk chunk;
    struct text_column *columns;  // (keys)
    int64_t keys;
    int64_t empty_documents;  // without a token under at least one key
    int64_t bad_lines, blank_lines, repaired_lines;
    char *problem;  // of its first bad line; NULL for none
};

// What one thread needs to tokenize.
struct text_worker {
    struct tokenizer_encoder *encoder;
    struct jsonl_parser parser;
    int32_t eod;  // put after each document that has a token; -1 for none
};

struct text_batch *text_batch_create(int64_t keys);
void text_batch_free(struct text_batch *batch);

// Fills columns and counts from the chunk.
int text_batch_tokenize(struct text_batch *batch, struct text_worker *worker);
// Adds the documents of column i to writers[i].
int text_batch_write(const struct text_batch *batch, struct index_writer *const *writers);

#endif
