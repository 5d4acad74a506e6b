// Dynamic masking as in fairseq's MaskTokensDataset. Every token may be chosen, even <s> and </s>.
#ifndef DATA_SAMPLE_ROBERTA_MASK_H
#define DATA_SAMPLE_ROBERTA_MASK_H

#include "base/rng.h"
#include "data/sample/roberta.h"

struct roberta_mask {
    const struct roberta_options *options;
    double *cumulative;    // (vocabulary) probability of a replacement up to this id
    int64_t *order;        // (seq_length)
    int32_t *words;        // (seq_length + 1) where each unit begins: a token or a word
    unsigned char *fates;  // (seq_length) of each unit
};

void roberta_mask_create(struct roberta_mask *mask, const struct roberta_options *options);
void roberta_mask_free(struct roberta_mask *mask);

// Masks row->tokens[0…length); fills labels and loss mask there.
void roberta_mask_run(struct roberta_mask *mask, const struct batch *row, int64_t length, struct mt19937 *random);

#endif
