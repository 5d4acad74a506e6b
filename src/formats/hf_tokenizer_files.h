// The tokenizer of a model that is exported to Hugging Face: its files as AutoTokenizer finds them, and the ids for
// config.json. Internal to this folder.
#ifndef FORMATS_HF_TOKENIZER_FILES_H
#define FORMATS_HF_TOKENIZER_FILES_H

#include "base/json.h"
#include "data/sample/vocabulary.h"
#include "data/tokenizer/hf_save.h"
#include "data/tokenizer/tokenizer.h"
#include "formats/hf_family.h"
#include "formats/model_source.h"

// Sets the tokenizer's flags for a Hugging Face folder that is being opened, and adds its main files. -1 if one of them
// leads out of the folder.
int hf_tokenizer_find(struct model_source *source);

struct model_tokenizer {
    // NULL if the model has none, or has one of Hugging Face's with the original end of text
    struct tokenizer *tokenizer;
    bool has_other_end;  // see hf_end_is_other
    struct sample_vocabulary vocabulary;
    struct hf_roles roles;  // known from the tokenizer itself
};

// Warns if the tokenizer cannot be opened: the weights are worth writing without it.
void hf_tokenizer_open(struct model_tokenizer *tokenizer, const struct model_source *source);
void hf_tokenizer_close(struct model_tokenizer *tokenizer);

// Ids by their names in config.json; -1 if the tokenizer has none, or the family does not use it.
struct hf_token_ids {
    bool is_known;  // false if there is no tokenizer to ask
    int32_t bos, eos, pad, decoder_start;
};
struct hf_token_ids hf_tokenizer_ids(const struct model_tokenizer *tokenizer, const struct hf_family *family);

// Writes the files into the folder. Their special tokens agree with hf_tokenizer_ids.
int hf_tokenizer_write(const struct model_tokenizer *tokenizer, const struct model_source *source,
                       const struct hf_family *family, const char *folder);

// The token that ends a text, in files of a Hugging Face folder that are otherwise copied unchanged: --eod-token may
// name another token than they do. Only that is replaced.

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
