// Tokenizes one batch of lines, and hands the result to the dataset writers.
#include "data/text_batch.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>

struct text_batch *text_batch_create(int64_t keys) {
    struct text_batch *batch = memory_alloc(sizeof *batch);
    batch->columns = memory_alloc((size_t)keys * sizeof *batch->columns);
    batch->keys = keys;
    return batch;
}

void text_batch_free(struct text_batch *batch) {
    for (int64_t key = 0; key < batch->keys; key++) {
        token_list_free(&batch->columns[key].tokens);
        free(batch->columns[key].sequences.items);
        free(batch->columns[key].documents.items);
    }
    free(batch->columns);
    free(batch->problem);
    buffer_free(&batch->chunk.text);
    free(batch);
}

static void counts_append(struct text_counts *counts, int64_t value) {
    if (counts->count == counts->capacity) {
        counts->capacity = counts->capacity ? 2 * counts->capacity : 64;
        counts->items = memory_realloc(counts->items, (size_t)counts->capacity * sizeof *counts->items);
    }
    counts->items[counts->count++] = value;
}

// Adds one member of a line as a document. Sequences without tokens are left out, and a document of none gets no end.
// Where it fails, the column is as it was.
static int add_document(struct text_column *column, struct text_worker *worker, const struct json_text *text) {
    const int64_t tokens = column->tokens.count, sequences = column->sequences.count;
    const char *at = text->text.data;
    for (size_t i = 0; i < text->count; i++) {
        int64_t before = column->tokens.count;
        if (tokenizer_encode(worker->encoder, at, text->lengths[i], &column->tokens) < 0) {
            column->tokens.count = tokens;
            column->sequences.count = sequences;
            return -1;
        }
        at += text->lengths[i];
        if (column->tokens.count > before)
            counts_append(&column->sequences, column->tokens.count - before);
    }
    if (column->sequences.count > sequences && worker->eod >= 0) {
        token_list_append(&column->tokens, worker->eod);
        column->sequences.items[column->sequences.count - 1]++;
    }
    counts_append(&column->documents, column->sequences.count - sequences);
    return 0;
}

static void remove_last_document(struct text_column *column) {
    int64_t sequences = column->documents.items[--column->documents.count];
    while (sequences-- > 0)
        column->tokens.count -= column->sequences.items[--column->sequences.count];
}

// All members of a line become documents, or none does.
static int add_line(struct text_batch *batch, struct text_worker *worker) {
    bool empty = false;
    for (int64_t key = 0; key < batch->keys; key++) {
        struct text_column *column = &batch->columns[key];
        int64_t tokens = column->tokens.count;
        if (add_document(column, worker, &worker->parser.found[key]) < 0) {
            while (key-- > 0)
                remove_last_document(&batch->columns[key]);
            return -1;
        }
        empty = empty || column->tokens.count == tokens;
    }
    batch->empty_documents += empty;
    return 0;
}

static void clear(struct text_batch *batch) {
    for (int64_t key = 0; key < batch->keys; key++) {
        struct text_column *column = &batch->columns[key];
        column->tokens.count = column->sequences.count = column->documents.count = 0;
    }
    batch->empty_documents = 0;
}

int text_batch_tokenize(struct text_batch *batch, struct text_worker *worker) {
    struct jsonl_parser *parser = &worker->parser;
    clear(batch);
    parser->bad_lines = parser->blank_lines = parser->repaired_lines = 0;
    struct line_cursor cursor = {.chunk = &batch->chunk};
    while (line_cursor_next(&cursor)) {
        int status = jsonl_parse(parser, &cursor);
        if (status > 0 && add_line(batch, worker) < 0)
            status = jsonl_reject(parser, &cursor);
        TRY(status);
    }
    batch->bad_lines = parser->bad_lines;
    batch->blank_lines = parser->blank_lines;
    batch->repaired_lines = parser->repaired_lines;
    free(batch->problem);
    batch->problem = parser->problem;
    parser->problem = NULL;
    return 0;
}

static int write_column(struct index_writer *writer, const struct text_column *column) {
    const int32_t *tokens = column->tokens.ids;
    const int64_t *lengths = column->sequences.items;
    for (int64_t document = 0; document < column->documents.count; document++) {
        for (int64_t i = 0; i < column->documents.items[document]; i++) {
            TRY(index_writer_add(writer, tokens, *lengths));
            tokens += *lengths++;
        }
        TRY(index_writer_end_document(writer));
    }
    return 0;
}

int text_batch_write(const struct text_batch *batch, struct index_writer *const *writers) {
    for (int64_t key = 0; key < batch->keys; key++)
        TRY(write_column(writers[key], &batch->columns[key]));
    return 0;
}
