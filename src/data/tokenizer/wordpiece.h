// WordPiece: a word is split into the longest pieces of the vocabulary from left to right; pieces after the first have
// a prefix ("##"). A word with a part that is not a piece, or with too many characters, becomes one [UNK].
//
// BERT's basic tokenizer defines words: text is cleaned of control characters, split at spaces, around CJK characters
// and at punctuation, and (uncased) lower-cased and stripped of accents. Google's code, which Megatron adopted, and
// Hugging Face's differ in rare characters: struct bert_rules supports both.
#ifndef DATA_TOKENIZER_WORDPIECE_H
#define DATA_TOKENIZER_WORDPIECE_H

#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/token_list.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/trie.h"
#include "data/tokenizer/unicode_category.h"
#include "data/tokenizer/word_cache.h"
#include "base/buffer.h"
#include <stdbool.h>

struct wordpiece {
    const struct trie *trie;  // of the tokens as written; not owned
    int32_t continued;        // node of the prefix; -1 if no token has it
    int32_t unknown;          // id of [UNK]; -1 if there is none: then an unknown word is an error
    int64_t most_chars;       // of a word
};

// Appends the ids of one word. The word is well-formed UTF-8.
int wordpiece_encode_word(const struct wordpiece *model, const unsigned char *word, size_t length,
                          struct token_list *out);

struct bert_rules {
    const struct unicode_table *table;
    const struct unicode_table *decomposed;  // characters unassigned there are not decomposed
    bool google;                             // lower case first, Σ by its place in the word; false: as in Hugging Face
    bool lower;
    bool strip_accents;
};

// Memory of one encoder. Zeroed except the cache.
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

// Appends the ids of a text. Ill-formed UTF-8 counts as U+FFFD, which is dropped. Requires normal_form_require if
// accents are stripped.
int bert_encode(const struct bert *bert, struct bert_state *state, const char *text, size_t length,
                struct token_list *out);

// ---- the parts of bert_encode that deal with characters, wordpiece_bert.c ----

enum bert_class { BERT_WORD, BERT_PUNCTUATION, BERT_BLANK, BERT_CJK, BERT_DROPPED };
enum bert_class bert_classify(const struct bert_rules *rules, uint32_t character);
// Whether a character is cased, which decides the form of a Σ beside it; and whether it may be in between.
bool bert_is_cased(const struct unicode_table *table, uint32_t character);
bool bert_is_case_ignorable(const struct unicode_table *table, uint32_t character);

// A part of a text between spaces or CJK characters, without dropped characters; `before` is the text before it, up to
// `part`, for rules that look back.
struct bert_part {
    const unsigned char *before, *part;
    const struct character_list *characters;
};
// Appends the part in lower case and without accents, according to the rules, to state->normal.
void bert_normalize(const struct bert_rules *rules, const struct bert_part *part, struct bert_state *state);

// ---- vocab.txt ----

// Reads vocab.txt, one token per line, as Google's and Megatron's code do: a token's id is its line number, from 0;
// spaces around it are ignored; of equal lines the last counts.
struct wordpiece_vocab {
    struct vocabulary lines;
    struct trie trie;  // of the lines
    int64_t distinct;  // Megatron's size: an appended token gets this id
};

// Errors call the text `name`. On error nothing is left to free.
int wordpiece_vocab_parse(struct wordpiece_vocab *vocab, const char *text, size_t length, const char *name);
void wordpiece_vocab_free(struct wordpiece_vocab *vocab);

// Appends a token that encoding never gives, unless a line has it; returns its id.
int32_t wordpiece_vocab_append(struct wordpiece_vocab *vocab, const char *string);

// Removes the spaces from text[begin…) that English does not have; Hugging Face also contracts " do not".
void wordpiece_tidy(struct buffer *text, size_t begin, bool contracts);

// ---- as a tokenizer.json ----

// Google's BERT tokenizer, and the parts that Hugging Face's own shares with it.
int wordpiece_describe(const struct bert *bert, const struct wordpiece_vocab *vocab, struct hf_parts *parts);

// {"type": "WordPiece", …, left open before "vocab"; and the decoder.
void wordpiece_begin_model(struct json_writer *json, int64_t most_chars);
void wordpiece_write_decoder(struct hf_parts *parts, bool cleans_up);

#endif
