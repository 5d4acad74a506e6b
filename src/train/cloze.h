// Cloze accuracy, as LAMBADA is scored: of each text the last word must be what the model finds most likely, token by
// token, after what comes before it.
#ifndef TRAIN_CLOZE_H
#define TRAIN_CLOZE_H

#include "data/tokenizer/tokenizer.h"
#include "step/step.h"

struct cloze {
    struct step *step;  // STEP_GENERATE
    const struct tokenizer *tokenizer;
    const char *path;  // JSON Lines with "text"
    // Strict: the last word of the text, with the blank before it, is encoded by itself. Else its last token is asked
    // for, however much of a word that is.
    bool is_strict;
    int64_t max_samples;  // 0: all
};

struct cloze_result {
    int64_t texts, right;
    double accuracy;
};

int cloze_run(const struct cloze *cloze, struct cloze_result *result);

#endif
