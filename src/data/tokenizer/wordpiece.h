// WordPiece: a word is cut into the longest pieces of the vocabulary from left to right, pieces after the first being
// written with a prefix ("##"). A word with a part that is no piece, or with too many characters, is one [UNK].
//
// What a word is BERT's basic tokenizer says: text is cleaned of control characters, cut at blanks, around CJK
// characters and at punctuation, and (uncased) lower-cased and stripped of accents. Google's code, which Megatron
// took over, and Hugging Face's do this in ways that differ in rare characters: struct bert_rules has both.
#ifndef DATA_TOKENIZER_WORDPIECE_H
#define DATA_TOKENIZER_WORDPIECE_H

#include "base/buffer.h"
#include "data/tokenizer/character_list.h"
#include "data/tokenizer/token_list.h"
#include "data/tokenizer/trie.h"
#include "data/tokenizer/unicode_category.h"
#include "data/tokenizer/word_cache.h"
#include <stdbool.h>

struct wordpiece {
    const struct trie *trie;  // of the tokens as they are written; not owned
    int32_t continued;        // node of the prefix; -1 if no token has it
    int32_t unknown;          // id of [UNK]; -1 if there is none, and then an unknown word is an error
    int64_t most_chars;       // of a word
};

// Appends the ids of one word. The word is well-formed UTF-8.
int wordpiece_encode_word(const struct wordpiece *model, const unsigned char *word, size_t length,
                          struct token_list *out);

struct bert_rules {
    const struct unicode_table *table;
    const struct unicode_table *decomposed;  // characters unassigned there are not decomposed
    bool google;                             // lower case first, Σ by its place in the word; false: as Hugging Face
    bool lower;
    bool strip_accents;
};

// Memory of one encoder. Zeroed but for the cache.
struct bert_state {
    struct word_cache cache;
    struct character_list characters, middle, normal;
    struct buffer word;
};

void bert_state_create(struct bert_state *state);
void bert_state_free(struct bert_state *state);

struct bert {
    struct wordpiece model;
    struct bert_rules rules;
};

// Appends the ids of a text. Ill-formed UTF-8 counts as U+FFFD, which is dropped. Needs normal_form_require where
// accents are stripped.
int bert_encode(const struct bert *bert, struct bert_state *state, const char *text, size_t length,
                struct token_list *out);

// ---- the parts of bert_encode that deal with characters, wordpiece_clean.c ----

enum bert_class { BERT_WORD, BERT_PUNCTUATION, BERT_BLANK, BERT_CJK, BERT_DROPPED };
enum bert_class bert_classify(const struct bert_rules *rules, uint32_t character);
// Whether a character makes a Σ beside it the one inside a word or at its end; and whether it stands in between.
bool bert_is_cased(const struct unicode_table *table, uint32_t character);
bool bert_is_case_ignorable(const struct unicode_table *table, uint32_t character);

// A part of a text between blanks or CJK characters, with dropped characters left out; `before` is the text before
// it, up to `part`, for those rules that look back.
struct bert_part {
    const unsigned char *before, *part;
    const struct character_list *characters;
};
// Appends the part in lower case and without accents, as the rules say, to state->normal.
void bert_normalize(const struct bert_rules *rules, const struct bert_part *part, struct bert_state *state);

#endif
