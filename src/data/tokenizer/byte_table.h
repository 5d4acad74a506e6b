// Byte strings with a number each, looked up in both directions. Grows; strings may hold any bytes, even NUL.
#ifndef DATA_TOKENIZER_BYTE_TABLE_H
#define DATA_TOKENIZER_BYTE_TABLE_H

#include "base/buffer.h"
#include <stdint.h>

struct byte_table {
    struct buffer bytes;  // of all strings
    struct byte_string {
        size_t begin, length;
        int32_t id;
    } * strings;  // in the order they were added
    int64_t count, capacity;
    int32_t *slots;  // hash table of indices, -1 if free
    size_t slot_mask;
};

void byte_table_free(struct byte_table *table);
// Adds a string; -1, nothing added, if it already exists. Zeroed is a valid, empty table.
int byte_table_add(struct byte_table *table, const void *bytes, size_t length, int32_t id);
// Adds a string, or changes the id of an existing one.
void byte_table_set(struct byte_table *table, const void *bytes, size_t length, int32_t id);
// Id of a string, -1 if there is none.
int32_t byte_table_find(const struct byte_table *table, const void *bytes, size_t length);

#endif
