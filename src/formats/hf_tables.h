// Macros for the tables of families: rows for tensors, keys for members of config.json. Internal to the hf_family
// files.
#ifndef FORMATS_HF_TABLES_H
#define FORMATS_HF_TABLES_H

#include "formats/hf_family.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SAME(ours, theirs)                                                                                             \
    {                                                                                                                  \
        ours ".weight", HF_SAME, {                                                                                     \
            theirs ".weight"                                                                                           \
        }                                                                                                              \
    }
#define SAME_BIAS(ours, theirs)                                                                                        \
    SAME(ours, theirs), {                                                                                              \
        ours ".bias", HF_SAME, {                                                                                       \
            theirs ".bias"                                                                                             \
        }                                                                                                              \
    }
#define TURNED(ours, theirs)                                                                                           \
    {ours ".weight", HF_TRANSPOSE, {theirs ".weight"}}, {                                                              \
        ours ".bias", HF_SAME, {                                                                                       \
            theirs ".bias"                                                                                             \
        }                                                                                                              \
    }
#define JOINED(ours, a, b, c)                                                                                          \
    {                                                                                                                  \
        ours ".weight", HF_JOIN, {                                                                                     \
            a ".weight", b ".weight", c ".weight"                                                                      \
        }                                                                                                              \
    }
#define JOINED_BIAS(ours, a, b, c)                                                                                     \
    JOINED(ours, a, b, c), {                                                                                           \
        ours ".bias", HF_JOIN, {                                                                                       \
            a ".bias", b ".bias", c ".bias"                                                                            \
        }                                                                                                              \
    }

#define NUMBER(name, flag, ...)                                                                                        \
    { .key = name, .kind = HF_NUMBER, .flags = flag, __VA_ARGS__ }
#define SWITCH(name, flag, ...)                                                                                        \
    { .key = name, .kind = HF_SWITCH, .flags = flag, __VA_ARGS__ }
#define MAP(name, flag, values, ...)                                                                                   \
    { .key = name, .kind = HF_MAP, .flags = flag, .map = values, __VA_ARGS__ }
#define ONLY(name, value)                                                                                              \
    { .key = name, .kind = HF_MAP, .map = value "=", .fallback = value }
// A member that is not written, since transformers ignores it or has no other default.
#define READ_ONLY(name, value)                                                                                         \
    { .key = name, .kind = HF_MAP, .map = value "=", .fallback = value, .is_read = true }

// Other names for gelu_new's formula; a model keeps the one it came with.
#define TANH_NAMES "gelu_pytorch_tanh=gelu_tanh gelu_fast=gelu_tanh "
#define PLAIN_ACTIVATIONS "gelu=gelu relu=relu relu2=squared_relu silu=silu swish=silu"

// Layers of ours.
#define OURS "decoder.layers.*."
#define ENCODER "encoder.layers.*."

#define TABLES(name, ignored_list, written_list, flag_list)                                                            \
    .rows = name##_rows, .row_count = COUNT(name##_rows), .keys = name##_keys, .key_count = COUNT(name##_keys),        \
    .ignored = ignored_list, .flags = flag_list, .flag_count = COUNT(flag_list), .written = written_list,              \
    .written_count = COUNT(written_list)

// The tables, each with the families of one kind.
struct hf_families {
    const struct hf_family *items;
    size_t count;
};
struct hf_families hf_families_learned(void);   // decoders with learned positions
struct hf_families hf_families_rotary(void);    // decoders with rotary positions
struct hf_families hf_families_likes(void);     // decoders that differ from Llama's in a detail
struct hf_families hf_families_gemma(void);     // decoders with norms before and after sublayers
struct hf_families hf_families_parallel(void);  // decoders whose attention and MLP read the same input
struct hf_families hf_families_experts(void);   // decoders with mixtures of experts
struct hf_families hf_families_latent(void);    // decoders with latent attention
struct hf_families hf_families_glm(void);       // GLM-4
struct hf_families hf_families_routed(void);    // mixtures of experts, mostly with DeepSeek-V3's routers
struct hf_families hf_families_alibi(void);     // decoders with ALiBi
struct hf_families hf_families_encoders(void);  // BERT's and T5's kinds

#endif
