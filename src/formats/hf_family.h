// The families of Hugging Face models as tables: the names in their configurations and tensors, and how each maps to
// ours. One engine reads the tables in both directions, so what can be imported can be exported, and the two cannot
// drift apart. Internal to this folder.
#ifndef FORMATS_HF_FAMILY_H
#define FORMATS_HF_FAMILY_H

#include "base/json.h"
#include <stdbool.h>
#include <stddef.h>

// How theirs becomes ours; exporting does the reverse.
enum hf_transform {
    HF_SAME,             // the same elements in the same order
    HF_TRANSPOSE,        // GPT-2 stores (in, out), and so does gpt-oss for each expert
    HF_JOIN,             // several of theirs, stacked by rows, are the segments of one of ours
    HF_GROUPS,           // theirs has, for each group of heads, its queries, its key and its value
    HF_NUMBERED,         // like HF_JOIN per expert, or gains per head; the second * of their names is its number
    HF_PAIRS,            // the rows of our two segments alternate, per expert: gate, up, gate, …
    HF_PAIRS_TRANSPOSE,  // the same, but as columns
    HF_MXFP4,            // two of theirs: blocks of 4-bit numbers, and their scales; only read
    HF_MXFP4_PAIRS,      // the same, with alternating rows as in HF_PAIRS
};

enum { HF_MAX_PIECES = 3 };

// One kind of tensor. A * stands for the layer's number. If several rows fit one of ours, the first is written; the
// others are variants that are read as well (fused or separate matrices).
struct hf_row {
    const char *ours;
    enum hf_transform transform;
    const char *theirs[HF_MAX_PIECES];  // NULL after the last
};

enum hf_key_kind {
    HF_NUMBER,  // the flag's number; with several flags "--a/--b" all are set, and the first is written
    HF_SWITCH,  // the flag's boolean
    HF_MAP,     // texts "theirs=ours" separated by spaces; ours may be "a/b" for flags "--a/--b", and is empty without
                // flags: then theirs is the only supported value
};

// One member of config.json; "a.b" is member b of the object a.
struct hf_key {
    const char *key;
    enum hf_key_kind kind;
    const char *flags;     // NULL: we have no counterpart
    const char *fallback;  // if the member is absent or null; NULL: it must be there; "-": the flag keeps its default
    const char *map;
    int added;         // HF_NUMBER: theirs is ours + added
    bool has_null;     // our 0 is written as null; 0 is not accepted
    bool is_positive;  // HF_NUMBER: theirs must not be 0, which means something else here
    bool is_inverse;   // HF_NUMBER: theirs is 1 / ours
    bool has_none;     // HF_NUMBER: their 0 leaves our flag unchanged
    int instead;       // HF_NUMBER: written for our 0, which theirs cannot be
    bool is_read;      // only read: a variant that is refused, or a member that is written with the tokenizer's ids
    bool is_written;   // only written: a second name for a flag that transformers does not read or we do not need
    const char *near;  // HF_MAP: words that are approximations, used if allowed
};

// A flag that every model of the family has.
struct hf_flag {
    const char *flag, *value;
};

// Layers with a window, of families with a switch for windows, if config.json has no layer_types.
enum hf_windows {
    HF_WINDOWS_NONE,   // no such switch
    HF_WINDOWS_LATE,   // layers from max_window_layers on
    HF_WINDOWS_EARLY,  // every other layer below max_window_layers, including the first
    HF_WINDOWS_ALL,
};

// How config.json says which layers have experts: see hf_config_layers.c.
enum hf_sparse {
    HF_SPARSE_ALL,    // it does not: all have
    HF_SPARSE_STEP,   // decoder_sparse_step and mlp_only_layers
    HF_SPARSE_FIRST,  // layers after the first first_k_dense_replace
    HF_SPARSE_TYPES,  // mlp_layer_types; if absent, like HF_SPARSE_FIRST
};

// The output layer: whether it is the embedding, by default, and what else is special about it.
enum hf_tie {
    HF_UNTIED,
    HF_TIED,
    HF_TIED_ALWAYS,  // another output layer is refused
    HF_TIED_NEVER,   // whatever config.json says
    HF_TIED_SCALED,  // T5: scale_decoder_outputs says whether the output is scaled; transformers 4 scales a tied one
    HF_TIED_AND_SCALED,  // a key of the family reads both from tie_word_embeddings
};

enum { HF_MAX_CONDITIONS = 2 };

// One family. Its lists consist of parts, many of them shared with other families (hf_parts.h): the parts end with
// NULL, and each part with an empty item. Of rows and keys with the same name, the first is written.
// Several families may share one model_type: the conditions tell which of them a config.json belongs to.
struct hf_family {
    const char *model_type;                        // NULL after the last
    struct hf_flag conditions[HF_MAX_CONDITIONS];  // members and their required values, as JSON; NULL after the last
    const char *architecture;                      // of the model with its head
    const char *architecture_mlm;                  // of a BERT without the sentence head, else NULL
    const char *prefix;                            // of all names but the head's; base models' files lack it
    const char *embedding, *head;                  // theirs; the head is absent if it is tied
    enum hf_tie tie;
    const struct hf_row *const *rows;
    const struct hf_key *const *keys;
    const struct hf_flag *const *flags;
    // What the class assumes if a member is absent: instead of a key's fallback, or for a member that is in no key,
    // by its most common name. A rope_theta without a default is 10000. Without one, all heads have keys and values
    // (num_key_value_heads), heads rotate whole (partial_rotary_factor), there is one base for all layers
    // (rope_local_base_freq), and scores have the usual scale (query_pre_attn_scalar).
    const struct hf_flag *defaults;
    const struct hf_flag *written;  // members without a counterpart in our configuration, as JSON; NULL: no token ids
    const char *const *ignored;     // patterns of buffers that are not parameters; NULL: of rotary positions
    const char *object;             // of config.json that keys "object.member" are in; NULL: none
    const char *harmless;           // its own harmless members, see hf_config_members.c; NULL: none
    bool has_rope;
    const char *rope_kinds;           // its kinds, separated by spaces; NULL: all of ours
    const char *groups_key;           // its name for num_key_value_heads; NULL: the same
    bool has_rope_alpha;              // rotary scaling may be a number that stretches the base, see hf_config_rope.c
    bool has_longrope;                // LongRoPE is one of its kinds; no other family has it
    bool needs_rotary_base;           // releases of transformers have different defaults
    const char *rotary_base_key;      // its name for rope_theta; NULL: the same
    const char *rotary_part_key;      // its name for partial_rotary_factor; NULL: the same
    const char *rotary_channels_key;  // its member for the number of rotated channels, instead of a part
    bool has_no_groups;               // every head has a key and a value of its own
    bool has_multi_query;             // multi_query says whether all heads share one key and value
    bool has_no_rope_layers;          // no_rope_layers says which layers have rotary positions
    const char *window_freq;          // default: every N-th layer has no window, or "all" have one; NULL: all alike
    bool needs_window;                // transformers cannot load a model without one
    enum hf_windows window_switch;    // use_sliding_window turns windows on; which layers have them
    bool has_whole_without_rope;      // layers without a window have no rotary positions
    bool has_rope_without_windows;    // except that if sliding_window is null, all layers have them
    bool has_square_output;           // all heads together are as wide as the residual stream
    bool has_nested_rope;             // rope_parameters are written too, with an object for layers with a window
    bool has_no_flat_rope;            // rope_theta and rope_scaling are not written
    enum hf_sparse sparse;            // how it says which layers have experts
    const char *experts;              // default number of experts, which has several names
    bool has_mxfp4;                   // its matrices may come in MXFP4
    bool has_fp8_blocks;              // its matrices may come in fp8 with scales of blocks
    const char *left_out;             // part of the names of tensors that are ignored, as in transformers; NULL: none
    bool needs_rope_scaling;          // config.json must state the rotary scaling: there is no clear default
    bool has_latents;                 // DeepSeek's, see hf_config_deepseek.c
    int group_best;                   // shared experts beside routed ones in groups, see hf_config_deepseek.c: number
                                      // of a group's best scores that rank it; 0: it describes experts in another way
    const char *shared_key;           // its name for n_shared_experts; NULL: the same
    const char *topk_method;          // NULL: no such member
    const char *plain_method;         // its value without groups, the usual one; NULL: the same
    bool scales_embedding;            // word embeddings are multiplied by the square root of their width
    bool has_centered_gains;          // gains of norms are stored as their distance from 1
};

// Item i of a family's lists, NULL after the last; a key with its family's default.
const struct hf_row *hf_row_at(const struct hf_family *family, size_t i);
bool hf_key_at(const struct hf_family *family, size_t i, struct hf_key *key);
const struct hf_flag *hf_flag_at(const struct hf_family *family, size_t i);
// Whether all its models have a value of the flag.
bool hf_has_flag(const struct hf_family *family, const char *flag);
// The default of a member; NULL if there is none.
const char *hf_default(const struct hf_family *family, const char *member);

// NULL if unknown. Of several families, the one with the most conditions that hold in the config.json, which may be
// NULL, and none that fails.
const struct hf_family *hf_family_find(const char *model_type, const struct json *root);
const struct hf_family *hf_family_at(size_t i);  // NULL after the last
// The part of a known model_type that no layer here computes; NULL if it is unknown, or supported.
const char *hf_family_missing(const char *model_type);
// Whether models of the family may have this kind of rotary scaling ("default", "linear", …).
bool hf_family_has_rope_kind(const struct hf_family *family, const char *kind);
// Whether a list of words separated by spaces, NULL for none, has one.
bool hf_has_word(const char *words, const char *word);
// The family's name for num_key_value_heads.
const char *hf_groups_key(const struct hf_family *family);
// "gpt2, opt, …", to be freed.
char *hf_family_list(void);

#endif
