// Byte strings with a number each, in both directions. Grows; strings may hold any bytes, NUL too.
#ifndef DATA_TOKENIZER_BYTE_TABLE_H
#define DATA_TOKENIZER_BYTE_TABLE_H

#include "base/buffer.h"
#include <stdint.h>

struct byte_table {
    struct buffer bytes;  // of all strings
    struct byte_string {
        size_t begin, length;
        int32_t id;
    } * strings;  // in the order in which they were added
    int64_t count, capacity;
    int32_t *slots;  // hash table of indices, -1 where free
    size_t slot_mask;
};

void byte_table_free(struct byte_table *table);
// Adds a string; -1, nothing added, where it is there already. Zeroed is a valid, empty table.
int byte_table_add(struct byte_table *table, const void *bytes, size_t length, int32_t id);
// Adds a string, or gives the one that is there another id.
void byte_table_set(struct byte_table *table, const void *bytes, size_t length, int32_t id);
// Id of a string, -1 if it is not there.
int32_t byte_table_find(const struct byte_table *table, const void *bytes, size_t length);

#endif
