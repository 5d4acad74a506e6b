// The order of random numbers: one chooses between two neighbouring counts; a permutation chooses the units; one per
// unit says whether a chosen unit is spared from <mask>, another whether it is then kept or replaced; one per replaced
// token draws the id.
#include "data/sample/roberta_mask.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { FATE_NONE, FATE_MASK, FATE_RANDOM, FATE_KEPT };

// Ids below this are fairseq's special symbols (<s>, <pad>, </s>, <unk>), which are never used as replacements.
static int64_t first_replacement(const struct sample_vocabulary *vocabulary) {
    enum { FAIRSEQ_OWN = 4 };
    return vocabulary->cls == 0 && vocabulary->size > FAIRSEQ_OWN ? FAIRSEQ_OWN : 0;
}

void roberta_mask_create(struct roberta_mask *mask, const struct roberta_options *options) {
    const struct sample_vocabulary *vocabulary = options->vocabulary;
    size_t most = (size_t)options->seq_length;
    *mask = (struct roberta_mask){
        .options = options,
        .cumulative = memory_alloc((size_t)vocabulary->size * sizeof *mask->cumulative),
        .order = memory_alloc(most * sizeof *mask->order),
        .words = memory_alloc((most + 1) * sizeof *mask->words),
        .fates = memory_alloc(most),
    };
    int64_t first = first_replacement(vocabulary);
    double each = 1.0 / (double)(vocabulary->size - first), sum = 0;
    for (int64_t id = 0; id < vocabulary->size; id++) {
        sum += id < first ? 0 : each;
        mask->cumulative[id] = sum;
    }
    for (int64_t id = 0; id < vocabulary->size; id++)
        mask->cumulative[id] /= sum;
}

void roberta_mask_free(struct roberta_mask *mask) {
    free(mask->cumulative);
    free(mask->order);
    free(mask->words);
    free(mask->fates);
    *mask = (struct roberta_mask){0};
}

// Groups the tokens into units that are masked together; returns how many.
static int64_t find_units(struct roberta_mask *mask, const int32_t *tokens, int64_t length) {
    int64_t count = 0;
    for (int64_t t = 0; t < length; t++)
        if (t == 0 || !mask->options->masks_whole_words || mask->options->begins_word[tokens[t]])
            mask->words[count++] = (int32_t)t;
    mask->words[count] = (int32_t)length;
    return count;
}

static void draw_fates(struct roberta_mask *mask, int64_t units, struct mt19937 *random) {
    const struct roberta_options *options = mask->options;
    double spared = options->random_token_prob + options->leave_unmasked_prob;
    int64_t chosen = (int64_t)(options->mask_prob * (double)units + mt19937_random(random));
    mt19937_permutation(random, mask->order, (size_t)units);
    memset(mask->fates, FATE_NONE, (size_t)units);
    for (int64_t i = 0; i < chosen && i < units; i++)
        mask->fates[mask->order[i]] = FATE_MASK;
    if (!(spared > 0))
        return;
    unsigned char fate = options->random_token_prob > 0 ? FATE_RANDOM : FATE_KEPT;
    for (int64_t i = 0; i < units; i++)
        if (mt19937_random(random) < spared && mask->fates[i] == FATE_MASK)
            mask->fates[i] = fate;
    if (!(options->random_token_prob > 0 && options->leave_unmasked_prob > 0))
        return;
    double kept = options->leave_unmasked_prob / spared;
    for (int64_t i = 0; i < units; i++)
        if (mt19937_random(random) < kept && mask->fates[i] == FATE_RANDOM)
            mask->fates[i] = FATE_KEPT;
}

// The first id whose cumulative probability exceeds the number.
static int32_t draw_id(const struct roberta_mask *mask, struct mt19937 *random) {
    double number = mt19937_random(random);
    int64_t low = 0, high = mask->options->vocabulary->size - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (mask->cumulative[middle] > number)
            high = middle;
        else
            low = middle + 1;
    }
    return (int32_t)low;
}

void roberta_mask_run(struct roberta_mask *mask, const struct batch *row, int64_t length, struct mt19937 *random) {
    int64_t units = find_units(mask, row->tokens, length);
    draw_fates(mask, units, random);
    for (int64_t i = 0; i < units; i++)
        for (int64_t t = mask->words[i]; t < mask->words[i + 1]; t++) {
            unsigned char fate = mask->fates[i];
            row->labels[t] = fate == FATE_NONE ? 0 : row->tokens[t];
            row->loss_mask[t] = fate != FATE_NONE;
            if (fate == FATE_MASK)
                row->tokens[t] = mask->options->vocabulary->mask;
            else if (fate == FATE_RANDOM)
                row->tokens[t] = draw_id(mask, random);
        }
}
