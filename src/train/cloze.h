// Cloze accuracy, as LAMBADA is scored: after the rest of a text, the model must find every token of its last word the
// most likely one.
#ifndef TRAIN_CLOZE_H
#define TRAIN_CLOZE_H

#include "data/tokenizer/tokenizer.h"
#include "step/step.h"

struct cloze {
    struct step *step;  // STEP_GENERATE
    const struct tokenizer *tokenizer;
    const char *path;  // JSON Lines
    const char *key;   // their member that holds the text
    // Strict: the last word of the text, with the space before it, is encoded on its own. Otherwise the model is asked
    // for the text's last token, which may be only part of a word.
    bool is_strict;
    int64_t max_samples;  // 0: all
};

struct cloze_result {
    int64_t texts, right;
    int64_t cut;  // texts whose beginning was cut, because the model has too few positions
    double accuracy;
};

int cloze_run(const struct cloze *cloze, struct cloze_result *result);

#endif
