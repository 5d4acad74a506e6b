// A command line for tests: a text whose words are separated by spaces, split as a shell would.
#ifndef TESTS_WORDS_H
#define TESTS_WORDS_H

#include "base/memory.h"
#include <string.h>

// Adds the words of `line`, which is modified and must outlive the list.
static inline void split_words(struct string_list *words, char *line) {
    for (char *word = line, *next; *word; word = next) {
        size_t length = strcspn(word, " ");
        next = word + length + (word[length] == ' ');
        word[length] = '\0';
        if (length > 0)
            string_list_add(words, word);
    }
}

#endif
