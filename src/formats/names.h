// Names in messages, and patterns of names, in which a * stands for a layer's number. Internal to this folder.
#ifndef FORMATS_NAMES_H
#define FORMATS_NAMES_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Names for a message; only the first few are kept, all are counted.
enum { NAME_LIST_KEPT = 8 };
struct name_list {
    char *names[NAME_LIST_KEPT];
    size_t count;
};
void name_list_add(struct name_list *list, const char *name);
// Appends "WHAT: a, b, c and 4 more" after "; " if the text is not empty; nothing for an empty list.
void name_list_describe(const struct name_list *list, const char *what, struct buffer *out);
void name_list_free(struct name_list *list);

// Whether the name is the pattern with digits in the place of its one *; a pattern without * is the name itself, and
// *number becomes -1. An end of "…" matches anything that follows.
bool name_match(const char *pattern, const char *name, int64_t *number);
bool name_ends(const char *name, const char *end);
// The pattern with the number in the place of the *, to be freed.
char *name_fill(const char *pattern, int64_t number);

#endif
