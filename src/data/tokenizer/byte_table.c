// Open addressing over indices, so that growing moves numbers and not strings; at most half full.
#include "data/tokenizer/byte_table.h"
#include "data/tokenizer/token_list.h"
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

// The slot of a string: its own, or the free one where it belongs.
static size_t find_slot(const struct byte_table *table, const void *bytes, size_t length, uint64_t hash) {
    size_t slot = (size_t)hash & table->slot_mask;
    for (; table->slots[slot]; slot = (slot + 1) & table->slot_mask) {
        const struct byte_string *string = &table->strings[table->slots[slot] - 1];
        if (string->hash == hash && string->length == length &&
            memcmp(byte_table_text(table, string), bytes, length) == 0)
            break;
    }
    return slot;
}

static void grow_slots(struct byte_table *table) {
    size_t slots = table->slots ? 2 * (table->slot_mask + 1) : 1024;
    free(table->slots);
    table->slots = memory_alloc(slots * sizeof *table->slots);
    table->slot_mask = slots - 1;
    for (int64_t i = 0; i < table->count; i++) {
        size_t slot = (size_t)table->strings[i].hash & table->slot_mask;
        while (table->slots[slot])
            slot = (slot + 1) & table->slot_mask;
        table->slots[slot] = i + 1;
    }
}

static struct byte_string *get_hashed(struct byte_table *table, const void *bytes, size_t length, uint64_t hash) {
    if (!table->slots || 2 * (size_t)table->count >= table->slot_mask)
        grow_slots(table);
    size_t slot = find_slot(table, bytes, length, hash);
    if (!table->slots[slot]) {
        MEMORY_GROW(table->strings, table->count, table->capacity);
        table->strings[table->count++] = (struct byte_string){table->bytes.length, length, hash, 0};
        table->slots[slot] = table->count;
        buffer_append(&table->bytes, bytes, length);
    }
    return &table->strings[table->slots[slot] - 1];
}

struct byte_string *byte_table_get(struct byte_table *table, const void *bytes, size_t length) {
    return get_hashed(table, bytes, length, hash_bytes(bytes, length, 0));
}

int byte_table_add(struct byte_table *table, const void *bytes, size_t length, int32_t id) {
    int64_t before = table->count;
    struct byte_string *string = byte_table_get(table, bytes, length);
    if (table->count == before)
        return -1;
    string->value = id;
    return 0;
}

void byte_table_set(struct byte_table *table, const void *bytes, size_t length, int32_t id) {
    byte_table_get(table, bytes, length)->value = id;
}

int32_t byte_table_find(const struct byte_table *table, const void *bytes, size_t length) {
    if (!table->slots)
        return -1;
    int64_t found = table->slots[find_slot(table, bytes, length, hash_bytes(bytes, length, 0))];
    return found ? (int32_t)table->strings[found - 1].value : -1;
}

void byte_table_sum(struct byte_table *table, const struct byte_table *from) {
    for (int64_t i = 0; i < from->count; i++) {
        const struct byte_string *string = &from->strings[i];
        get_hashed(table, byte_table_text(from, string), string->length, string->hash)->value += string->value;
    }
}
