// A list of texts that grows.
#ifndef BASE_STRING_LIST_H
#define BASE_STRING_LIST_H

#include <stdint.h>

struct string_list {
    char **items;  // owned, each NUL-terminated
    int64_t count;
};

void string_list_add(struct string_list *list, const char *item);
// Splits text at spaces and adds the pieces.
void string_list_add_words(struct string_list *list, const char *text);
void string_list_free(struct string_list *list);

#endif
