// A model as a GGUF file. llama.cpp's architectures are tables: the families each can run, the names of its tensors,
// and what it computes by default. Internal to this folder.
#ifndef FORMATS_GGUF_MODEL_H
#define FORMATS_GGUF_MODEL_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"
#include "formats/gguf.h"
#include "formats/model_source.h"
#include "parallel/param.h"
#include <stdbool.h>
#include <stddef.h>

enum { GGUF_MAX_PIECES = 3 };

// One kind of tensor. A * stands for the layer's number. Several names are the segments of ours; one name is all of it.
struct gguf_row {
    const char *ours;
    const char *theirs[GGUF_MAX_PIECES];  // NULL after the last
};

// What an architecture computes, or needs, where they differ.
enum gguf_ability {
    GGUF_ROPE = 1 << 0,
    GGUF_INTERLEAVED = 1 << 1,   // rotates pairs of neighbours, so rows of queries and keys are reordered
    GGUF_ROPE_FACTORS = 1 << 2,  // reads rope_freqs.weight
    GGUF_PARTIAL_ROPE = 1 << 3,  // rotates rope.dimension_count channels of a head
    GGUF_WIDE_HEADS = 1 << 4,    // heads × channels may differ from the width of the model
    GGUF_RMS_NORM = 1 << 5,
    GGUF_GROUPS = 1 << 6,        // fewer key and value heads than queries
    GGUF_KEY_HEADS = 1 << 7,     // norms of keys are as wide as the model: as many heads as queries
    GGUF_OUTPUT_BIAS = 1 << 8,   // of the attention, though the other linear layers have none
    GGUF_OUTPUT = 1 << 9,        // output.weight must be there even if it is the embedding
    GGUF_EXPERTS = 1 << 10,      // every layer has experts, chosen by a softmax
    GGUF_SUMS_TO_ONE = 1 << 11,  // the weights of a token's experts add up to 1
    GGUF_DENSE_WIDTH = 1 << 12,  // has a key of its own for the width of experts
    GGUF_SHARED = 1 << 13,       // a shared expert with a gate
    GGUF_WINDOWS = 1 << 14,      // in every other layer, from the first on
    GGUF_ROUTED = 1 << 15,       // like DeepSeek: dense layers first, shared experts without gates, scores, groups
    GGUF_LATENTS = 1 << 16,      // latent attention
    GGUF_BIASES = 1 << 17,       // linear layers, experts and routers must have biases
};

struct gguf_architecture {
    const char *name;                // general.architecture
    const char *const *families;     // the model_types of Hugging Face that it runs; NULL at the end
    const char *const *activations;  // "silu gated", "gelu_tanh"; NULL at the end
    const struct gguf_row *rows;     // ends with an empty one
    const char *const *dropped;      // parameters that it lacks and does not need; NULL at the end, or for none
    unsigned abilities;              // of enum gguf_ability
};
bool gguf_has(const struct gguf_architecture *architecture, enum gguf_ability ability);

// The architecture that runs a family; NULL if there is none.
const struct gguf_architecture *gguf_architecture_of(const char *family);
// "gpt2, llama, …": the families, to be freed.
char *gguf_family_list(void);

struct gguf_match {
    const struct gguf_row *row;  // NULL if it has no such tensor
    int64_t layer;
    int pieces;
    bool is_dropped;  // the parameter is not written
};
// Whether the row is heads' keys (heads, latent, channels) and values (heads, channels, latent) from latents.
bool gguf_is_latent(const struct gguf_row *row);
// Whether it is the biases of all experts: one element per row, so that they can be split like the weights.
bool gguf_is_expert_bias(const char *name);
struct gguf_match gguf_match(const struct gguf_architecture *architecture, const struct param *param);

// A model's configuration as GGUF keys, and whether llama.cpp can run it.

// -1, with the difference as message, if the architecture computes something other than the model.
int gguf_config_check(const struct gguf_architecture *architecture, const struct config *config);
// Writes the architecture's keys. The vocabulary has `rows` rows.
void gguf_config_write(const struct gguf_architecture *architecture, const struct config *config, int64_t rows,
                       struct gguf_pairs *pairs);
// The divisors of the frequencies of rotated pairs, if the architecture reads them from a tensor (rope_freqs.weight);
// returns their number, else 0. `factors` has room for ROPE_MOST_PAIRS.
int64_t gguf_rope_factors(const struct config *config, float *factors);
// Factor folded into the final norm's gain, because the architecture has no other factor for logits.
float gguf_output_scale(const struct config *config);

// Verifies that a written GGUF file holds its source model.

struct gguf_check {
    const struct model_write *asked;
    const struct gguf_architecture *architecture;
    const char *path;
    int64_t rows;                    // of the vocabulary
    const struct gguf_pairs *pairs;  // that were written
};
// Reads the file with our own reader, compares its pairs with those that were written, assembles our parameters from
// its tensors, compares their elements with the source's, and runs both models if the caller provided a way to. An
// encoder's file lacks its heads and is not run.
int gguf_check(const struct gguf_check *check);
// The first part: the pairs, byte by byte.
int gguf_check_pairs(const struct gguf_check *check, const struct gguf *file);

// ---- vocabularies ----

// A tokenizer as GGUF stores it: every token with its text, type and score, merges, special ids, and the few switches
// that llama.cpp knows. Made from any tokenizer of ours whose ids llama.cpp can reproduce. A rule that it lacks is an
// error, a small difference is a warning.

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
