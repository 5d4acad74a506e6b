// Texts that are added one by one, and a text split at its spaces.
#include "base/string_list.h"
#include "base/buffer.h"
#include "base/memory.h"

#include <stdlib.h>

void string_list_add(struct string_list *list, const char *item) {
    list->items = memory_realloc(list->items, ((size_t)list->count + 1) * sizeof *list->items);
    list->items[list->count++] = memory_string(item);
}

void string_list_add_words(struct string_list *list, const char *text) {
    struct buffer word = {0};
    for (const char *p = text;; p++) {
        if (*p && *p != ' ' && *p != '\t') {
            buffer_append_byte(&word, *p);
        } else if (word.length) {
            string_list_add(list, buffer_string(&word));
            buffer_clear(&word);
        }
        if (!*p)
            break;
    }
    buffer_free(&word);
}

void string_list_free(struct string_list *list) {
    for (int64_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct string_list){0};
}
