// What the sentence splitter knows of English words: which abbreviations end in a full stop, and which words commonly
// open a sentence.
#ifndef DATA_SENTENCE_WORDS_H
#define DATA_SENTENCE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

enum sentence_abbreviation {
    SENTENCE_WORD,          // no abbreviation: a full stop after it ends a sentence
    SENTENCE_LEADS,         // something always follows: Mr., e.g., vs.
    SENTENCE_BEFORE_COUNT,  // an abbreviation where a number follows (No. 5, Fig. 2), else a word
    SENTENCE_INSIDE,        // may end a sentence, but more often does not: Inc., U.S., Jan.
    SENTENCE_CLOSES,        // as often as not the last word: etc., p.m.
};

// The word without its last full stop. Case does not matter, but for titles, which must begin with a capital.
enum sentence_abbreviation sentence_abbreviation(const char *word, size_t length);
// Is the word, in any case, one that seldom follows an abbreviation but often begins a sentence (The, In, He)?
bool sentence_is_opener(const char *word, size_t length);

#endif
