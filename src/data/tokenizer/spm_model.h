// A SentencePiece model: text to ids and back, with exactly the ids of the sentencepiece library.
//
// A text is normalized, split into words and encoded word by word. A split is made between two bytes that are adjacent
// in no piece: no piece can reach across, so the two sides are independent, and the ids of a short word can be cached.
// (Two kinds of models need more care. A unigram model sums rounded scores over the whole text; see spm_encode.c. A BPE
// model with unused pieces is never split; see spm_bpe.c.)
#ifndef DATA_TOKENIZER_SPM_MODEL_H
#define DATA_TOKENIZER_SPM_MODEL_H

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/charsmap.h"
#include "data/tokenizer/trie.h"
#include "data/tokenizer/unigram.h"
#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- the file ----

// The content of a SentencePiece .model file: a protocol buffer (proto2) of pieces with scores, and the few settings of
// its trainer and normalizer that matter to an encoder. It is only parsed here; spm_model.c validates it. The numbers
// are the file's.
enum spm_piece_type { SPM_NORMAL = 1, SPM_UNKNOWN, SPM_CONTROL, SPM_USER_DEFINED, SPM_UNUSED, SPM_BYTE };
enum spm_model_type { SPM_UNIGRAM = 1, SPM_BPE, SPM_WORD, SPM_CHAR };

// Bytes of the file.
struct spm_text {
    const char *data;  // not NUL-terminated; NULL if the field is absent
    size_t length;
};

struct spm_piece {
    struct spm_text text;
    float score;
    enum spm_piece_type type;
};

// Sets of types: bit N is type N.
enum {
    SPM_RESERVED = 1 << SPM_CONTROL | 1 << SPM_UNKNOWN | 1 << SPM_BYTE,
    SPM_MERGED = 1 << SPM_NORMAL | 1 << SPM_USER_DEFINED | 1 << SPM_UNUSED,
};
static inline bool spm_is(const struct spm_piece *piece, int types) {
    return types >> piece->type & 1;
}

struct spm_normaliser_spec {
    struct spm_text charsmap;
    bool add_dummy_prefix;
    bool remove_extra_whitespaces;
    bool escape_whitespaces;
};

struct spm_file {
    struct spm_piece *pieces;  // (piece_count)
    int64_t piece_count;
    bool has_trainer, has_normaliser;  // the settings are present, even if empty
    enum spm_model_type model_type;
    bool treat_whitespace_as_suffix;
    bool byte_fallback;
    struct spm_text unknown_surface;
    struct spm_text unknown_piece, bos_piece, eos_piece, pad_piece;
    struct spm_normaliser_spec normaliser, denormaliser;
};

// ---- byte-pair encoding ----

// SentencePiece's byte-pair encoding: two neighbours may merge if their joint text is a piece; the piece with the
// highest score goes first, the leftmost of equals. Texts are in folded form (see below).
//
// A symbol is a piece, or a character that occurs in one but is not a piece itself. Every pair of symbols that forms a
// piece is in one hash table, so merging compares numbers, not strings.
struct spm_symbol {
    int32_t id;      // as written
    int32_t length;  // bytes
};

struct spm_bpe {
    struct trie symbols;         // texts to symbols: ids of pieces, then numbers from piece_count on
    struct trie user_defined;    // texts that are one symbol and never merge, to numbers after `strange`
    int32_t strange;             // the symbol of any character that is in no piece; its length is the character's
    struct spm_symbol *written;  // (symbols): how each is written; as unknown_id if it has no id
    bool *is_unused;             // (piece_count), NULL if no piece is of that type
    struct bpe merges;           // the pairs of symbols that form a piece; ranks by score
    int32_t piece_count;
};

enum { SPM_MAX_PIECE_BYTES = 4096 };

// A model's pieces, in folded form, of at most SPM_MAX_PIECE_BYTES. A piece that cannot occur in text has text.data
// NULL.
struct spm_bpe_options {
    const struct spm_piece *pieces;  // (piece_count)
    int64_t piece_count;
    int32_t unknown_id;
    const struct trie *reserved;  // texts of control, unknown and byte pieces: looked up first
};

void spm_bpe_create(struct spm_bpe *bpe, const struct spm_bpe_options *options);
void spm_bpe_free(struct spm_bpe *bpe);

// Memory of one thread. Zeroed is valid. The result of the last call is symbols[0…count).
struct spm_bpe_scratch {
    struct spm_symbol *symbols;
    int64_t count, capacity;
    struct token_list ids, stack;
    struct merge_scratch merge;
};

void spm_bpe_scratch_free(struct spm_bpe_scratch *scratch);

// Encodes text[0…length), well-formed UTF-8 in folded form, length < 2^31.
void spm_bpe_encode(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, const char *text, size_t length);

// ---- normalizing ----

// SentencePiece's normalizer: replaces characters by the rules of a model, tidies spaces and marks them.
//
// SentencePiece writes a space as U+2581 (three bytes), and treats a U+2581 in the text the same. We write both as one
// byte, a space, which then has no other meaning: the "folded" form. For models that do not escape spaces nothing is
// folded.

// U+2581, and its bytes.
#define SPM_SPACE "\xE2\x96\x81"
enum { SPM_SPACE_BYTES = 3 };

struct spm_normaliser {
    struct spm_normaliser_spec spec;
    struct charsmap map;
    struct trie user_defined;  // texts that no rule may change
    bool is_suffix;            // the dummy space comes last
    unsigned char kinds[256];  // kinds of bytes, see the .c
};

struct spm_normaliser_options {
    const struct spm_normaliser_spec *spec;
    struct trie_key *user_defined;  // their bytes are copied; the order may change
    int64_t user_defined_count;
    bool is_suffix;
    const char *name;  // of the model, for errors
};

int spm_normaliser_create(struct spm_normaliser *normaliser, const struct spm_normaliser_options *options);
void spm_normaliser_free(struct spm_normaliser *normaliser);

// Appends the normalized text. Ill-formed bytes become U+FFFD, one by one.
void spm_normalise(const struct spm_normaliser *normaliser, const char *text, size_t length, struct buffer *out);

// Appends text with every U+2581 as a space. False if it already has a space, which then would be ambiguous.
bool spm_fold(const char *text, size_t length, struct buffer *out);

// SentencePiece's search for user-defined symbols: the longest of the first 64 that text begins with; length 0 for
// none.
static inline struct trie_match spm_match_user_defined(const struct trie *symbols, const char *text, size_t length) {
    return trie_longest(symbols, text, length, 64);
}

// ---- the model ----

// The index of the pair "a, then b" in a table of SPM_PAIRS.
enum { SPM_PAIRS = 1 << 16 };
static inline size_t spm_pair_index(unsigned char a, unsigned char b) {
    return a | (size_t)b << 8;
}

struct spm_model {
    struct buffer bytes;  // the file
    struct spm_file file;
    int32_t unknown_id;
    int32_t bos_id, eos_id, pad_id;  // -1 if the model has none
    int32_t byte_ids[256];           // with byte fallback
    struct spm_normaliser normaliser;
    struct spm_normaliser denormaliser;
    bool has_denormaliser;
    struct trie reserved;      // folded texts of control, unknown and byte pieces
    struct buffer folded;      // texts of pieces as they occur in normalized text
    struct spm_piece *pieces;  // (piece_count) with folded texts; data NULL if it cannot occur
    // One of these, by file.model_type.
    struct unigram unigram;
    struct spm_bpe bpe;
    struct trie whole;              // word and character models: texts to ids
    struct trie user_defined;       // character models
    unsigned char cuts[SPM_PAIRS];  // 1 if no piece has the first byte right before the second: a word may end there
    bool is_cut;
    bool is_raw;        // well-formed text needs no normalizer, except for its first word
    double most_score;  // unigram: no score is further from 0
};

// The pieces of some types that can occur, with their ids as values: (*count), freed by the caller.
struct trie_key *spm_choose_keys(const struct spm_piece *pieces, int64_t piece_count, int types, int64_t *count);

// Opens a file of at most 256 MB, or bytes that errors call `name` (they are copied).
int spm_model_open(struct spm_model **model, const char *path);
int spm_model_parse(struct spm_model **model, const void *bytes, size_t length, const char *name);
void spm_model_free(struct spm_model *model);  // NULL is fine

// Memory of one thread for encoding.
struct spm_encoder;
struct spm_encoder *spm_encoder_create(const struct spm_model *model);
void spm_encoder_free(struct spm_encoder *encoder);  // NULL is fine

// Appends the ids of a text. Fails if it has 2 GiB or more; the caller drops the ids added so far.
int spm_encode(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *out);

// Appends the text of ids, all in [0, piece_count).
void spm_decode(const struct spm_model *model, const int32_t *ids, int64_t count, struct buffer *out);

// ---- special tokens ----

// The tokens that Megatron's classic SentencePieceTokenizer adds to a model: <CLS>, <SEP>, <EOD> and <MASK>, the
// padding, beginning and end of the model (<PAD>, <BOS>, <EOS> if it has none), and <extra_id_0>…. Each is found in the
// original text before the model sees it; the text between them is encoded separately. A text that is already a piece
// keeps its id, the others follow the last piece.
struct spm_specials {
    struct byte_table tokens;  // in the order they were added, which decides between two at one place
    struct trie trie;          // texts to indices
    int first_byte;            // of all of them; -1 if they differ
    int32_t *by_id;            // (vocab_size) index of the special token, -1 for an ordinary piece
    int32_t vocab_size;        // pieces and added tokens
    int32_t end_of_document;   // id of <EOD>
};

int spm_specials_create(struct spm_specials *specials, const struct spm_model *model, int64_t extra_ids,
                        const char *name);
void spm_specials_free(struct spm_specials *specials);

// The first special token in text[0…length): where it begins, or length if there is none, and its index.
size_t spm_specials_find(const struct spm_specials *specials, const char *text, size_t length, int32_t *index);

// ---- as a tokenizer.json ----

struct hf_parts;
struct json_writer;

// specials: NULL if the model has no further tokens. An error names what a tokenizer.json cannot express.
int spm_describe(const struct spm_model *model, const struct spm_specials *specials, struct hf_parts *parts);

// Writes the normalizer's rules (its charsmap) as steps, and adds probes; nothing if it has no rules. Requires
// normal_form_require.
void spm_describe_rules(const struct spm_normaliser *normaliser, struct hf_parts *parts, struct json_writer *json);

#endif
