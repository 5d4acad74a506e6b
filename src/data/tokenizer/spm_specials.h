// The tokens that Megatron's classic SentencePieceTokenizer adds to a model: <CLS>, <SEP>, <EOD> and <MASK>, the
// padding, beginning and end of the model (<PAD>, <BOS>, <EOS> if it has none), and <extra_id_0>…. Each is found in the
// original text before the model sees it; the text between them is encoded separately. A text that is already a piece
// keeps its id, the others follow the last piece.
#ifndef DATA_TOKENIZER_SPM_SPECIALS_H
#define DATA_TOKENIZER_SPM_SPECIALS_H

#include "data/tokenizer/spm_model.h"

struct spm_special {
    size_t begin, length;  // of its text in texts
    int32_t id;
};

struct spm_specials {
    struct buffer texts;
    struct spm_special *items;  // in the order they were added, which decides between two at one place
    int64_t count;
    struct trie trie;         // texts to indices
    int first_byte;           // of all of them; -1 if they differ
    int32_t *by_id;           // (vocab_size) index of the special token, -1 for an ordinary piece
    int32_t vocab_size;       // pieces and added tokens
    int32_t end_of_document;  // id of <EOD>
};

int spm_specials_create(struct spm_specials *specials, const struct spm_model *model, int64_t extra_ids,
                        const char *name);
void spm_specials_free(struct spm_specials *specials);

// The first special token in text[0…length): where it begins, or length if there is none, and its index.
size_t spm_specials_find(const struct spm_specials *specials, const char *text, size_t length, int32_t *index);

#endif
