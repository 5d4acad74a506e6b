// Converts config.json of Hugging Face to our flags and back, by the tables of hf_family.h. Internal to this folder.
#ifndef CHECKPOINT_HF_CONFIG_H
#define CHECKPOINT_HF_CONFIG_H

#include "base/json.h"
#include "checkpoint/hf_family.h"
#include "checkpoint/hf_tokenizer_files.h"
#include "checkpoint/weights.h"
#include "config/config.h"

// Sets the flags of the model in a config that holds defaults. The tensors decide what the file leaves open: whether
// the output is tied, and whether there is a sentence head. What the family can express and we cannot do is an error.
int hf_config_read(const struct hf_family *family, const struct json *root, const struct weights *weights,
                   struct config *config);

// The family that can express the model; NULL, with a message, if there is none. `wanted` names one, or is NULL for the
// first that fits.
const struct hf_family *hf_config_family(const struct config *config, const char *wanted);

// Writes config.json. Members of `base` (the file that the model came from, or NULL) that we know nothing about are
// kept.
struct hf_config_write {
    const struct hf_family *family;
    const struct config *config;
    const struct json *base;
    const char *dtype;        // "float32"
    bool has_base_ids;        // whether the base's token ids are those of the model's tokenizer
    struct hf_token_ids ids;  // else
};
void hf_config_write(const struct hf_config_write *write, struct buffer *out);

#endif
