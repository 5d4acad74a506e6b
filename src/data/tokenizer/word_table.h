// Byte strings and a 64-bit number for each: how often a piece of text was seen, or the id of a token. Strings are
// numbered in the order they were added.
#ifndef DATA_TOKENIZER_WORD_TABLE_H
#define DATA_TOKENIZER_WORD_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct word {
    size_t begin, length;  // in bytes
    uint64_t hash;
    int64_t value;  // 0 when the word is new
};

// Zeroed is empty and valid.
struct word_table {
    struct word *words;
    int64_t count, capacity;
    unsigned char *bytes;  // of all words
    size_t bytes_used, bytes_capacity;
    int64_t *slots;  // hash table of word numbers + 1, 0 if free
    size_t slot_mask;
};

void word_table_free(struct word_table *table);
// The word's entry; a new one has value 0. Valid until the next call.
struct word *word_table_get(struct word_table *table, const unsigned char *bytes, size_t length);
// Adds the values of all words of `from`.
void word_table_add(struct word_table *table, const struct word_table *from);

#endif
