// A constant list of words in one string: in byte order, with a separator between words, so that a binary search needs
// no array of pointers.
//
//   static const struct word_list colours = WORD_LIST(' ', "blue green red");
#ifndef BASE_WORD_LIST_H
#define BASE_WORD_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct word_list {
    char separator;  // in no word
    const char *words;
    size_t bytes;
};
#define WORD_LIST(separator, words)                                                                                    \
    { separator, words, sizeof(words) - 1 }

bool word_list_has(const struct word_list *list, const char *word, size_t length);

#endif
