// Words: names that were mistyped, constant lists of words, and lists that grow.
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int words_compare(const void *a, const void *b);  // of two char *, for qsort

// The name that a mistyped one probably meant.
struct nearest {
    const char *name;  // as typed; _ and - are the same letter
    size_t length;
    const char *best;  // NULL if no candidate is near enough
    int distance;
};

struct nearest nearest_begin(const char *name, size_t length);
void nearest_consider(struct nearest *nearest, const char *candidate);

// A constant list of words in one string: in byte order, with a separator between words, so that a binary search needs
// no array of pointers.
//
//   static const struct word_list colours = WORD_LIST(' ', "blue green red");
struct word_list {
    char separator;  // in no word
    const char *words;
    size_t bytes;
};
#define WORD_LIST(separator, words)                                                                                    \
    { separator, words, sizeof(words) - 1 }

bool word_list_has(const struct word_list *list, const char *word, size_t length);

// A list of texts that grows.
struct string_list {
    char **items;  // owned, each NUL-terminated
    int64_t count;
};

void string_list_add(struct string_list *list, const char *item);
// Splits text at spaces and adds the pieces.
void string_list_add_words(struct string_list *list, const char *text);
void string_list_free(struct string_list *list);

// For the readers of our two kinds of YAML, flag files and pods. Cuts a carriage return, a comment and the spaces
// before it off the end of a line. # opens a comment at the start or after a space, outside quotes. A quote opens only
// after one of `before_values`, where a value may begin: in don't it is part of a word.
void yaml_line_trim(char *line, const char *before_values);

#endif
