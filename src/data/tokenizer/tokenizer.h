// Text to token ids and back, with one interface for every kind of tokenizer. Kinds have Megatron's names
// (--tokenizer-type) and are listed in one table, in tokenizer.c.
//
// A struct tokenizer never changes after tokenizer_open, so any number of threads may share it. State that changes
// while encoding (caches, scratch memory) is in a struct tokenizer_encoder, one per thread. The ids depend only on the
// text, never on the encoder or on earlier texts.
//
// Text is bytes with a length: it may contain NULs, and byte-level tokenizers accept ill-formed UTF-8 too.
#ifndef DATA_TOKENIZER_TOKENIZER_H
#define DATA_TOKENIZER_TOKENIZER_H

#include "data/tokenizer/token_list.h"
#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Fields that a kind does not use are ignored. The caller owns the strings, which are not needed after tokenizer_open.
struct tokenizer_options {
    const char *type;              // "GPT2BPETokenizer"; NULL means the same
    const char *vocab_file;        // --vocab-file: vocab.json
    const char *merge_file;        // --merge-file: merges.txt
    const char *model_file;        // --tokenizer-model: for kinds that come in one file
    int64_t vocab_size;            // --vocab-size: for NullTokenizer, which has no file
    int64_t extra_ids;             // --vocab-extra-ids: additional tokens <extra_id_0>…, for kinds that can add some
    bool as_today;                 // --no-legacy-tokenizer: ids as in Megatron core 0.15 and later
    const char *tiktoken_pattern;  // --tiktoken-pattern: how TikTokenizer splits text; NULL: as known for the file
    int64_t tiktoken_specials;     // --tiktoken-num-special-tokens: ids before the ranks, in Megatron's JSON form
    bool hf_without_specials;      // --tokenizer-hf-no-include-special-tokens: put nothing around a text
    bool null_eod_given;           // --null-tokenizer-eod-id was given: see tokenizer.c
    int64_t null_eod_id;
    bool needs_mask;        // for a model of masked tokens: FairseqTokenizer adds <mask> to a dictionary of words
    const char *eod_token;  // --eod-token: the token that ends a document; NULL: the tokenizer's own
};

struct tokenizer;

int tokenizer_open(struct tokenizer **tokenizer, const struct tokenizer_options *options);
void tokenizer_free(struct tokenizer *tokenizer);  // NULL is fine

const char *tokenizer_type(const struct tokenizer *tokenizer);
int64_t tokenizer_vocab_size(const struct tokenizer *tokenizer);  // all ids are below it; unpadded
int64_t tokenizer_own_size(const struct tokenizer *tokenizer);    // without added tokens
int32_t tokenizer_eod(const struct tokenizer *tokenizer);         // the id that ends a document; -1 if there is none

// Appends the bytes of the ids. An id without a token is an error, and then nothing is appended.
int tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count, struct buffer *out);

// One token as the vocabulary writes it ("##ing", "[MASK]", "<extra_id_0>"), not NUL-terminated; NULL if the id has no
// token or this kind of tokenizer does not name its tokens.
const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id, size_t *length);

// Says of every id below vocab_size whether it is a special token, which is not part of a text. An error if this kind
// of tokenizer does not know.
int tokenizer_list_special(const struct tokenizer *tokenizer, bool *is_special /* (vocab_size) */);

struct tokenizer_encoder;

// The tokenizer must outlive its encoders. The memory of an encoder is bounded: up to 20 MiB for its caches, plus what
// the longest unsplittable piece of text needs. Fails if this build lacks a library that encoding needs; opening and
// decoding still work, and training and generating need no more.
int tokenizer_encoder_create(struct tokenizer_encoder **encoder, const struct tokenizer *tokenizer);
void tokenizer_encoder_free(struct tokenizer_encoder *encoder);  // NULL is fine

// Appends the ids of the text, after the ids that the kind puts before every text (Llama2Tokenizer: the
// beginning-of-text token). Nothing is added at the end. On error the list is unchanged.
int tokenizer_encode(struct tokenizer_encoder *encoder, const char *text, size_t length, struct token_list *out);

// ---- identity ----

// Two tokenizers with the same identity give the same ids.

// Appends a line for every option that ids depend on. Files count by content, so that a copy elsewhere is the same.
void tokenizer_describe(struct buffer *out, const struct tokenizer_options *options);

// SHA-256 of the texts of the first `count` tokens, whichever files they come from. Further tokens after them do not
// change it.
void tokenizer_digest(const struct tokenizer *tokenizer, int64_t count, char hex[65]);
// A dataset's record of its tokenizer: "COUNT SHA-256"; "" for NullTokenizer, which has no texts.
enum { TOKENIZER_RECORD = 96 };
void tokenizer_record(const struct tokenizer *tokenizer, char record[TOKENIZER_RECORD]);
// Whether the tokenizer gives the ids of a dataset with that record their meaning; true if either says nothing.
bool tokenizer_fits(const struct tokenizer *tokenizer, const char *record);

// ---- from the flags of a run ----

struct config;
// All tokenizer options of a configuration, which keeps ownership of the strings.
struct tokenizer_options tokenizer_options_of(const struct config *config);

// ---- text that grows ----

// Text that grows token by token. The text of a token depends on those before it: SentencePiece and WordPiece put
// spaces between words, and a character may consist of several tokens. So new tokens are decoded together with the last
// ones that were output, and an incomplete character is held back.
//
// Zeroed except for the tokenizer, which must outlive it. Freed by token_stream_free.
struct token_stream {
    const struct tokenizer *tokenizer;
    struct token_list ids;
    int64_t start;  // the first id that is still decoded: where the last output began
    int64_t said;   // ids that were output
};

// Ids that were output elsewhere, before all others: the text continues theirs.
void token_stream_begin(struct token_stream *stream, const int32_t *ids, int64_t count);
// Takes the next id, and appends the text that is now certain.
int token_stream_add(struct token_stream *stream, int32_t id, struct buffer *out);
// Appends the bytes still held back: an incomplete character, as the tokenizer decodes it.
int token_stream_end(struct token_stream *stream, struct buffer *out);
void token_stream_free(struct token_stream *stream);

#endif
