// Reading text from Parquet files: what a file says about itself, how it packs levels and text, and the columns of a
// row group, which are read page by page: memory is bounded by a page and the dictionary.
#ifndef DATA_TABLE_PARQUET_H
#define DATA_TABLE_PARQUET_H

#include "base/buffer.h"
#include "data/table/columns.h"
#include "data/table/thrift.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- the file ----

// What a Parquet file says about itself (parquet.thrift): its schema and, per row group, where its columns lie. Only
// the parts that reading text needs.

struct parquet_chunk {
    bool is_elsewhere, is_encrypted;
    struct thrift_int type, codec, values, raw_bytes, packed_bytes, data_page, dictionary_page;
};

struct parquet_group {
    struct thrift_list chunks;  // struct parquet_chunk, one per column
    struct thrift_int rows;
};

struct parquet_schema_element {
    struct thrift_int type, repetition, children, converted;
    bool is_list, is_map, is_decimal;
    struct thrift_text name;
};

struct parquet_metadata {
    struct thrift_list schema;  // struct parquet_schema_element: a tree, parents first
    struct thrift_list groups;  // struct parquet_group
};

// Of a leaf. Every value of a column has two levels: the definition level is the highest unless the value or something
// above it is null or empty; the repetition level is 0 where a row begins.
struct parquet_levels {
    int64_t type;
    int most_definition, most_repetition;
};

struct parquet_file {
    struct column_file columns;  // chunk i of a group belongs to leaf i; its data ends where the footer begins
    struct buffer footer;
    struct parquet_metadata metadata;
    struct parquet_levels *levels;  // (leaves)
};

const struct parquet_chunk *parquet_file_chunk(const struct parquet_file *file, int64_t group, int64_t leaf);

// The functions of the format that read pages (parquet_column.c).
int parquet_column_begin(void **column, const struct column_file *file, int64_t group, int64_t leaf);
int parquet_column_next(void *column, struct column_entry *entry);
uint64_t parquet_column_position(const void *column);
void parquet_column_end(void *column);

// ---- encodings ----

// How Parquet packs levels and text (Encodings.md): runs of small integers, deltas, and text in several ways.
// Everything is read value by value from a page in memory, so that counts in hostile data cost nothing.

enum parquet_encoding {
    PARQUET_PLAIN = 0,
    PARQUET_PLAIN_DICTIONARY = 2,
    PARQUET_RLE = 3,
    PARQUET_BIT_PACKED = 4,
    PARQUET_DELTA_LENGTH = 6,
    PARQUET_DELTA_TEXT = 7,
    PARQUET_RLE_DICTIONARY = 8,
};

// Integers of `width` bits, up to 32: runs of one value, and of values packed bit by bit.
struct parquet_runs {
    const unsigned char *at, *end;
    int width;
    bool is_old;            // the deprecated encoding: one run, packed from the highest bit on
    uint64_t same, packed;  // values that are left of the run
    uint32_t value;         // of a run of one value
    const unsigned char *bits;
    uint64_t bit;
};
bool parquet_runs_next(struct parquet_runs *runs, uint32_t *value);

// DELTA_BINARY_PACKED.
struct parquet_deltas {
    const unsigned char *at, *end;
    uint64_t block_values, parts, left;  // values per block, miniblocks per block; values that are left of all
    uint64_t part_left;                  // values that are left of the miniblock
    const unsigned char *widths;         // of the miniblocks that follow in the block
    uint64_t widths_left;
    const unsigned char *bits;
    uint64_t bit;
    int width;
    uint64_t last, least;  // the next value; the least delta of the block
};
// `most` limits the count that the data gives.
bool parquet_deltas_open(struct parquet_deltas *deltas, const unsigned char *at, const unsigned char *end,
                         uint64_t most);
bool parquet_deltas_next(struct parquet_deltas *deltas, int64_t *value);
// The end of these deltas in the page, without reading the values; NULL if they are damaged.
const unsigned char *parquet_deltas_end(const struct parquet_deltas *deltas);

// The text of one page.
struct parquet_texts {
    const struct parquet_text_encoding *encoding;
    const unsigned char *at, *end;            // of PLAIN, and of text after its lengths
    struct parquet_deltas prefixes, lengths;  // of the two kinds with deltas
    struct parquet_runs indices;
    const struct thrift_text *dictionary;  // (dictionary_count)
    uint64_t dictionary_count;
    struct buffer text;  // of DELTA_BYTE_ARRAY: the last value, from which the next one takes its beginning
};

// The texts begin at `at` of a page with `count` values. `dictionary` is set by the caller. False if the encoding is
// unknown or the data is damaged: *problem says which.
bool parquet_texts_open(struct parquet_texts *texts, int64_t encoding, const unsigned char *at,
                        const unsigned char *end, uint64_t count, const char **problem);
bool parquet_texts_next(struct parquet_texts *texts, struct thrift_text *text);

#endif
