// Words: names that were mistyped, and constant lists of words.
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
