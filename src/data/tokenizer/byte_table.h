// Byte strings with a number each: the id of a token, or how often a piece of text was seen. Grows; strings may hold
// any bytes, even NUL. Zeroed is empty and valid.
#ifndef DATA_TOKENIZER_BYTE_TABLE_H
#define DATA_TOKENIZER_BYTE_TABLE_H

#include "base/buffer.h"
#include <stdint.h>

struct byte_string {
    size_t begin, length;  // in bytes
    uint64_t hash;
    int64_t value;  // 0 when the string is new
};

struct byte_table {
    struct buffer bytes;          // of all strings
    struct byte_string *strings;  // in the order they were added
    int64_t count, capacity;
    int64_t *slots;  // hash table of indices + 1, 0 if free
    size_t slot_mask;
};

void byte_table_free(struct byte_table *table);
// A string's entry, added if there is none. Valid until the next call.
struct byte_string *byte_table_get(struct byte_table *table, const void *bytes, size_t length);
// Adds a string; -1, nothing added, if it already exists.
int byte_table_add(struct byte_table *table, const void *bytes, size_t length, int32_t id);
// Adds a string, or changes the id of an existing one.
void byte_table_set(struct byte_table *table, const void *bytes, size_t length, int32_t id);
// Id of a string, -1 if there is none.
int32_t byte_table_find(const struct byte_table *table, const void *bytes, size_t length);
// Adds the values of all strings of `from`.
void byte_table_sum(struct byte_table *table, const struct byte_table *from);

static inline const char *byte_table_text(const struct byte_table *table, const struct byte_string *string) {
    return buffer_string(&table->bytes) + string->begin;
}

#endif
