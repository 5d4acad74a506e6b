// Hugging Face tokenizers for kinds that come in other files: since core 0.15, Megatron opens those of GPT-2 and BERT
// with their library, so text that reads like a special token is one, and [CLS] and [SEP] are put around BERT's texts.
#ifndef DATA_TOKENIZER_HF_TOKENIZER_H
#define DATA_TOKENIZER_HF_TOKENIZER_H

#include "data/tokenizer/tokenizer.h"

// Opens the text of a tokenizer.json; the tokenizer's kind becomes HuggingFaceTokenizer.
int hf_tokenizer_open_text(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                           const struct buffer *text, const char *name);

// The tokenizer of --no-legacy-tokenizer with --vocab-file and --merge-file, or with a vocab.txt.
int hf_tokenizer_open_gpt2(struct tokenizer *tokenizer, const struct tokenizer_options *options);
int hf_tokenizer_open_bert(struct tokenizer *tokenizer, const struct tokenizer_options *options, bool lower);

#endif
