// A growing list of token ids. Zeroed is empty and valid.
#ifndef DATA_TOKENIZER_TOKEN_LIST_H
#define DATA_TOKENIZER_TOKEN_LIST_H

#include <stddef.h>
#include <stdint.h>

struct token_list {
    int32_t *ids;
    int64_t count;
    int64_t capacity;
};

void token_list_free(struct token_list *list);
// Makes room for `extra` more ids, which may then be written at ids + count.
void token_list_reserve(struct token_list *list, int64_t extra);

static inline void token_list_append(struct token_list *list, int32_t id) {
    if (list->count == list->capacity)
        token_list_reserve(list, 1);
    list->ids[list->count++] = id;
}

#endif
