// The parts of a tokenizer.json, which each kind of tokenizer fills in (its `describe`), and helpers to write pipeline
// steps. hf_save.c combines them.
#ifndef DATA_TOKENIZER_HF_PARTS_H
#define DATA_TOKENIZER_HF_PARTS_H

#include "base/buffer.h"
#include "base/json.h"
#include "data/tokenizer/bpe.h"
#include <stdbool.h>
#include <stdint.h>

// A token that is searched for in the text before the model sees it.
struct hf_part_token {
    size_t begin, length;  // in names
    int32_t id;
    bool lstrip, rstrip, single_word, normalized;
};

struct hf_parts {
    struct buffer normalizer, pre_tokenizer, decoder, model;  // JSON values; empty: null
    struct buffer post_processor;                             // steps that affect offsets only
    struct buffer whole;                                      // instead of all of them: the existing file
    struct buffer probes;                                     // strings that hf_check should try, each ended by a NUL
    struct buffer names;
    struct hf_part_token *tokens;  // special ones
    size_t token_count;
    int64_t token_capacity;
    int32_t unknown, bos, pad;  // of the model; -1: none
    bool begins;                // a text begins with bos
    bool is_bert;               // its models expect [CLS] A [SEP]
    bool lowers;                // with is_bert: upper case becomes lower case
    bool is_roberta;            // <s> A </s>
    bool adds_scores;           // Unigram
    bool cleans_up;             // decoding drops spaces before punctuation
};

void hf_parts_free(struct hf_parts *parts);
void hf_parts_add(struct hf_parts *parts, const char *text, size_t length, int32_t id);

// A writer for one of the parts.
struct json_writer hf_part(struct buffer *out);

// ---- steps ----

void hf_step(struct json_writer *json, const char *type);  // {"type": …, left open
void hf_step_plain(struct json_writer *json, const char *type);
// {"type": "Replace", …} for a string or a pattern.
void hf_step_replace(struct json_writer *json, const char *text, const char *content);
void hf_step_replace_pattern(struct json_writer *json, const struct buffer *pattern, const char *content);
// "Removed", inverted, keeps only the matches of a text.
void hf_step_split(struct json_writer *json, const struct buffer *pattern, const char *behavior, bool invert);
void hf_step_byte_level(struct json_writer *json, bool prefix_space, bool use_regex);
// {"type": "Sequence", LIST: [ … and its end.
void hf_begin_sequence(struct json_writer *json, const char *list);
void hf_end_sequence(struct json_writer *json);

// Append to a pattern: [ … ] with the characters in a set; and a text, escaped.
void hf_pattern_set(struct buffer *pattern, bool (*is_in)(const void *context, uint32_t character),
                    const void *context);
void hf_pattern_text(struct buffer *pattern, const char *text, size_t length);

// ---- models ----

void hf_member_bool(struct json_writer *json, const char *key, bool value);
void hf_member_null(struct json_writer *json, const char *key);
void hf_vocab_entry(struct json_writer *json, const char *text, size_t length, int64_t id);

// A merge, by the texts of its two tokens.
struct hf_merge {
    const char *left, *right;
    size_t left_length, right_length;
    int64_t order;  // lower ones go first; ties by the shorter left part
};
void hf_write_merges(struct json_writer *json, struct hf_merge *merges, size_t count);

// A BPE model before its vocabulary, left open. unknown: NULL if there is no such token; else a run of them is one.
void hf_begin_bpe(struct json_writer *json, const char *unknown, bool byte_fallback, bool ignore_merges);

// Byte-level BPE. Token i of the table is written as id of[i], or i if `of` is NULL; -1: not written. The special
// tokens of the parts are in the vocabulary too.
struct hf_byte_model {
    const struct bpe *bpe;
    const int32_t *of;
    bool ignore_merges;     // a piece of text that is a token becomes that token
    const char *unk_token;  // NULL: none
};
void hf_write_byte_model(struct hf_parts *parts, const struct hf_byte_model *model);

// GPT-2's whole tokenizer. Tokens in brackets that no merge produces are special.
void hf_describe_gpt2(const struct bpe *bpe, struct hf_parts *parts);

// ---- verification ----

// Parses the text of a tokenizer.json and compares the ids of many strings, with rare characters and some of the
// tokenizer's own tokens. An error names the first string that differs.
struct tokenizer;
int hf_check(const struct tokenizer *tokenizer, const struct hf_parts *parts, const struct buffer *json);

#endif
