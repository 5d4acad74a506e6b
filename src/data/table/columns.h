// Files that keep their rows by column, in groups: Parquet and Arrow. A format says which columns a file has and reads
// one column of one group, entry by entry; columns.c makes rows of them, on several threads.
#ifndef DATA_TABLE_COLUMNS_H
#define DATA_TABLE_COLUMNS_H

#include "base/buffer.h"
#include "data/table/table.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A leaf of the schema.
struct column_leaf {
    char *path;  // "messages.list.element.content"
    char *name;  // without the inner levels of lists and maps: "messages.content"
    bool is_text, is_list;
};

// The first member of a format's own struct.
struct column_file {
    const struct column_format *format;
    const struct table_input *input;
    struct column_leaf *leaves;  // (leaf_count)
    int64_t leaf_count, leaf_capacity;
    int64_t group_count;
    uint64_t data_end;         // byte of the file where its columns have ended
    size_t name_bytes;         // of all leaves: long names above many leaves would multiply
    struct buffer path, name;  // of the element that is being walked
};

struct column_group {
    int64_t rows;
    uint64_t begin, bytes;  // of the leaf in the file, and what it takes in memory, about
};

// An entry of a column: a value, or a null or an empty list at some level.
struct column_entry {
    bool begins_row;
    bool has_value;
    const char *text;  // until the next entry is read
    size_t length;
};

struct column_format {
    const char *name;   // "Parquet"
    size_t file_bytes;  // of its struct, which is zeroed at first and closed also on error
    int (*open)(struct column_file *file);
    void (*close)(struct column_file *file);
    struct column_group (*group)(const struct column_file *file, int64_t group, int64_t leaf);
    int (*begin)(void **column, const struct column_file *file, int64_t group, int64_t leaf);
    // 1 with the next entry, 0 after the last, -1 on error.
    int (*next)(void *column, struct column_entry *entry);
    uint64_t (*position)(const void *column);  // byte of the file up to which the column was read
    void (*end)(void *column);                 // NULL is fine
};

extern const struct column_format column_parquet, column_arrow;

// Sets the error of damage at that byte; returns -1.
int column_damaged(const struct column_file *file, uint64_t at, const char *problem);

// Names of leaves, while a format walks over its schema. An element enters its part of the path, and of the name unless
// it is an inner level of a list or map; it is left with the lengths that the two had before.
struct column_mark {
    size_t path, name;
};
struct column_mark column_enter(struct column_file *file, const char *part, size_t length, bool is_inner);
void column_leave(struct column_file *file, struct column_mark mark);
// Adds the element as a leaf; -1 if the names of all leaves are too long.
int column_add(struct column_file *file, bool is_text, bool is_list);

#endif
