// Nearness is the number of edits between two names. A truncated name, as Python's argparse completes it, and one with
// a suffix (bert-base-uncased) are nearer than the number of differing letters says.
#include "base/words.h"
#include "base/buffer.h"
#include "base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int words_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum { LONGEST_NAME = 80, LEAST_LETTERS = 3, FAR_AWAY = 1 << 20 };

// Edits (insert, delete, replace, swap of neighbours) that turn one name into the other.
static int edit_distance(const char *a, size_t a_length, const char *b) {
    size_t b_length = strlen(b);
    if (a_length > LONGEST_NAME || b_length > LONGEST_NAME)
        return FAR_AWAY;
    int rows[3][LONGEST_NAME + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            bool same = a[i - 1] == b[j - 1] || (a[i - 1] == '_' && b[j - 1] == '-');
            int best = last[j - 1] + !same;
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = before[j - 2] + 1 < best ? before[j - 2] + 1 : best;
            now[j] = best;
        }
        int *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[b_length];
}

static size_t count_letters(const char *name, size_t length) {
    size_t dashes = strspn(name, "-");
    return length > dashes ? length - dashes : 0;
}

struct nearest nearest_begin(const char *name, size_t length) {
    // One or two letters would match too many names.
    size_t letters = count_letters(name, length);
    return (struct nearest){.name = name, .length = length, .distance = letters < LEAST_LETTERS ? 0 : FAR_AWAY};
}

// With more edits than this, about a quarter of its letters, it is another name.
static int most_edits(const struct nearest *nearest) {
    int letters = (int)count_letters(nearest->name, nearest->length);
    return letters < 5 ? 1 : letters < 12 ? 2 : letters / 4;
}

void nearest_consider(struct nearest *nearest, const char *candidate) {
    size_t length = strlen(candidate), shorter = length < nearest->length ? length : nearest->length;
    size_t difference = length + nearest->length - 2 * shorter;
    bool begins_it =
        count_letters(candidate, shorter) >= LEAST_LETTERS && strncmp(candidate, nearest->name, shorter) == 0;
    // Names whose lengths differ by more than that are not compared letter by letter.
    if (!begins_it && difference > (size_t)most_edits(nearest))
        return;
    int edits =
        begins_it ? (difference < 2 ? (int)difference : 2) : edit_distance(nearest->name, nearest->length, candidate);
    if (edits < nearest->distance && (begins_it || edits <= most_edits(nearest))) {
        nearest->distance = edits;
        nearest->best = candidate;
    }
}

// Searches by halving the rest of the list, at the beginning of a word.

bool word_list_has(const struct word_list *list, const char *word, size_t length) {
    const char *words = list->words;
    size_t begin = 0, end = list->bytes;
    while (begin < end) {
        size_t at = begin + (end - begin) / 2, same = 0;
        while (at > begin && words[at - 1] != list->separator)
            at--;
        while (same < length && at + same < end && word[same] == words[at + same])
            same++;
        bool is_whole = at + same == end || words[at + same] == list->separator;
        if (same == length && is_whole)
            return true;
        // A word that is a prefix of another comes first.
        if (same == length || (!is_whole && (unsigned char)word[same] < (unsigned char)words[at + same])) {
            end = at > begin ? at - 1 : begin;
        } else {
            for (begin = at + same; begin < end && words[begin] != list->separator;)
                begin++;
            begin++;
        }
    }
    return false;
}

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

void yaml_line_trim(char *line, const char *before_values) {
    char quote = 0, before = ' ';
    size_t length = strlen(line), end = 0;
    if (length > 0 && line[length - 1] == '\r')
        line[length - 1] = '\0';
    for (size_t i = 0; line[i]; i++) {
        char c = line[i];
        if (quote == '"' && c == '\\' && line[i + 1])
            end = ++i + 1;
        else if (quote && c == quote)
            quote = 0;
        else if (!quote && (c == '"' || c == '\'') && strchr(before_values, before))
            quote = c;
        else if (!quote && c == '#' && before == ' ')
            break;
        if (c != ' ')
            end = i + 1;
        before = c;
    }
    line[end] = '\0';
}
