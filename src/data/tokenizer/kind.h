// The functions of a kind of tokenizer: one static const struct tokenizer_kind, listed in tokenizer.c. `model` belongs
// to the kind; `open` creates it, and it is read-only afterwards. `state` belongs to one encoder.
#ifndef DATA_TOKENIZER_KIND_H
#define DATA_TOKENIZER_KIND_H

#include "data/tokenizer/tokenizer.h"

struct tokenizer {
    const struct tokenizer_kind *kind;
    int64_t vocab_size;
    int32_t eod;
    void *model;
};

struct hf_parts;

struct tokenizer_kind {
    const char *name;
    // Sets vocab_size, eod and model of a zeroed tokenizer. On error nothing is left in model.
    int (*open)(struct tokenizer *tokenizer, const struct tokenizer_options *options);
    void (*close)(struct tokenizer *tokenizer);
    int (*state_create)(const struct tokenizer *tokenizer, void **state);
    void (*state_free)(void *state);
    int (*encode)(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                  struct token_list *out);
    // Appends the bytes of ids in [0, vocab_size). An id without bytes is an error.
    int (*decode)(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out);
    // One token as the vocabulary writes it; NULL if no token has the id. Optional.
    const char *(*token)(const struct tokenizer *tokenizer, int32_t id, size_t *length);
    // Fills zeroed parts of a tokenizer.json that gives the same ids; an error if that is not possible. Optional.
    int (*describe)(const struct tokenizer *tokenizer, struct hf_parts *parts);
};

extern const struct tokenizer_kind tokenizer_kind_gpt2;
extern const struct tokenizer_kind tokenizer_kind_null;
extern const struct tokenizer_kind tokenizer_kind_sentencepiece;
extern const struct tokenizer_kind tokenizer_kind_gpt_sentencepiece;
extern const struct tokenizer_kind tokenizer_kind_llama2;
extern const struct tokenizer_kind tokenizer_kind_bert_lower;
extern const struct tokenizer_kind tokenizer_kind_bert_case;
extern const struct tokenizer_kind tokenizer_kind_tiktoken;
extern const struct tokenizer_kind tokenizer_kind_hf;
extern const struct tokenizer_kind tokenizer_kind_fairseq;

#endif
