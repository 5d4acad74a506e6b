// Thrift's compact protocol, in which Parquet writes its metadata: structs whose fields are numbered. A table of rows
// says which fields of a struct are wanted and where they go; all others are skipped. The bytes are hostile: counts
// are limited by the bytes that are left, nesting by a constant.
#ifndef DATA_TABLE_THRIFT_H
#define DATA_TABLE_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thrift_int {
    int64_t value;
    bool is_set;
};

struct thrift_text {
    const char *bytes;  // of the input; not NUL-terminated
    size_t length;
};

struct thrift_list {
    void *items;  // structs, in memory of their own
    int64_t count;
};

enum thrift_kind {
    THRIFT_INT,     // struct thrift_int: any integer, or a truth value
    THRIFT_TEXT,    // struct thrift_text
    THRIFT_IS_SET,  // bool: the field is there, whatever it holds
    THRIFT_STRUCT,  // another record in place
    THRIFT_LIST,    // struct thrift_list of records
};

struct thrift_record;

struct thrift_field {
    int id;
    enum thrift_kind kind;
    size_t offset;                       // in the C struct
    const struct thrift_record *record;  // of THRIFT_STRUCT and THRIFT_LIST
};

struct thrift_record {
    size_t bytes;  // of the C struct
    const struct thrift_field *fields;
    int count;
};

struct thrift_input {
    const unsigned char *at, *end;
    const char *problem;  // NULL until reading failed
    bool is_cut;          // it failed because the input ended
};

// Fills a zeroed struct. False, with a problem, if the bytes are damaged; to be freed in any case.
bool thrift_read(struct thrift_input *input, const struct thrift_record *record, void *value);
void thrift_free(const struct thrift_record *record, void *value);

// Reads a number of seven bits per byte, lowest bits first, as Parquet's runs and deltas do. False if it is cut off.
bool thrift_varint(const unsigned char **at, const unsigned char *end, uint64_t *value);
// 0, -1, 1, -2, … for 0, 1, 2, 3, …
int64_t thrift_signed(uint64_t zigzag);

#endif
