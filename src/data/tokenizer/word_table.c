// Open addressing over word numbers, so that growing moves numbers and not strings; at most half full.
#include "data/tokenizer/word_table.h"
#include "base/hash.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

void word_table_free(struct word_table *table) {
    free(table->words);
    free(table->bytes);
    free(table->slots);
    *table = (struct word_table){0};
}

static void grow_slots(struct word_table *table) {
    size_t slots = table->slots ? 2 * (table->slot_mask + 1) : 1024;
    free(table->slots);
    table->slots = memory_alloc(slots * sizeof *table->slots);
    table->slot_mask = slots - 1;
    for (int64_t i = 0; i < table->count; i++) {
        size_t slot = (size_t)table->words[i].hash & table->slot_mask;
        while (table->slots[slot])
            slot = (slot + 1) & table->slot_mask;
        table->slots[slot] = i + 1;
    }
}

static struct word *append(struct word_table *table, const unsigned char *bytes, size_t length, uint64_t hash) {
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 512;
        table->words = memory_realloc(table->words, (size_t)table->capacity * sizeof *table->words);
    }
    if (table->bytes_capacity - table->bytes_used < length) {
        table->bytes_capacity = 2 * table->bytes_capacity + length + 4096;
        table->bytes = memory_realloc(table->bytes, table->bytes_capacity);
    }
    if (length)
        memcpy(table->bytes + table->bytes_used, bytes, length);
    struct word *word = &table->words[table->count++];
    *word = (struct word){.begin = table->bytes_used, .length = length, .hash = hash};
    table->bytes_used += length;
    return word;
}

static struct word *get_hashed(struct word_table *table, const unsigned char *bytes, size_t length, uint64_t hash) {
    if (!table->slots || 2 * (size_t)table->count >= table->slot_mask)
        grow_slots(table);
    size_t slot = (size_t)hash & table->slot_mask;
    for (; table->slots[slot]; slot = (slot + 1) & table->slot_mask) {
        struct word *word = &table->words[table->slots[slot] - 1];
        if (word->hash == hash && word->length == length && memcmp(table->bytes + word->begin, bytes, length) == 0)
            return word;
    }
    struct word *word = append(table, bytes, length, hash);
    table->slots[slot] = table->count;
    return word;
}

struct word *word_table_get(struct word_table *table, const unsigned char *bytes, size_t length) {
    return get_hashed(table, bytes, length, hash_bytes(bytes, length, 0));
}

void word_table_add(struct word_table *table, const struct word_table *from) {
    for (int64_t i = 0; i < from->count; i++) {
        const struct word *word = &from->words[i];
        get_hashed(table, from->bytes + word->begin, word->length, word->hash)->value += word->value;
    }
}
