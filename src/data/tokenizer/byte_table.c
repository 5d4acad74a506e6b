// Open addressing, at most half full.
#include "data/tokenizer/byte_table.h"
#include "base/hash.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

void byte_table_free(struct byte_table *table) {
    buffer_free(&table->bytes);
    free(table->strings);
    free(table->slots);
    *table = (struct byte_table){0};
}

static size_t find_slot(const struct byte_table *table, const void *bytes, size_t length) {
    size_t slot = (size_t)hash_bytes(bytes, length, 0) & table->slot_mask;
    for (;; slot = (slot + 1) & table->slot_mask) {
        if (table->slots[slot] < 0)
            return slot;
        const struct byte_string *string = &table->strings[table->slots[slot]];
        if (string->length == length && memcmp(buffer_string(&table->bytes) + string->begin, bytes, length) == 0)
            return slot;
    }
}

static void grow(struct byte_table *table) {
    size_t slots = table->slots ? (table->slot_mask + 1) * 2 : 1024;
    free(table->slots);
    table->slots = memory_alloc(slots * sizeof *table->slots);
    memset(table->slots, 0xFF, slots * sizeof *table->slots);
    table->slot_mask = slots - 1;
    for (int64_t i = 0; i < table->count; i++) {
        const struct byte_string *string = &table->strings[i];
        table->slots[find_slot(table, table->bytes.data + string->begin, string->length)] = (int32_t)i;
    }
}

int byte_table_add(struct byte_table *table, const void *bytes, size_t length, int32_t id) {
    if (!table->slots || (size_t)table->count * 2 > table->slot_mask)
        grow(table);
    size_t slot = find_slot(table, bytes, length);
    if (table->slots[slot] >= 0)
        return -1;
    if (table->count == table->capacity) {
        table->capacity = table->capacity * 2 + 256;
        table->strings = memory_realloc(table->strings, (size_t)table->capacity * sizeof *table->strings);
    }
    table->slots[slot] = (int32_t)table->count;
    table->strings[table->count++] = (struct byte_string){table->bytes.length, length, id};
    buffer_append(&table->bytes, bytes, length);
    return 0;
}

void byte_table_set(struct byte_table *table, const void *bytes, size_t length, int32_t id) {
    if (byte_table_add(table, bytes, length, id) < 0)
        table->strings[table->slots[find_slot(table, bytes, length)]].id = id;
}

int32_t byte_table_find(const struct byte_table *table, const void *bytes, size_t length) {
    if (!table->slots)
        return -1;
    int32_t index = table->slots[find_slot(table, bytes, length)];
    return index < 0 ? -1 : table->strings[index].id;
}
