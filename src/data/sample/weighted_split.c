// Groups of datasets with parts of them. See weighted_split.h.
#include "data/sample/weighted_split.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r\n";

static bool parse_share(const char *text, size_t length, double *share) {
    char number[32], *end;
    if (length == 0 || length >= sizeof number || strspn(text, "0123456789.eE+-") < length)
        return false;
    memcpy(number, text, length);
    number[length] = '\0';
    *share = strtod(number, &end);
    return *end == '\0' && *share >= 0 && *share <= 1;
}

int weighted_range_parse(const char *text, double *start, double *end) {
    size_t length = strcspn(text, ":");
    bool is_range = text[length] == ':' && parse_share(text, length, start) &&
                    parse_share(text + length + 1, strlen(text + length + 1), end) && *start < *end;
    return is_range ? 0 : -1;
}

static int refuse(const char *flag, const char *what, const char *text, size_t length) {
    enum { MOST_BYTES = 80 };
    return error_set_code(
        EXIT_CODE_USAGE, "%s: %s in \"%.*s%s\"; give \"NAME: WEIGHT START:END PREFIX, …\", with shares from 0 to 1",
        flag, what, (int)(length < MOST_BYTES ? length : MOST_BYTES), text, length < MOST_BYTES ? "" : "…");
}

// One dataset: three words. The weight is a number here, since a blend takes words without numbers for prefixes; the
// blend checks that it is above 0.
static int parse_dataset(struct weighted_group *group, const char *text, size_t length, const char *flag) {
    enum { WORDS = 3 };
    char *words[WORDS], *copy = memory_alloc(length + 1), *rest = copy, *word;
    double weight, start, end;
    int count = 0, status = 0;
    memcpy(copy, text, length);
    copy[length] = '\0';
    while ((word = strsep(&rest, blanks))) {
        if (*word && count < WORDS)
            words[count] = word;
        count += *word != '\0';
    }
    if (count != WORDS)
        status = refuse(flag, count < WORDS ? "a word is missing" : "there are too many words", text, length);
    else if (!number_read_double(words[0], &weight))
        status = refuse(flag, "WEIGHT is not a number", text, length);
    else if (weighted_range_parse(words[1], &start, &end) < 0)
        status = refuse(flag, "START:END is not a part", text, length);
    if (status == 0) {
        string_list_add(&group->words, words[0]);
        string_list_add(&group->words, words[2]);
        string_list_add(&group->ranges, words[1]);
    }
    free(copy);
    return status;
}

int weighted_group_parse(struct weighted_group *group, const char *text, const char *flag) {
    *group = (struct weighted_group){0};
    text += strspn(text, blanks);
    size_t length = strcspn(text, ":");
    const char *at = text + length;
    while (length > 0 && strchr(blanks, text[length - 1]))
        length--;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7F)
            length = 0;
    if (*at != ':' || length == 0 || length >= WEIGHTED_NAME_BYTES)
        return refuse(flag, "the group has no name of up to 47 bytes", text, strlen(text));
    group->name = memory_alloc(length + 1);
    memcpy(group->name, text, length);
    group->name[length] = '\0';
    while (*at) {
        size_t size = strcspn(++at, ",");
        TRY(parse_dataset(group, at, size, flag));
        at += size;
    }
    return 0;
}

void weighted_group_free(struct weighted_group *group) {
    free(group->name);
    string_list_free(&group->words);
    string_list_free(&group->ranges);
    *group = (struct weighted_group){0};
}

int weighted_groups_list(struct string_list *groups, const char *text, size_t length, const char *path) {
    size_t at = 0;
    while (at < length) {
        const char *end = text[at] == '"' ? memchr(text + at + 1, '"', length - at - 1) : NULL;
        if (strchr(blanks, text[at]) && text[at]) {
            at++;
            continue;
        }
        size_t size = end ? (size_t)(end - text) - at - 1 : 0;
        if (!end || memchr(text + at + 1, '\0', size) || groups->count == WEIGHTED_MOST_GROUPS)
            return error_set_code(EXIT_CODE_USAGE,
                                  "%s: byte %zu: %s; write \"NAME: WEIGHT START:END PREFIX, …\" for each group", path,
                                  at,
                                  groups->count == WEIGHTED_MOST_GROUPS ? "there are more than 64 groups"
                                  : text[at] != '"'                     ? "a group does not begin with a double quote"
                                  : !end                                ? "the closing double quote is missing"
                                                                        : "the group has a zero byte");
        char *group = memory_alloc(size + 1);
        memcpy(group, text + at + 1, size);
        group[size] = '\0';
        string_list_add(groups, group);
        free(group);
        at += size + 2;
    }
    if (groups->count == 0)
        return error_set_code(EXIT_CODE_USAGE, "%s names no data; write \"NAME: WEIGHT START:END PREFIX, …\" into it",
                              path);
    return 0;
}
