// Tokenizers of Hugging Face for kinds that come in other files: since core 0.15, Megatron opens GPT-2's and BERT's
// through their library, so text that reads like a special token is one, and BERT's texts get [CLS] and [SEP] around
// them.
#ifndef DATA_TOKENIZER_HF_TOKENIZER_H
#define DATA_TOKENIZER_HF_TOKENIZER_H

#include "data/tokenizer/tokenizer.h"

// Opens the text of a tokenizer.json; the tokenizer is of the kind HuggingFaceTokenizer from then on.
int hf_tokenizer_open_text(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                           const struct buffer *text, const char *name);

// Keeps the text, so that the tokenizer can be written again; one that is a file needs it not.
void hf_tokenizer_keep(struct tokenizer *tokenizer, const struct buffer *text);

struct hf;
const struct hf *hf_tokenizer_hf(const struct tokenizer *tokenizer);  // of such a tokenizer

// What --no-legacy-tokenizer makes of --vocab-file and --merge-file, and of a vocab.txt.
int hf_tokenizer_open_gpt2(struct tokenizer *tokenizer, const struct tokenizer_options *options);
int hf_tokenizer_open_bert(struct tokenizer *tokenizer, const struct tokenizer_options *options, bool lower);

#endif
