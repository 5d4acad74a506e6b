// A model as a GGUF file. llama.cpp's architectures are tables: the families each can run, the names of its tensors,
// and what it computes by default. Internal to this folder.
#ifndef FORMATS_GGUF_MODEL_H
#define FORMATS_GGUF_MODEL_H

#include "config/config.h"
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

#endif
