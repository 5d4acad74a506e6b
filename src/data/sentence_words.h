// What the sentence splitter knows of words: which abbreviations end in a full stop, and which words commonly open a
// sentence. Each language has its lists, of words in lower case and byte order, with a space between. A word that is
// also common by itself ("in", "sat", "miss") is left out of the abbreviations: a full stop after it ends a sentence
// far more often.
#ifndef DATA_SENTENCE_WORDS_H
#define DATA_SENTENCE_WORDS_H

#include "base/word_list.h"
#include <stdbool.h>
#include <stddef.h>

struct sentence_language {
    const char *names;              // as NLTK has it, and its codes of ISO 639
    struct word_list leading;       // something always follows: e.g., vs.
    struct word_list titles;        // the same, if they begin with a capital: Mr., Gen.
    struct word_list before_count;  // abbreviations where a number follows (No. 5, Fig. 2), else words
    struct word_list inside;        // may end a sentence, but more often do not: Inc., Jan.
    struct word_list closing;       // as often as not the last word: etc.
    struct word_list openers;       // seldom follow an abbreviation but often begin a sentence: The, In, He
    const char *endings;            // the same as `inside`, of compound words: Hauptstr.; NULL for none
    bool ordinals;                  // a number or Roman numeral with a full stop is an ordinal: 3. Oktober, Ludwig XIV.
    bool low_quotes;                // quotations end in what opens them in English: „so.“ and »so.«
    bool spaced_quotes;             // a space stands inside quotation marks: « ainsi. »
};

extern const struct sentence_language sentence_english, sentence_czech, sentence_danish, sentence_dutch,
    sentence_estonian, sentence_finnish, sentence_french, sentence_german, sentence_greek, sentence_italian,
    sentence_norwegian, sentence_polish, sentence_portuguese, sentence_russian, sentence_slovene, sentence_spanish,
    sentence_swedish, sentence_turkish;

// By one of its names, in small or capital letters; NULL if there is none.
const struct sentence_language *sentence_language_find(const char *name);
// All of them, from 0 on, English first; NULL after the last.
const struct sentence_language *sentence_language_at(size_t number);

// The language a word is looked up in: Cyrillic and Greek words are known whatever the language of the text is.
const struct sentence_language *sentence_word_language(const struct sentence_language *language, const char *word,
                                                       size_t length);

enum sentence_abbreviation {
    SENTENCE_WORD,   // no abbreviation: a full stop after it ends a sentence
    SENTENCE_LEADS,  // leading and titles
    SENTENCE_BEFORE_COUNT,
    SENTENCE_INSIDE,
    SENTENCE_CLOSES,
};

// The word without its last full stop. Case does not matter, but for titles. `language` is the word's own.
enum sentence_abbreviation sentence_abbreviation(const struct sentence_language *language, const char *word,
                                                 size_t length);
bool sentence_is_opener(const struct sentence_language *language, const char *word, size_t length);

#endif
