// CSV and TSV as in RFC 4180, read as Python's csv module with strict=True does: a quote inside a field that does not
// begin with one is text. Rows with a problem become bad rows, and the next one begins where Python's would.
#include "data/table/table.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_BYTES = 1 << 18, MOST_HEADER_BYTES = 1 << 20 };

// Where the reader stands in a field: before it, in it, between its quotes, or after a quote that may end it.
enum field_place { BEFORE, UNQUOTED, QUOTED, AFTER_QUOTE };

struct delimited {
    struct table_bytes bytes;
    int64_t fields;      // of the header; 0 while that is read
    int64_t *fields_of;  // (columns) the field of each
    bool *is_wanted;     // (fields)
    uint64_t line;       // of the file, from 1
    bool after_return;   // the last byte ended a line; \n may follow
    // The row that is read:
    struct buffer text;  // of the wanted fields, one after the other
    size_t *ends;        // (capacity) where each field ends in text; no more of them than the header has
    int64_t count, capacity;
    enum field_place place;
    uint64_t row_bytes, row_line, quote_line;
    const char *problem;  // the first one; NULL for none
};

// ---- one row ----

static void begin_row(struct delimited *table) {
    buffer_clear(&table->text);
    table->count = 0;
    table->place = BEFORE;
    table->row_bytes = 0;
    table->row_line = table->line;
    table->problem = NULL;
}

static void note_problem(struct delimited *table, const char *problem) {
    table->problem = table->problem ? table->problem : problem;
}

static void take_text(struct delimited *table, const char *text, size_t length) {
    if (table->place == AFTER_QUOTE)
        note_problem(table, "text after the quote that ends a field; quotes in a field are doubled");
    if (table->place != QUOTED)
        table->place = UNQUOTED;
    if (!table->is_wanted || (table->count < table->fields && table->is_wanted[table->count]))
        buffer_append(&table->text, text, length);
}

static void take_quote(struct delimited *table) {
    if (table->place == BEFORE) {
        table->quote_line = table->line;
        table->place = QUOTED;
    } else if (table->place == QUOTED) {
        table->place = AFTER_QUOTE;
    } else {
        table->place = table->place == AFTER_QUOTE ? QUOTED : UNQUOTED;
        take_text(table, "\"", 1);
    }
}

static void end_field(struct delimited *table) {
    if (table->fields == 0 || table->count < table->fields) {
        MEMORY_GROW(table->ends, table->count, table->capacity);
        table->ends[table->count] = table->text.length;
    }
    table->count++;
    table->place = BEFORE;
}

// Takes a separator, a quote, a NUL, or a byte that ends lines. Whether it ends the row.
static bool take_mark(struct delimited *table, char mark) {
    bool is_quoted = table->place == QUOTED;
    if (mark == 0)
        note_problem(table, "a NUL byte");
    else if (mark == '"')
        take_quote(table);
    else if (is_quoted)
        take_text(table, &mark, 1);
    else
        end_field(table);
    table->line += mark == '\n' || (mark == '\r' && !is_quoted);
    table->after_return = mark == '\r' && !is_quoted;
    return !is_quoted && (mark == '\n' || mark == '\r');
}

// Reads a row, empty or not: 1, 0 at the end of the file, -1 on error.
static int read_row(struct delimited *table) {
    const uint64_t most = table->fields > 0 ? TABLE_MOST_ROW_BYTES : MOST_HEADER_BYTES;
    const char *text;
    int64_t count;
    begin_row(table);
    while ((count = table_take(&table->bytes, &text)) > 0) {
        bool is_mark = table->bytes.is_mark[(unsigned char)*text];
        bool is_second = *text == '\n' && table->after_return;
        if (is_mark && !is_second && take_mark(table, *text))
            return 1;
        if (!is_mark)
            take_text(table, text, (size_t)count);
        table->after_return = false;
        table->row_bytes += is_second ? 0 : (uint64_t)count;
        if (table->row_bytes > most)
            return bad_data("%s:%" PRIu64 ": the row is longer than %" PRIu64 " bytes; check its quotes",
                            table->bytes.input.name, table->row_line, most);
    }
    TRY((int)count);
    if (table->row_bytes == 0)
        return 0;
    if (table->place == QUOTED)
        note_problem(table, "a quote without an end, which takes in the rest of the file");
    table->row_line = table->place == QUOTED ? table->quote_line : table->row_line;
    end_field(table);
    return 1;
}

static size_t begin_of(const struct delimited *table, int64_t field) {
    return field > 0 ? table->ends[field - 1] : 0;
}

static void write_row(const struct delimited *table, struct buffer *lines) {
    const struct table_columns *columns = &table->bytes.input.columns;
    if (table->row_bytes == 0) {
        buffer_append_byte(lines, '\n');
    } else if (table->problem) {
        table_add_bad_row(lines, "line %" PRIu64 " of the file has %s", table->row_line, table->problem);
    } else if (table->count != table->fields) {
        table_add_bad_row(lines,
                          "the row at line %" PRIu64 " of the file has %" PRId64 " field%s, but the header %" PRId64
                          "; fields with separators or line ends need quotes",
                          table->row_line, table->count, table->count == 1 ? "" : "s", table->fields);
    } else {
        struct json_writer line = table_begin_row(lines);
        for (int64_t i = 0; i < columns->count; i++) {
            size_t begin = begin_of(table, table->fields_of[i]), end = table->ends[table->fields_of[i]];
            json_key(&line, columns->names[i]);
            json_string(&line, buffer_string(&table->text) + begin, end - begin);
        }
        table_end_row(&line);
    }
}

// ---- the header ----

static int refuse_column(const struct delimited *table, const char *column) {
    struct buffer others = {0};
    for (int64_t i = 0; i < table->count; i++) {
        size_t begin = begin_of(table, i);
        char *name = memory_printf("%.*s", (int)(table->ends[i] - begin), buffer_string(&table->text) + begin);
        table_note_column(&others, name);
        free(name);
    }
    table_refuse_column(&table->bytes.input, column, &others);
    buffer_free(&others);
    return -1;
}

// The number of a column; of equal names the last counts, as in Python. -1 with an error if there is none.
static int64_t find_column(const struct delimited *table, const char *column) {
    for (int64_t i = table->count - 1; i >= 0; i--) {
        size_t begin = begin_of(table, i), bytes = table->ends[i] - begin;
        if (strlen(column) == bytes && memcmp(buffer_string(&table->text) + begin, column, bytes) == 0)
            return i;
    }
    return refuse_column(table, column);
}

static int read_header(struct delimited *table) {
    const struct table_columns *columns = &table->bytes.input.columns;
    int status = 1;
    while (status > 0 && table->row_bytes == 0)
        status = read_row(table);
    TRY(status);
    if (table->problem)
        return bad_data("%s:%" PRIu64 ": the header has %s", table->bytes.input.name, table->row_line, table->problem);
    table->fields_of = memory_alloc((size_t)columns->count * sizeof *table->fields_of);
    bool *is_wanted = table->is_wanted = memory_alloc((size_t)table->count + 1);
    for (int64_t i = 0; i < columns->count; i++) {
        table->fields_of[i] = find_column(table, columns->names[i]);
        TRY((int)table->fields_of[i]);
        is_wanted[table->fields_of[i]] = true;
    }
    table->fields = table->count;
    return 0;
}

// ---- the kinds ----

static void delimited_close(void *state) {
    struct delimited *table = state;
    buffer_free(&table->text);
    free(table->ends);
    free(table->fields_of);
    free(table->is_wanted);
    free(table);
}

static int open_with(void **state, const struct table_input *input, char separator) {
    struct delimited *table = memory_alloc(sizeof *table);
    table->line = 1;
    table_bytes_begin(&table->bytes, input, (const char[]){'"', '\r', '\n', separator, 0}, 5);
    if (read_header(table) < 0) {
        delimited_close(table);
        return -1;
    }
    *state = table;
    return 0;
}

static int csv_open(void **state, const struct table_input *input) {
    return open_with(state, input, ',');
}

static int tsv_open(void **state, const struct table_input *input) {
    return open_with(state, input, '\t');
}

static int delimited_next(void *state, struct buffer *lines) {
    struct delimited *table = state;
    size_t before = lines->length;
    while (lines->length - before < LINES_BYTES) {
        int status = read_row(table);
        TRY(status);
        if (status == 0)
            break;
        write_row(table, lines);
    }
    return lines->length > before;
}

const struct table_kind table_csv = {.name = "CSV",
                                     .endings = {".csv"},
                                     .needs_ending = true,
                                     .open = csv_open,
                                     .next = delimited_next,
                                     .close = delimited_close};
const struct table_kind table_tsv = {.name = "TSV",
                                     .endings = {".tsv"},
                                     .needs_ending = true,
                                     .open = tsv_open,
                                     .next = delimited_next,
                                     .close = delimited_close};
