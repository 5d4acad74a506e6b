// Tokenizes one batch of lines into the bytes of a dataset: line by line into columns of ids and counts, then the ids
// in place into the dataset's dtype. A line is in all columns or in none: a bad line is rolled back to the marks set
// before it.
#include "data/text_batch.h"
#include "data/extract/inputs.h"
#include "data/sentence.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct text_batch *text_batch_create(int64_t keys) {
    struct text_batch *batch = memory_alloc(sizeof *batch);
    batch->columns = memory_alloc((size_t)keys * sizeof *batch->columns);
    batch->keys = keys;
    return batch;
}

static void drop_problems(struct text_batch *batch) {
    for (int64_t i = 0; i < batch->counts.bad_lines; i++)
        free(batch->problems[i].message);
    batch->counts = (struct text_counts){0};
}

void text_batch_free(struct text_batch *batch) {
    for (int64_t key = 0; key < batch->keys; key++) {
        token_list_free(&batch->columns[key].tokens);
        buffer_free(&batch->columns[key].lengths);
        buffer_free(&batch->columns[key].documents);
    }
    drop_problems(batch);
    free(batch->problems);
    free(batch->columns);
    line_piece_free(&batch->piece);
    free(batch);
}

void text_batch_shrink(struct text_batch *batch, size_t bytes) {
    if (batch->piece.text.capacity > bytes)
        buffer_free(&batch->piece.text);
    for (int64_t key = 0; key < batch->keys; key++) {
        struct text_column *column = &batch->columns[key];
        if ((size_t)column->tokens.capacity * sizeof *column->tokens.ids > bytes)
            token_list_free(&column->tokens);
        if (column->lengths.capacity > bytes)
            buffer_free(&column->lengths);
        if (column->documents.capacity > bytes)
            buffer_free(&column->documents);
    }
}

void text_counts_add(struct text_counts *sum, const struct text_counts *more) {
    sum->documents += more->documents;
    sum->empty_documents += more->empty_documents;
    sum->tokens += more->tokens;
    sum->longest_tokens = sum->longest_tokens > more->longest_tokens ? sum->longest_tokens : more->longest_tokens;
    sum->bad_lines += more->bad_lines;
    sum->blank_lines += more->blank_lines;
    sum->repaired_lines += more->repaired_lines;
    sum->text_bytes += more->text_bytes;
}

// ---- documents ----

static void append_count(struct buffer *counts, int64_t value) {
    int32_t count = (int32_t)value;
    buffer_append(counts, &count, sizeof count);
}

// Adds one sequence, unless it has no tokens.
static int add_sequence(struct text_column *column, struct text_worker *worker, const char *text, size_t length) {
    int64_t before = column->tokens.count;
    TRY(tokenizer_encode(worker->encoder, text, length, &column->tokens));
    int64_t count = column->tokens.count - before;
    if (count >= INT32_MAX)
        return error_set("a sequence of %" PRId64 " tokens is longer than the format's %" PRId32 "; split the document",
                         count, INT32_MAX);
    if (count > 0)
        append_count(&column->lengths, count);
    return 0;
}

static int add_text(struct text_column *column, struct text_worker *worker, const char *text, size_t length) {
    if (!worker->split_sentences)
        return add_sequence(column, worker, text, length);
    struct sentence_splitter splitter = {
        .text = text,
        .length = length,
        .keep_newlines = worker->keep_newlines,
        .language = worker->language,
    };
    struct sentence sentence;
    while (sentence_next(&splitter, &sentence))
        TRY(add_sequence(column, worker, text + sentence.begin, sentence.end - sentence.begin));
    return 0;
}

// The end-of-document token belongs to the last sequence.
static void add_end(struct text_column *column, int32_t eod) {
    int32_t last;
    char *place = column->lengths.data + column->lengths.length - sizeof last;
    token_list_append(&column->tokens, eod);
    memcpy(&last, place, sizeof last);
    last++;
    memcpy(place, &last, sizeof last);
}

// Adds one member of a line as a document. A document without sequences gets no end-of-document token.
static int add_document(struct text_column *column, struct text_worker *worker, const struct json_text *text) {
    const size_t before = column->lengths.length;
    const char *at = text->text.data;
    for (size_t i = 0; i < text->count; at += text->lengths[i++])
        TRY(add_text(column, worker, at, text->lengths[i]));
    if (column->lengths.length > before && worker->eod >= 0)
        add_end(column, worker->eod);
    append_count(&column->documents, (int64_t)((column->lengths.length - before) / sizeof(int32_t)));
    return 0;
}

static void mark(struct text_column *column) {
    column->before = (struct text_mark){column->tokens.count, column->lengths.length, column->documents.length};
}

static void take_back(struct text_column *column) {
    column->tokens.count = column->before.tokens;
    column->lengths.length = column->before.lengths;
    column->documents.length = column->before.documents;
}

static void count_line(struct text_batch *batch) {
    bool is_empty = false;
    for (int64_t key = 0; key < batch->keys; key++) {
        int64_t tokens = batch->columns[key].tokens.count - batch->columns[key].before.tokens;
        is_empty = is_empty || tokens == 0;
        batch->counts.tokens += tokens;
        if (tokens > batch->counts.longest_tokens)
            batch->counts.longest_tokens = tokens;
    }
    batch->counts.documents++;
    batch->counts.empty_documents += is_empty;
}

// All members of a line become documents, or none does.
static int add_line(struct text_batch *batch, struct text_worker *worker) {
    int status = 0;
    for (int64_t key = 0; key < batch->keys; key++)
        mark(&batch->columns[key]);
    for (int64_t key = 0; status == 0 && key < batch->keys; key++)
        status = add_document(&batch->columns[key], worker, &worker->parser.found[key]);
    if (status == 0)
        count_line(batch);
    for (int64_t key = 0; status < 0 && key < batch->keys; key++)
        take_back(&batch->columns[key]);
    return status;
}

// ---- lines ----

// Appends the remedy for a bad line that ends the run; says what a file is that begins with one.
static void add_remedy(const struct text_batch *batch) {
    const struct buffer *text = &batch->piece.text;
    const size_t length = text->length < CONTENT_TEXT_BYTES ? text->length : CONTENT_TEXT_BYTES;
    OWNED char *problem = memory_string(error_message());
    const char *more = "";
    if (strstr(problem, "not JSON Lines") || strstr(problem, "`jq "))
        return;
    if (batch->lines == 0 && batch->piece.begin == 0 && strstr(problem, ": not an object;") &&
        content_check_text("-", text->data, length) < 0)
        return;
    if (strstr(problem, "not UTF-8"))
        more = ", or have such bytes replaced by U+FFFD with --invalid-utf8 replace";
    else if (strstr(problem, ": not an object;"))
        more = "; for plain text give --input-format text; `bevatron dataset import --text FILE` makes a sequence of "
               "each line";
    bad_data("%s; correct it, or skip bad lines with --skip-bad-lines%s", problem, more);
}

// Handles a bad line, whose error is set: it is recorded, or it ends the batch.
static int reject(struct text_batch *batch, const struct text_worker *worker, int64_t line) {
    if (!worker->parser.options.skip_bad_lines) {
        batch->failed_line = line;
        add_remedy(batch);
        return -1;
    }
    int64_t *count = &batch->counts.bad_lines;
    if (*count == batch->problem_capacity) {
        batch->problem_capacity = 2 * *count + 16;
        batch->problems = memory_realloc(batch->problems, (size_t)batch->problem_capacity * sizeof *batch->problems);
    }
    batch->problems[(*count)++] = (struct text_problem){line, memory_string(error_message())};
    error_clear();
    return 0;
}

static int take_line(struct text_batch *batch, struct text_worker *worker, const char *line, size_t length) {
    if (length > worker->line_limit)
        return line_too_long(worker->line_limit);
    int found = jsonl_find(&worker->parser, line, length);
    TRY(found);
    batch->counts.blank_lines += found == 0;
    return found > 0 ? add_line(batch, worker) : 0;
}

static int take_lines(struct text_batch *batch, struct text_worker *worker) {
    const struct line_piece *piece = &batch->piece;
    const char *at = piece->text.data + piece->first, *end = piece->text.data + piece->text.length;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if (take_line(batch, worker, at, (size_t)(stop - at)) < 0)
            TRY(reject(batch, worker, batch->lines));
        batch->lines++;
        at = stop + 1;
    }
    return 0;
}

// ---- plain text ----

// Appends a line to the current document, which is built where the parser puts the first member of a JSON line.
static int take_text_line(struct text_worker *worker, const char *line, size_t length) {
    struct jsonl_parser *parser = &worker->parser;
    struct buffer *text = &parser->found[0].text;
    if (length > worker->line_limit)
        return line_too_long(worker->line_limit);
    size_t good = utf8_check(line, length);
    if (good < length && !parser->options.replace_ill_formed)
        return bad_data("byte %zu of the line is not UTF-8", good);
    const char *zero = memchr(line, 0, length);
    if (zero)
        return bad_data(
            "byte %td of the line is NUL, so this is hardly text; `tr -d '\\0' <FILE >OUT` drops such bytes",
            zero - line);
    parser->repaired_lines += good < length;
    buffer_append_repaired(text, line, length);
    return 0;
}

static int end_text(struct text_batch *batch, struct text_worker *worker) {
    struct json_text *found = &worker->parser.found[0];
    json_text_set_whole(found);
    if (!utf8_is_blank(found->text.data, found->text.length))
        TRY(add_line(batch, worker));
    buffer_clear(&found->text);
    return 0;
}

// The lines that begin in one block of the file form a document.
static int take_text(struct text_batch *batch, struct text_worker *worker) {
    const struct line_piece *piece = &batch->piece;
    const char *at = piece->text.data + piece->first, *end = piece->text.data + piece->text.length;
    uint64_t block = UINT64_MAX;
    buffer_clear(&worker->parser.found[0].text);
    while (at < end) {
        uint64_t next = (piece->origin + (uint64_t)(at - piece->text.data)) / piece->block_bytes;
        if (next != block)
            TRY(end_text(batch, worker));
        block = next;
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop + 1 : end;
        if (take_text_line(worker, at, (size_t)(stop - at)) < 0)
            TRY(reject(batch, worker, batch->lines));
        batch->lines++;
        at = stop;
    }
    return end_text(batch, worker);
}

static int take_piece(struct text_batch *batch, struct text_worker *worker) {
    TRY(batch->piece.block_bytes > 0 ? take_text(batch, worker) : take_lines(batch, worker));
    if (batch->piece.too_long) {
        line_too_long(worker->line_limit);
        TRY(reject(batch, worker, batch->lines));
        batch->lines++;
    }
    return 0;
}

// ---- bytes ----

// Converts ids in place to the dataset's dtype, which is never wider than the ids.
static int pack_tokens(struct text_column *column, enum index_dtype dtype) {
    int32_t block[4096];
    const int64_t block_tokens = sizeof block / sizeof block[0];
    unsigned char *out = (unsigned char *)column->tokens.ids;
    size_t item_bytes = index_dtype_bytes(dtype);
    CHECK(item_bytes <= sizeof block[0]);
    column->token_bytes = (size_t)column->tokens.count * item_bytes;
    if (item_bytes == sizeof block[0])
        return 0;
    for (int64_t done = 0; done < column->tokens.count; done += block_tokens) {
        int64_t part = column->tokens.count - done < block_tokens ? column->tokens.count - done : block_tokens;
        memcpy(block, column->tokens.ids + done, (size_t)part * sizeof block[0]);
        int64_t good = index_encode(dtype, block, part, out + (size_t)done * item_bytes);
        if (good < part)
            return error_set("token %" PRId32 " does not fit %s", block[good], index_dtype_name(dtype));
    }
    return 0;
}

static void clear(struct text_batch *batch) {
    for (int64_t key = 0; key < batch->keys; key++) {
        struct text_column *column = &batch->columns[key];
        column->tokens.count = 0;
        column->token_bytes = 0;
        buffer_clear(&column->lengths);
        buffer_clear(&column->documents);
    }
    drop_problems(batch);
    batch->lines = 0;
    batch->failed_line = -1;
}

int text_batch_tokenize(struct text_batch *batch, struct text_worker *worker) {
    clear(batch);
    worker->parser.repaired_lines = 0;
    TRY(take_piece(batch, worker));
    batch->counts.repaired_lines = worker->parser.repaired_lines;
    batch->counts.text_bytes = (int64_t)(batch->piece.text.length - batch->piece.first);
    for (int64_t key = 0; key < batch->keys; key++)
        TRY(pack_tokens(&batch->columns[key], worker->dtype));
    return 0;
}
