// The functions of a kind of tokenizer: one static const struct tokenizer_kind, listed in tokenizer.c. `model` belongs
// to the kind; `open` creates it, and it is read-only afterwards. `state` belongs to one encoder.
#ifndef DATA_TOKENIZER_KIND_H
#define DATA_TOKENIZER_KIND_H

#include "data/tokenizer/tokenizer.h"
#include <stddef.h>
#include <stdint.h>

struct tokenizer {
    const struct tokenizer_kind *kind;
    int64_t vocab_size;
    int64_t own_size;  // without added tokens; 0: all are its own
    int32_t eod;
    void *model;
};

struct hf_parts;

struct tokenizer_kind {
    const char *name;
    // Sets vocab_size, eod and model of a zeroed tokenizer. On error nothing is left in model.
    int (*open)(struct tokenizer *tokenizer, const struct tokenizer_options *options);
    void (*close)(struct tokenizer *tokenizer);  // optional, and so is a state
    int (*state_create)(const struct tokenizer *tokenizer, void **state);
    void (*state_free)(void *state);
    int (*encode)(const struct tokenizer *tokenizer, void *state, const char *text, size_t length,
                  struct token_list *out);
    // Appends the bytes of ids in [0, vocab_size). An id without bytes is an error. NULL: the texts of the tokens.
    int (*decode)(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out);
    // One token as the vocabulary writes it; NULL if no token has the id. Optional.
    const char *(*token)(const struct tokenizer *tokenizer, int32_t id, size_t *length);
    // Fills zeroed parts of a tokenizer.json that gives the same ids; an error if that is not possible. Optional.
    int (*describe)(const struct tokenizer *tokenizer, struct hf_parts *parts);
};

// The error of ids[index] without a token. Returns -1.
int tokenizer_no_token(int32_t id, int64_t index);

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

// ---- files that Megatron opens with Hugging Face's library ----

// Hugging Face tokenizers for kinds that come in other files: since core 0.15, Megatron opens those of GPT-2 and BERT
// with their library, so text that reads like a special token is one, and [CLS] and [SEP] are put around BERT's texts.
//
// Opens the text of a tokenizer.json; the tokenizer's kind becomes HuggingFaceTokenizer.
int hf_tokenizer_open_text(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                           const struct buffer *text, const char *name);

// The tokenizer of --no-legacy-tokenizer with --vocab-file and --merge-file, or with a vocab.txt.
int hf_tokenizer_open_gpt2(struct tokenizer *tokenizer, const struct tokenizer_options *options);
int hf_tokenizer_open_bert(struct tokenizer *tokenizer, const struct tokenizer_options *options, bool lower);

// ---- files of another kind ----

// If a file in the options belongs to another type than the given one, appends its apparent kind and the type that
// reads it to the current error. Returns -1.
int file_kind_explain(const char *type, const struct tokenizer_options *options);

// ---- lines ----

struct token_line {
    const char *text;
    size_t length;
};
// The line at *at, which moves past it. As in Python's text files, a line ends at \n, \r or \r\n.
struct token_line token_line_next(const char **at, const char *end);

// ---- truncated files ----

// Is a list of tokens complete? A rank file, vocab.txt or dict.txt does not say how long it is, so one truncated while
// copying looks like a smaller one. Two things reveal it: a last line without a line end, and, for files that everybody
// downloads, a known beginning of a longer file.
//
// A file that ends inside a line may be truncated there, which nothing else would show: it is an error.
int whole_check_end(const char *text, size_t length, const char *name);
// A text that is the beginning of a longer known file is an error, unless its number of lines equals --vocab-size.
int whole_check_known(const char *text, size_t length, const char *name, int64_t vocab_size);

#endif
