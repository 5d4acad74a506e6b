// The tokenizer of a model that is handed to Hugging Face: its files as AutoTokenizer finds them, and the ids that
// config.json names. Internal to this folder.
#ifndef CHECKPOINT_HF_TOKENIZER_FILES_H
#define CHECKPOINT_HF_TOKENIZER_FILES_H

#include "checkpoint/hf_family.h"
#include "checkpoint/model_source.h"
#include "data/sample/vocabulary.h"
#include "data/tokenizer/hf_save.h"

// Sets the flags of the tokenizer of a Hugging Face folder that is being opened, and adds its main files. -1 if one of
// them leads out of the folder.
int hf_tokenizer_find(struct model_source *source);

struct model_tokenizer {
    // NULL if the model has none, or one that Hugging Face wrote itself and that ends texts as it did
    struct tokenizer *tokenizer;
    bool has_other_end;  // see hf_end_is_other
    struct sample_vocabulary vocabulary;
    struct hf_roles roles;  // that the tokenizer knows itself
};

// A tokenizer that cannot be opened is warned of: the weights are worth writing without.
void hf_tokenizer_open(struct model_tokenizer *tokenizer, const struct model_source *source);
void hf_tokenizer_close(struct model_tokenizer *tokenizer);

// Ids as config.json calls them; -1 if the tokenizer has none, or the family no use for it.
struct hf_token_ids {
    bool is_known;  // false if there is no tokenizer to ask
    int32_t bos, eos, pad, decoder_start;
};
struct hf_token_ids hf_tokenizer_ids(const struct model_tokenizer *tokenizer, const struct hf_family *family);

// Writes the files into the folder. What they say of special tokens is what hf_tokenizer_ids says.
int hf_tokenizer_write(const struct model_tokenizer *tokenizer, const struct model_source *source,
                       const struct hf_family *family, const char *folder);

#endif
