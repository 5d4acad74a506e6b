// A vocabulary for targets that make samples of BERT, RoBERTa and T5: every fifth token continues the word before it.
#ifndef TESTS_FUZZ_SAMPLE_WORDS_H
#define TESTS_FUZZ_SAMPLE_WORDS_H

#include "base/error.h"
#include "data/sample/source.h"
#include "data/sample/vocabulary.h"

enum { SAMPLE_WORDS = 1000, SAMPLE_SENTINELS = 10 };

static inline const struct sample_vocabulary *sample_words(void) {
    static int32_t sentinels[SAMPLE_SENTINELS];
    static unsigned char continues[SAMPLE_WORDS + SAMPLE_SENTINELS];
    static struct sample_vocabulary words = {.size = SAMPLE_WORDS + SAMPLE_SENTINELS,
                                             .pad = 0,
                                             .cls = 1,
                                             .sep = 2,
                                             .mask = 3,
                                             .bos = 4,
                                             .eos = 5,
                                             .sentinel_count = SAMPLE_SENTINELS,
                                             .sentinels = sentinels,
                                             .continues = continues};
    for (int i = 0; i < SAMPLE_SENTINELS; i++)
        sentinels[i] = SAMPLE_WORDS + i;
    for (int id = 10; id < SAMPLE_WORDS; id++)
        continues[id] = id % 5 == 0;
    return &words;
}

// Draws every sample, at most a few hundred. Filled rows have ids of the vocabulary and lengths within the row.
static inline void sample_words_draw(const struct sample_source *source) {
    struct batch batch = {0};
    batch_allocate(&batch, &source->form, 1);
    struct batch row = batch_row(&batch, 0);
    for (int64_t i = 0; i < source->count && i < 300; i++) {
        if (source->fill(source->context, i, &row) < 0)
            continue;
        for (int64_t t = 0; t < batch.T; t++)
            CHECK(row.tokens[t] >= 0 && row.tokens[t] < SAMPLE_WORDS + SAMPLE_SENTINELS);
        for (int64_t t = 0; row.context_tokens && t < batch.T; t++)
            CHECK(row.context_tokens[t] >= 0 && row.context_tokens[t] < SAMPLE_WORDS + SAMPLE_SENTINELS);
        CHECK(!row.context_lengths || (*row.context_lengths >= 2 && *row.context_lengths <= batch.T));
        CHECK(!row.lengths || (*row.lengths >= 0 && *row.lengths <= batch.T));
    }
    batch_free(&batch);
}

#endif
