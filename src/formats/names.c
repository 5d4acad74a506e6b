// Names in messages and patterns. See names.h.
#include "formats/names.h"

#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void name_list_add(struct name_list *list, const char *name) {
    if (list->count < NAME_LIST_KEPT)
        list->names[list->count] = memory_string(name);
    list->count++;
}

void name_list_describe(const struct name_list *list, const char *what, struct buffer *out) {
    if (list->count == 0)
        return;
    buffer_printf(out, "%s%s: ", out->length > 0 ? "; " : "", what);
    for (size_t i = 0; i < list->count && i < NAME_LIST_KEPT; i++)
        buffer_printf(out, "%s%.200s", i > 0 ? ", " : "", list->names[i]);
    if (list->count > NAME_LIST_KEPT)
        buffer_printf(out, " and %zu more", list->count - NAME_LIST_KEPT);
}

void name_list_free(struct name_list *list) {
    for (size_t i = 0; i < list->count && i < NAME_LIST_KEPT; i++)
        free(list->names[i]);
    *list = (struct name_list){0};
}

bool name_match(const char *pattern, const char *name, int64_t *number) {
    static const char any[] = "…";
    *number = -1;
    const char *star = strchr(pattern, '*');
    if (star) {
        size_t before = (size_t)(star - pattern),
               digits = strspn(name + (strncmp(pattern, name, before) ? 0 : before), "0123456789");
        if (strncmp(pattern, name, before) != 0 || digits == 0 || digits > 9)
            return false;
        *number = strtoll(name + before, NULL, 10);
        name += before + digits;
        pattern = star + 1;
    }
    size_t length = strlen(pattern), tail = sizeof any - 1;
    if (length >= tail && strcmp(pattern + length - tail, any) == 0)
        return strncmp(pattern, name, length - tail) == 0;
    return strcmp(pattern, name) == 0;
}

bool name_ends(const char *name, const char *end) {
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

char *name_fill(const char *pattern, int64_t number) {
    const char *star = strchr(pattern, '*');
    if (!star)
        return memory_string(pattern);
    return memory_printf("%.*s%" PRId64 "%s", (int)(star - pattern), pattern, number, star + 1);
}
