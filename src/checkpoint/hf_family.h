// The families of Hugging Face models as tables: the names in their configurations and tensors, and how each becomes
// ours. One engine reads the tables in both directions, so what can be imported can be exported, and the two cannot
// drift apart. Internal to this folder.
#ifndef CHECKPOINT_HF_FAMILY_H
#define CHECKPOINT_HF_FAMILY_H

#include "base/json.h"
#include <stdbool.h>
#include <stddef.h>

// How theirs becomes ours; exporting does the reverse.
enum hf_transform {
    HF_SAME,             // the same elements in the same order
    HF_TRANSPOSE,        // GPT-2 stores (in, out), and so does gpt-oss for each of its experts
    HF_JOIN,             // several of theirs, one below the other, are the segments of one of ours
    HF_GROUPS,           // theirs has, for each group of heads, its queries, its key and its value
    HF_NUMBERED,         // as HF_JOIN for each expert, or gains of each head; the second * of their names is its number
    HF_PAIRS,            // the rows of our two segments come in turn, for each expert: gate, up, gate, …
    HF_PAIRS_TRANSPOSE,  // and are columns there
    HF_MXFP4,            // two of theirs: blocks of 4-bit numbers, and the scales of the blocks; only read
    HF_MXFP4_PAIRS,      // and the rows of our segments come in turn
};

enum { HF_MAX_PIECES = 3 };

// One kind of tensor. A * stands for the number of the layer. Of several rows for one of ours, the first that fits is
// written; the others are variants that are read as well (fused or separate matrices).
struct hf_row {
    const char *ours;
    enum hf_transform transform;
    const char *theirs[HF_MAX_PIECES];  // NULL after the last
};

enum hf_key_kind {
    HF_NUMBER,  // the flag's number; of several flags "--a/--b" all are set to theirs, and theirs becomes the first's
    HF_SWITCH,  // the flag's truth value
    HF_MAP,     // texts "theirs=ours" separated by spaces; ours may be "a/b" for flags "--a/--b", and empty without
                // flags: then theirs is simply the only value that is supported
};

// One member of config.json; "a.b" is member b of the object a.
struct hf_key {
    const char *key;
    enum hf_key_kind kind;
    const char *flags;     // NULL: we have no counterpart
    const char *fallback;  // if the member is absent or null; NULL: it must be there; "-": the flag keeps its default
    const char *map;
    int added;         // of a number: theirs is ours + added
    bool has_null;     // our 0 is null there, and theirs is not 0
    bool is_positive;  // of a number: theirs is not 0, which says something else to us
    bool is_inverse;   // of a number: theirs is 1 / ours
    bool has_none;     // of a number: 0 there leaves our flag as it is
    int instead;       // of a number: what is written for our 0, which theirs cannot be
    bool is_read;      // only read: a variant that is refused, or a member that is written with the tokenizer's ids
    bool is_written;   // only written: a second name for a flag, which transformers does not read or we have no use for
    const char *near;  // of a map: words that come near, for those who allow it
};

// A flag that every model of the family has.
struct hf_flag {
    const char *flag, *value;
};

// Layers with a window, of families with a switch for windows, if config.json has no layer_types.
enum hf_windows {
    HF_WINDOWS_NONE,   // no such switch
    HF_WINDOWS_LATE,   // those from max_window_layers on
    HF_WINDOWS_EARLY,  // every other one, the first among them, below max_window_layers
    HF_WINDOWS_ALL,
};

// How config.json says which layers have experts: see hf_config_experts.c.
enum hf_sparse {
    HF_SPARSE_ALL,    // it does not: all have
    HF_SPARSE_STEP,   // decoder_sparse_step and mlp_only_layers
    HF_SPARSE_FIRST,  // those behind the first first_k_dense_replace
    HF_SPARSE_TYPES,  // mlp_layer_types, and without it the same
};

// What a family with shared experts beside routed ones has if config.json does not say otherwise: see
// hf_config_routed.c.
struct hf_routed {
    int shared;                // n_shared_experts
    const char *shared_key;    // its name of that member; NULL: that
    int groups, chosen;        // n_group, topk_group
    int best;                  // how many of its best scores a group is judged by
    const char *method;        // topk_method; NULL: no such member
    const char *plain_method;  // and without groups, which is the usual one; NULL: the same
};

enum { HF_MAX_CONDITIONS = 2 };

// Several families may have one model_type: the conditions say which of them a config.json is of.
struct hf_family {
    const char *model_type;
    struct hf_flag
        conditions[HF_MAX_CONDITIONS];  // members and what they must be, in JSON's words; NULL after the last
    const char *architecture;           // of the model with its head
    const char *architecture_mlm;       // of a BERT without the sentence head, else NULL
    const char *prefix;                 // of all names but the head's; files of a bare model lack it
    const char *embedding, *head;       // theirs; the head is absent if it is tied
    const char *tie;                    // "true" or "false" if config.json does not say; "never" whatever it says
    const struct hf_row *rows;
    const char *object;          // of config.json that keys "object.member" are in; NULL: none
    const char *const *ignored;  // patterns of buffers that are not parameters; NULL at the end
    const struct hf_key *keys;
    const struct hf_flag *flags;
    const struct hf_flag *written;  // members of config.json that our configuration says nothing about, as JSON
    const char *harmless;  // members that change nothing here, as in hf_config_members.c; NULL: none but everyone's
    bool has_rope;
    const char *rope_kinds;           // those it has, separated by spaces; NULL: all that we have
    const char *groups;               // num_key_value_heads if config.json does not say; NULL: as many as heads
    const char *groups_key;           // its name of num_key_value_heads; NULL: that
    const char *rotary_part;          // partial_rotary_factor if config.json does not say; NULL: it rotates whole heads
    bool has_rope_alpha;              // rotary scaling may be a number that stretches the base, see hf_config_alpha.c
    bool has_longrope;                // one of these kinds; no other family has it
    const char *rotary_base;          // rope_theta if config.json does not say; NULL: 10000
    bool needs_rotary_base;           // releases of transformers have different defaults
    const char *rotary_base_key;      // its name of rope_theta; NULL: that
    const char *rotary_part_key;      // its name of partial_rotary_factor; NULL: that
    const char *rotary_channels_key;  // how many channels of a head are rotated, instead of rotary_part
    bool has_no_groups;               // every head has a key and a value of its own
    bool has_multi_query;             // multi_query says whether all heads share one key and value
    bool has_no_rope_layers;          // no_rope_layers says which layers have rotary positions
    const char *window_freq;          // every so many layers one has no window if config.json does not say, or "all"
                                      // have one; NULL: all alike
    bool needs_window;                // transformers does not load a model that has none
    int first_window;                 // max_window_layers, from which on layers have one, if config.json does not say
    enum hf_windows window_switch;    // use_sliding_window says whether there are any, and which layers have them
    bool has_whole_without_rope;      // layers without a window have no rotary positions
    bool has_rope_without_windows;    // but if sliding_window is null, all layers have them
    bool has_square_output;           // heads are together as wide as the residual stream
    bool has_nested_rope;             // rope_parameters are written too, those of layers with a window apart
    bool has_no_flat_rope;            // and rope_theta and rope_scaling are not there
    const char *local_base;           // rope_local_base_freq if config.json does not say; NULL: one base for all layers
    const char *query_scalar;         // query_pre_attn_scalar, scale^-2, if config.json does not say; NULL: none
    enum hf_sparse sparse;            // how it says which layers have experts
    int dense_layers;                 // first_k_dense_replace if config.json does not say
    const char *experts;              // how many experts if config.json does not say, by any of several names
    bool has_mxfp4;                   // its matrices may come in MXFP4
    bool has_fp8_blocks;              // its matrices may come in fp8 with scales of blocks
    const char *left_out;             // tensors with this in their names are left out, as in transformers; NULL: none
    bool needs_rope_scaling;          // without rotary scaling in config.json it is not clear what it has
    bool has_latents;                 // DeepSeek's, see hf_config_latent.c
    const struct hf_routed *routed;   // NULL: it says otherwise which layers have experts
    bool scales_embedding;            // word embeddings are multiplied by the square root of their width
    bool has_centered_gains;          // gains of norms are stored as their distance from 1
    size_t row_count, key_count, flag_count, written_count;
};

// NULL if it is not known. Of several families, the one most of whose conditions hold in the config.json, which may be
// NULL, and whose other conditions do not fail.
const struct hf_family *hf_family_find(const char *model_type, const struct json *root);
const struct hf_family *hf_family_at(size_t i);  // NULL after the last
// What a known model_type has that no layer here computes; NULL if it is unknown, or supported.
const char *hf_family_missing(const char *model_type);
// Whether models of the family may have this kind of rotary scaling ("default", "linear", …).
bool hf_family_has_rope_kind(const struct hf_family *family, const char *kind);
// Whether a list of words separated by spaces, NULL for none, has one.
bool hf_has_word(const char *words, const char *word);
// Its name of num_key_value_heads.
const char *hf_groups_key(const struct hf_family *family);
// "gpt2, opt, …", to be freed.
char *hf_family_list(void);

#endif
