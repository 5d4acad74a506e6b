// The architectures of llama.cpp as tables: the families each can run, the names of its tensors, and what it computes
// by default. Internal to this folder.
#ifndef FORMATS_GGUF_NAMES_H
#define FORMATS_GGUF_NAMES_H

#include "parallel/param.h"
#include <stdbool.h>
#include <stddef.h>

enum { GGUF_MAX_PIECES = 3 };

// One kind of tensor. A * stands for the layer's number. Several names are the segments of ours; one name is all of it.
struct gguf_row {
    const char *ours;
    const char *theirs[GGUF_MAX_PIECES];  // NULL after the last
};

struct gguf_architecture {
    const char *name;                // general.architecture
    const char *const *families;     // the model_types of Hugging Face that it runs; NULL at the end
    const char *const *activations;  // "silu gated", "gelu_tanh"; NULL at the end
    const struct gguf_row *rows;
    size_t row_count;
    const char *const *dropped;  // parameters that it lacks and does not need; NULL at the end
    bool has_rope;
    bool is_interleaved;    // rotates pairs of neighbours, so rows of queries and keys are reordered
    bool has_rope_factors;  // reads rope_freqs.weight
    bool has_partial_rope;  // rotates rope.dimension_count channels of a head
    bool has_wide_heads;    // heads × channels may differ from the width of the model
    bool has_rms_norm;
    bool has_groups;       // fewer key and value heads than queries
    bool needs_key_heads;  // norms of keys are as wide as the model: as many heads as queries
    bool has_output_bias;  // of the attention, though the other linear layers have none
    bool needs_output;     // output.weight must be there even if it is the embedding
    bool has_experts;      // every layer has experts, chosen by a softmax
    bool sums_to_one;      // the weights of a token's experts add up to 1
    bool has_dense_width;  // has a key of its own for the width of experts
    bool has_shared;       // a shared expert with a gate
    bool has_windows;      // in every other layer, from the first on
    bool is_routed;        // like DeepSeek: dense layers first, shared experts without gates, keys for scores, groups
    bool has_latents;      // latent attention
    bool needs_biases;     // linear layers, experts and routers must have biases
};

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

#endif
