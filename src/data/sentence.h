// Splits text into sentences by rules, for models that train on sentence pairs or whole sentences (BERT, T5). Megatron
// uses NLTK's punkt for this (--split-sentences). The rules are in docs/internals/sentences.md.
//
// The splitter is a cursor over the caller's bytes. It allocates nothing, examines every byte a bounded number of
// times, and accepts any bytes (ill-formed UTF-8 counts as letters). Sentences come in order, do not overlap, are not
// empty, and lose only the white space between them:
//
//   struct sentence_splitter splitter = {.text = text, .length = length};
//   struct sentence sentence;
//   while (sentence_next(&splitter, &sentence))
//       use(text + sentence.begin, sentence.end - sentence.begin);
#ifndef DATA_SENTENCE_H
#define DATA_SENTENCE_H

#include "base/words.h"
#include <stdbool.h>
#include <stddef.h>

struct sentence_splitter {
    const char *text;    // UTF-8, not necessarily NUL-terminated
    size_t length;       // bytes
    bool keep_newlines;  // white space after a sentence belongs to it (Megatron's --keep-newlines): the sentences then
                         // concatenate to the text, except for white space at its end
    size_t position;     // where the next sentence begins; 0 at first
    const struct sentence_language *language;  // NULL for English
};

struct sentence {
    size_t begin, end;  // bytes of the text
};

// The next sentence; false at the end of the text.
bool sentence_next(struct sentence_splitter *splitter, struct sentence *sentence);

// ---- languages ----

// Words for the sentence splitter: abbreviations that end in a full stop, and words that commonly begin a sentence.
// Each language has lists of lowercase words in byte order, separated by spaces. A word that is also common by itself
// ("in", "sat", "miss") is not listed as an abbreviation: a full stop after it ends a sentence far more often.
struct sentence_language {
    const char *names;              // NLTK's name and the ISO 639 codes
    struct word_list leading;       // something always follows: e.g., vs.
    struct word_list titles;        // the same, if capitalized: Mr., Gen.
    struct word_list before_count;  // abbreviations before a number (No. 5, Fig. 2), else plain words
    struct word_list inside;        // may end a sentence, but usually do not: Inc., Jan.
    struct word_list closing;       // about as often the last word as not: etc.
    struct word_list openers;       // often begin a sentence and seldom follow an abbreviation: The, In, He
    const char *endings;            // like `inside`, for the ends of compound words: Hauptstr.; NULL for none
    bool ordinals;                  // a number or Roman numeral with a full stop is an ordinal: 3. Oktober, Ludwig XIV.
    bool low_quotes;                // quotations end with the mark that opens them in English: „so.“ and »so.«
    bool spaced_quotes;             // a space inside quotation marks: « ainsi. »
};

extern const struct sentence_language sentence_english, sentence_czech, sentence_danish, sentence_dutch,
    sentence_estonian, sentence_finnish, sentence_french, sentence_german, sentence_greek, sentence_italian,
    sentence_norwegian, sentence_polish, sentence_portuguese, sentence_russian, sentence_slovene, sentence_spanish,
    sentence_swedish, sentence_turkish;

// Finds a language by one of its names, ignoring case; NULL if there is none.
const struct sentence_language *sentence_language_find(const char *name);
// Language number 0, 1, …, English first; NULL after the last.
const struct sentence_language *sentence_language_at(size_t number);

// The language to look a word up in: Cyrillic and Greek words are recognized in texts of any language.
const struct sentence_language *sentence_word_language(const struct sentence_language *language, const char *word,
                                                       size_t length);

enum sentence_abbreviation {
    SENTENCE_WORD,   // not an abbreviation: a full stop after it ends a sentence
    SENTENCE_LEADS,  // leading and titles
    SENTENCE_BEFORE_COUNT,
    SENTENCE_INSIDE,
    SENTENCE_CLOSES,
};

// Looks up a word without its last full stop. Case matters only for titles. `language` is the word's own.
enum sentence_abbreviation sentence_abbreviation(const struct sentence_language *language, const char *word,
                                                 size_t length);
bool sentence_is_opener(const struct sentence_language *language, const char *word, size_t length);

#endif
