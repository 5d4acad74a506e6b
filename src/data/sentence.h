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

#include <stdbool.h>
#include <stddef.h>

struct sentence_language;

struct sentence_splitter {
    const char *text;    // UTF-8, not necessarily NUL-terminated
    size_t length;       // bytes
    bool keep_newlines;  // white space after a sentence belongs to it (Megatron's --keep-newlines): the sentences then
                         // concatenate to the text, except for white space at its end
    size_t position;     // where the next sentence begins; 0 at first
    const struct sentence_language *language;  // of sentence_words.h; NULL for English
};

struct sentence {
    size_t begin, end;  // bytes of the text
};

// The next sentence; false at the end of the text.
bool sentence_next(struct sentence_splitter *splitter, struct sentence *sentence);

#endif
