// The tokens of a vocabulary file as written there: string to id and id to string. Used while a tokenizer is loaded;
// encoders work with ids.
#ifndef DATA_TOKENIZER_VOCABULARY_H
#define DATA_TOKENIZER_VOCABULARY_H

#include "base/buffer.h"
#include <stddef.h>
#include <stdint.h>

struct vocabulary_token {
    size_t begin;   // of its string in text
    size_t length;  // 0: no token has this id
};

struct vocabulary {
    struct buffer text;               // all strings
    struct vocabulary_token *tokens;  // (size)
    int64_t size;                     // highest id + 1
    int64_t count;                    // tokens; less than size if ids have gaps
    int32_t *slots;                   // hash table of ids, -1 if free
    size_t slot_mask;
};

// Reads {"token": id, …}, in any order. Ids are integers from 0, each used once, without large gaps; strings are
// distinct and not empty. On error nothing is left to free. vocabulary_parse_json does the same for bytes in memory;
// errors call them `name`.
int vocabulary_read_json(struct vocabulary *vocabulary, const char *path);
int vocabulary_parse_json(struct vocabulary *vocabulary, const char *text, size_t length, const char *name);
void vocabulary_free(struct vocabulary *vocabulary);

// Id of a string, -1 if it is not a token.
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *string, size_t length);
// String of an id in [0, size), NUL-terminated; NULL and length 0 if no token has the id.
const char *vocabulary_string(const struct vocabulary *vocabulary, int32_t id, size_t *length);

#endif
