// A SentencePiece model as the parts of a tokenizer.json.
#ifndef DATA_TOKENIZER_SPM_DESCRIBE_H
#define DATA_TOKENIZER_SPM_DESCRIBE_H

#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/spm_model.h"
#include "data/tokenizer/spm_specials.h"

// specials: NULL if the model has no further tokens. An error names what a tokenizer.json cannot express.
int spm_describe(const struct spm_model *model, const struct spm_specials *specials, struct hf_parts *parts);

// Writes the normalizer's rules (its charsmap) as steps, and adds probes; nothing if it has no rules. Requires
// normal_form_require.
void spm_describe_rules(const struct spm_normaliser *normaliser, struct hf_parts *parts, struct json_writer *json);

#endif
