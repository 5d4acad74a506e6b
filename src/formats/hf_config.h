// Converts config.json of Hugging Face to our flags and back, by the tables of hf_family.h. Internal to this folder.
#ifndef FORMATS_HF_CONFIG_H
#define FORMATS_HF_CONFIG_H

#include "base/json.h"
#include "config/config.h"
#include "formats/hf_family.h"
#include "formats/hf_tokenizer_files.h"
#include "formats/model_source.h"
#include "formats/weights.h"

// Sets a flag; it is an error if another member has set another value. A whole number loses its fraction.
int hf_config_set(struct config *config, const char *flag, const char *text);
int hf_config_set_real(struct config *config, const char *flag, double value);
int hf_config_set_number(struct config *config, const char *flag, const char *text);
// A member that is there and not null, else NULL.
const struct json *hf_member_of(const struct json *object, const char *key);

// Every member of config.json is read, or known not to matter: an error names one that is neither.
int hf_members_check(const struct hf_family *family, const struct json *root, const struct config *config);
// Whether two tensors have the same bytes; false if one is NULL.
bool hf_is_same_tensor(const struct weight *a, const struct weight *b);
// Whether members that are in no key say the flag.
bool hf_is_said(const struct hf_family *family, const char *flag);
// Whether a member affects the logits of no family, whatever its value.
bool hf_members_is_harmless(const char *key);
// "12", "1e-05", "true", "gelu_new"; NULL if it is null, an array or an object.
const char *hf_text_of(const struct json *value);

// Rotary positions. hf_rope_find: which of rope_scaling and `all` (may be NULL) describes them; NULL if neither does;
// an error where releases of transformers differ.
int hf_rope_read(const struct hf_family *family, const struct json *root, struct config *config);
int hf_rope_find(const struct hf_family *family, const struct json *root, const struct json *all,
                 const struct json **rope);

// A member by the name that a table has for it; NULL if it is not there.
const struct json *hf_config_member(const struct json *root, const char *key);

// Sets the flags of the model in a config that holds defaults. The tensors decide what the file leaves open: whether
// the output is tied, and whether there is a sentence head. What the family can express and we cannot do is an error.
int hf_config_read(const struct hf_family *family, const struct json *root, const struct weights *weights,
                   struct config *config);

// The family that can express the model; NULL, with a message, if there is none. `wanted` names one, or is NULL for the
// first that fits. `allows_near`: also one that only comes near the model.
const struct hf_family *hf_config_family(const struct config *config, const char *wanted, bool allows_near);

// The effective value of a flag, given the others, as text.
void hf_append_effective(const struct config *config, const char *flag, struct buffer *out);
// The word of a map whose flags all have its values, to be freed; NULL if there is none. Of several it is the
// `preferred` one, which may be NULL, else the first.
char *hf_find_theirs(const struct config *config, const struct hf_key *key, const char *preferred);

// For a family with a window_freq: --window-attn-skip-freq of a config.json, to be freed, empty if all layers have the
// window, or NULL with a message; and layer_types, to be freed. hf_local_base: a local_base family's base to write.
char *hf_windows_read(const struct hf_family *family, const struct json *root, const struct config *config);
char *hf_windows_types(const struct config *config);
// N if exactly every N-th layer has no window; 0 if all have one; -1 otherwise.
int64_t hf_whole_layers_every(const struct config *config);
double hf_local_base(const struct config *config);
// For a family with a query_scalar: the whole number to write.
double hf_query_scalar(const struct config *config);

// Members of config.json that are in no table; values are to be freed.
struct hf_member {
    const char *key;
    char *value;  // as JSON text
};
enum { HF_OWN_MEMBERS = 8 };
// A whole number; a member that is absent or null has its fallback.
int hf_whole_of(const struct json *root, const char *key, int64_t fallback, int64_t *value);
// A whole number with the family's default for `member`.
int hf_count_of(const struct hf_family *family, const struct json *root, const char *key, const char *member,
                int64_t *value);

// Which layers have experts, for a family whose config.json says so: --moe-layer-freq, to be freed, or NULL with a
// message; whether a config.json agrees with the flags; whether the family can express them; and the members to write.
char *hf_sparse_read(const struct hf_family *family, const struct json *root, int64_t count);
bool hf_sparse_are(const struct hf_family *family, const struct json *base, const struct config *config);
bool hf_sparse_is_possible(const struct hf_family *family, const struct config *config);
size_t hf_sparse_members(const struct hf_family *family, const struct config *config,
                         struct hf_member members[HF_OWN_MEMBERS]);
// Number of layers before the first with experts; -1 if a layer after that has none.
int64_t hf_dense_layers(const struct config *config);

// For a family with a group_best: reads the members that are in no table; the first flag that the family cannot
// express, or NULL; and the members to write.
int hf_routed_read(const struct hf_family *family, const struct json *root, struct config *config);
const char *hf_routed_obstacle(const struct hf_family *family, const struct config *config);
size_t hf_routed_members(const struct hf_family *family, const struct config *config,
                         struct hf_member members[HF_OWN_MEMBERS]);

// Counterparts of these for a family that has_latents.
#define HF_LATENT_EPSILON 1e-6  // of latents' norms, independent of the other norms'
int hf_latent_read(const struct hf_family *family, const struct json *root, struct config *config);
const char *hf_latent_obstacle(const struct config *config);
size_t hf_latent_members(const struct config *config, struct hf_member members[HF_OWN_MEMBERS]);

// For a family that has_longrope.
void hf_append_longrope(const struct config *config, struct json_writer *json);

// For a family that has_rope_alpha: the object with alpha, or NULL; and the stretched base for a given base.
const struct json *hf_alpha_scaling(const struct json *root);
double hf_alpha_base(const struct json *root, const struct config *config, double base);

// The family that a model is written as: the requested one, or the one it came from, or the first that fits.
const struct hf_family *hf_family_choose(const struct model_write *write);

// Writes config.json. Members of `base` (config.json of the original model, or NULL) that we do not know are kept.
struct hf_config_write {
    const struct hf_family *family;
    const struct config *config;
    const struct json *base;
    const char *dtype;        // "float32"
    bool has_base_ids;        // whether the base's token ids are those of the model's tokenizer
    struct hf_token_ids ids;  // used if not
};
void hf_config_write(const struct hf_config_write *write, struct buffer *out);
// Whether a tied output layer is written as a separate matrix, because the family cannot express it otherwise.
bool hf_config_doubles_head(const struct hf_family *family, const struct config *config);

#endif
