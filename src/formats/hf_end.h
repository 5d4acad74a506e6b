// The token that ends a text, in files of a Hugging Face folder that are otherwise copied unchanged: --eod-token may
// name another token than they do. Only that is replaced. Internal to this folder.
#ifndef FORMATS_HF_END_H
#define FORMATS_HF_END_H

#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "formats/model_source.h"

// A Hugging Face file of the model, parsed; NULL if there is none. The caller frees it.
struct json *hf_read_beside(const struct model_source *source, const char *name);
// The text of a token in tokenizer_config.json: "bos_token": "<s>" or {"content": "<s>", …}. NULL if there is none.
const struct json *hf_token_text(const struct json *root, const char *key);

// Whether the model is a decoder with --eod-token, and the files name another token or none.
bool hf_end_is_other(const struct model_source *source);
// Replaces it in the folder's generation_config.json and config.json and, if it is a special token there, in
// tokenizer_config.json and special_tokens_map.json.
int hf_end_write(const char *folder, const struct model_source *source, const struct tokenizer *tokenizer);

#endif
