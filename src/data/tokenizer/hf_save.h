// Writes any tokenizer as Hugging Face files: a self-contained tokenizer.json, and the tokenizer_config.json and
// special_tokens_map.json that go with it. A plain call of transformers on them gives the same ids as the tokenizer
// itself.
#ifndef DATA_TOKENIZER_HF_SAVE_H
#define DATA_TOKENIZER_HF_SAVE_H

#include "base/buffer.h"
#include "data/tokenizer/tokenizer.h"
#include <stdbool.h>
#include <stdint.h>

// Tokens that the post-processor puts around a text.
enum hf_around {
    HF_AROUND_NOTHING,
    HF_AROUND_BOS,      // <s> A
    HF_AROUND_CLS_SEP,  // [CLS] A [SEP], [CLS] A [SEP] B [SEP]
    HF_AROUND_ROBERTA,  // <s> A </s>, <s> A </s></s> B </s>
    HF_AROUND_OWN,      // as in the tokenizer.json that the tokenizer was opened from
};

// The special tokens; -1: none.
struct hf_roles {
    int32_t bos, eos, unknown, sep, pad, cls, mask;
    enum hf_around around;
    bool is_unigram;
    bool is_overruled;  // transformers 5 uses the class of the model's family, whatever tokenizer_class says
    int64_t longest;    // maximum tokens of the model; 0: unknown
};

// The roles that the tokenizer itself knows: eos ends a document; around is the encoder's own, or the one that models
// with its kind of vocabulary expect (BERT's and RoBERTa's).
struct hf_roles hf_save_roles(const struct tokenizer *tokenizer);

// Writes the three files into a folder. Fails, with the reason, if a tokenizer.json cannot express the tokenizer: the
// written file is read back and must give the same ids for a list of strings.
int hf_save_folder(const struct tokenizer *tokenizer, const struct hf_roles *roles, const char *folder);

// Appends the text of tokenizer.json.
int hf_save_json(const struct tokenizer *tokenizer, const struct hf_roles *roles, struct buffer *out);

// hf_save_json for parts, with roles found by name.
struct hf_parts;
void hf_write_parts(struct hf_parts *parts, int32_t eod, struct buffer *out);

// Reads GPT-2's vocab.json and merges.txt, which must match and be complete, and writes the same tokenizer as one text.
int hf_write_gpt2(const char *vocab_file, const char *merge_file, struct buffer *out);

#endif
