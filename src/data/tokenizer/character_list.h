// A growing list of Unicode characters. Zeroed is empty and valid.
#ifndef DATA_TOKENIZER_CHARACTER_LIST_H
#define DATA_TOKENIZER_CHARACTER_LIST_H

#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>

struct character_list {
    uint32_t *items;
    size_t count, capacity;
};

static inline void character_list_free(struct character_list *list) {
    free(list->items);
    *list = (struct character_list){0};
}

// Makes room for `extra` more, which may then be written at items + count.
static inline void character_list_reserve(struct character_list *list, size_t extra) {
    if (list->capacity - list->count >= extra)
        return;
    size_t capacity = list->capacity * 2 > list->count + extra ? list->capacity * 2 : list->count + extra + 64;
    list->items = memory_realloc(list->items, capacity * sizeof *list->items);
    list->capacity = capacity;
}

static inline void character_list_append(struct character_list *list, uint32_t character) {
    character_list_reserve(list, 1);
    list->items[list->count++] = character;
}

// Decodes text; ill-formed UTF-8 becomes U+FFFD.
static inline void character_list_append_text(struct character_list *list, const char *text, size_t length) {
    character_list_reserve(list, length);
    for (size_t at = 0; at < length;)
        at += utf8_decode((const unsigned char *)text + at, length - at, &list->items[list->count++], NULL);
}

#endif
