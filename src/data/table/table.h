// Files of rows instead of lines: Parquet, Arrow, WARC, tar, CSV, TSV, JSON arrays. Each kind is a row of one table
// (table.c). Its rows are delivered as JSON Lines with the wanted columns, so whatever reads lines reads tables, too:
// line N is row N. A null is an empty string; a list becomes an array of the strings in it, without nulls.
#ifndef DATA_TABLE_TABLE_H
#define DATA_TABLE_TABLE_H

#include "base/buffer.h"
#include "base/json.h"
#include "net/remote.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_columns {
    const char *const *names;  // (count) must outlive the reader
    int64_t count;
};

// A file whose first bytes were read.
struct table_input {
    const char *name;  // for messages; must outlive the table
    struct table_columns columns;
    int threads;  // that may help
    // For kinds that are read from any byte on: a regular file, or (descriptor is -1) an object with ranges.
    int descriptor;
    struct remote_object object;
    uint64_t size;
    // For all others: reads from the first byte on, like reader_read.
    int64_t (*read)(void *context, void *out, size_t capacity);
    void *context;
};

struct table_kind {
    const char *name;                                 // "Parquet"
    const char *endings[3];                           // of names of such files, NULL at the end
    bool (*begins)(const char *bytes, size_t count);  // NULL if any bytes may
    bool needs_ending;                                // the first bytes alone do not tell
    bool needs_ranges;                                // is read from any byte on
    // Opens a file of this kind, with an error if it lacks a column.
    int (*open)(void **state, const struct table_input *input);
    // Appends the lines of some rows: 1, 0 after the last, -1 on error.
    int (*next)(void *state, struct buffer *lines);
    uint64_t (*position)(const void *state);  // byte of the file up to which rows were delivered; NULL: what was read
    void (*close)(void *state);
};

extern const struct table_kind table_parquet, table_arrow, table_warc, table_tar, table_csv, table_tsv,
    table_json_objects, table_json;

// The kind of a file by its first bytes and its name; NULL if it is none of them.
const struct table_kind *table_find(const char *path, const char *bytes, size_t count);
// Whether a name has one of the kinds' endings, optionally followed by a compression suffix.
bool table_is_named(const char *path);

// Appends the problem of a line that stands for a bad row; false for any other line.
bool table_is_bad_row(const char *line, size_t length, struct buffer *problem);

// ---- for the kinds ----

// Reads bytes of the file from any byte on.
int table_read_at(const struct table_input *input, uint64_t begin, void *out, size_t count);
// Sets the error of a missing column; `others` names the columns that are there. Returns -1.
int table_refuse_column(const struct table_input *input, const char *column, const struct buffer *others);
// Appends ", " and the name, shortened, of which there may be many.
void table_note_column(struct buffer *others, const char *name);
// Begins and ends the line of a row; text is written as it is, ill-formed bytes included.
struct json_writer table_begin_row(struct buffer *lines);
void table_end_row(struct json_writer *line);
// Appends a line that is not JSON, for which jsonl_find gives this problem: a bad line like others.
void table_add_bad_row(struct buffer *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));

// For kinds that are read from the first byte on: the bytes after a byte order mark, cut at the marks of the kind.
enum { TABLE_PIECE_BYTES = 1 << 16, TABLE_MOST_ROW_BYTES = 1 << 28 };
struct table_bytes {
    struct table_input input;
    bool is_mark[256];
    uint64_t passed;  // bytes of the file that were taken
    size_t at, end;   // of the piece, what is left
    char piece[TABLE_PIECE_BYTES];
};

void table_bytes_begin(struct table_bytes *bytes, const struct table_input *input, const char *marks, size_t count);
// Takes one mark, or a run of other bytes: how many, 0 at the end of the file, -1 on error.
int64_t table_take(struct table_bytes *bytes, const char **taken);
// Appends so many bytes to `out`, or passes over them if it is NULL: 1, 0 if the file has ended before them, -1 on
// error or if it ends inside them.
int table_take_bytes(struct table_bytes *bytes, uint64_t count, struct buffer *out);

#endif
