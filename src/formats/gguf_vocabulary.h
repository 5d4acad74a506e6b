// A tokenizer as GGUF stores it: every token with its text, type and score, merges, special ids, and the few switches
// that llama.cpp knows. Made from any tokenizer of ours whose ids llama.cpp can reproduce. A rule that it lacks is an
// error, a small difference is a warning. Internal to this folder.
#ifndef FORMATS_GGUF_VOCABULARY_H
#define FORMATS_GGUF_VOCABULARY_H

#include "data/tokenizer/tokenizer.h"
#include "formats/gguf.h"
#include "formats/model_source.h"

// The numbers are the file's.
enum gguf_token_type {
    GGUF_TOKEN_NORMAL = 1,
    GGUF_TOKEN_UNKNOWN,
    GGUF_TOKEN_CONTROL,       // never found in text unless the caller asks for it
    GGUF_TOKEN_USER_DEFINED,  // always found in text, before all else
    GGUF_TOKEN_UNUSED,
    GGUF_TOKEN_BYTE
};

struct gguf_token {
    char *text;  // owned; NULL: no token has this id
    bool is_padding;
    size_t length;
    float score;
    enum gguf_token_type type;
};

struct gguf_vocabulary {
    const char *model;          // "gpt2", "llama", "t5", "bert", "no_vocab"
    const char *pre;            // how text is cut into words; NULL if the model does not cut it
    struct gguf_token *tokens;  // (size)
    int64_t size;               // rows of the embedding
    int64_t padding_count;      // rows that no token has
    bool has_scores;
    struct gguf_pairs merges;               // as gguf_append_string writes them; only its bytes and count are used
    int32_t bos, eos, unk, sep, pad, mask;  // -1: none
    int32_t decoder_start;                  // T5's decoder begins with it; -1: none
    bool adds_bos, adds_eos, adds_sep;
    bool has_space_rules, adds_space, merges_spaces;  // add_space_prefix and remove_extra_whitespaces
    bool has_case_rules, lowers, strips_accents;
    struct buffer charsmap;
    const char *spaced;   // a token after which llama.cpp adds a space, unlike the tokenizer; NULL: there is none
    char *chat_template;  // NULL if there is none
};

// `rows` is the size of the embedding, which may have more rows than the tokenizer has tokens.
int gguf_vocabulary_make(struct gguf_vocabulary *vocabulary, const struct model_source *source, int64_t rows);
void gguf_vocabulary_free(struct gguf_vocabulary *vocabulary);  // a zeroed one is fine
void gguf_vocabulary_write(const struct gguf_vocabulary *vocabulary, struct gguf_pairs *pairs);

// ---- the kinds, each in a file of its own ----

// Sets the text of a token; -1 if the id has no row, or has a token already.
int gguf_vocabulary_set(struct gguf_vocabulary *vocabulary, int64_t id, const char *text, size_t length,
                        enum gguf_token_type type);
// A tokenizer.json in memory, which errors call `name`.
int gguf_vocabulary_from_json(struct gguf_vocabulary *vocabulary, const char *text, size_t length, const char *name);
// A SentencePiece model, with the tokenizer's additions.
int gguf_vocabulary_from_spm(struct gguf_vocabulary *vocabulary, const char *path, const struct tokenizer *tokenizer);
// WordPiece: a vocab.txt with the tokenizer's additions.
int gguf_vocabulary_from_wordpiece(struct gguf_vocabulary *vocabulary, const struct tokenizer *tokenizer, bool lowers);

// Warns that llama.cpp strips accents differently, if the vocabulary strips them.
void gguf_vocabulary_warn_accents(const struct gguf_vocabulary *vocabulary);

#endif
