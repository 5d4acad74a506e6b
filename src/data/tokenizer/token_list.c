// The growing part of a token list: capacity doubles, so appending takes amortized constant time.
#include "data/tokenizer/token_list.h"
#include "base/memory.h"
#include <stdlib.h>

void token_list_free(struct token_list *list) {
    free(list->ids);
    *list = (struct token_list){0};
}

void token_list_reserve(struct token_list *list, int64_t extra) {
    if (list->capacity - list->count >= extra)
        return;
    int64_t capacity = list->capacity ? list->capacity * 2 : 256;
    if (capacity < list->count + extra)
        capacity = list->count + extra;
    list->ids = memory_realloc(list->ids, (size_t)capacity * sizeof *list->ids);
    list->capacity = capacity;
}
