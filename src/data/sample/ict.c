// A row of ICT: the query is a sentence of a block, the context is the block, after the title of its document.
#include "data/sample/sentence.h"

#include "base/error.h"
#include <string.h>

// Writes [CLS] text [SEP], or [CLS] title [SEP] text [SEP], then padding. The first `title` tokens of dataset->text are
// the title (-1: there is none). Returns the length.
static int64_t put_text(const struct sentence_dataset *dataset, int64_t title, int32_t *out) {
    const struct sample_vocabulary *vocabulary = dataset->options.vocabulary;
    const int32_t *tokens = dataset->text.tokens;
    int64_t first = title > 0 ? title : 0, count = dataset->text.count - first;
    int32_t *at = out;
    *at++ = vocabulary->cls;
    if (title >= 0) {
        memcpy(at, tokens, (size_t)title * sizeof *at);
        at += title;
        *at++ = vocabulary->sep;
    }
    memcpy(at, tokens + first, (size_t)count * sizeof *at);
    at += count;
    *at++ = vocabulary->sep;
    int64_t length = at - out;
    for (int64_t t = length; t < dataset->options.seq_length; t++)
        out[t] = vocabulary->pad < 0 ? 0 : vocabulary->pad;
    return length;
}

// Reads the title and the sentences of a block except one (-1: all of them), as far as there is room. *title is the
// title's length, -1 if there are no titles.
static int read_context(struct sentence_dataset *dataset, const struct sentence_run *run, int64_t without,
                        int64_t *title) {
    enum { AROUND = 2, AROUND_TITLE = 3 };
    int64_t room = dataset->options.seq_length - (dataset->titles ? AROUND_TITLE : AROUND);
    dataset->text.count = 0;
    *title = -1;
    if (dataset->titles) {
        TRY(sentence_dataset_read_title(dataset, run->target, room));
        *title = dataset->text.count;
    }
    for (int64_t i = run->begin; i < run->end && dataset->text.count < room; i++)
        if (i != without)
            TRY(sentence_dataset_read(dataset, i, room - dataset->text.count));
    return 0;
}

int sentence_fill_ict(struct sentence_dataset *dataset, int64_t sample, const struct batch *row) {
    const struct sentence_options *options = &dataset->options;
    struct sentence_run run = sentence_dataset_run(dataset, sample);
    struct mt19937 random;
    mt19937_seed(&random, (uint32_t)((uint64_t)options->seed + (uint64_t)sample));
    int64_t query = run.begin + (int64_t)mt19937_interval(&random, (uint64_t)(run.end - run.begin - 1)), title;
    bool stays = mt19937_random(&random) < options->query_in_block_prob;
    dataset->text.count = 0;
    TRY(sentence_dataset_read(dataset, query, options->seq_length - 2));
    *row->lengths = (int32_t)put_text(dataset, -1, row->tokens);
    TRY(read_context(dataset, &run, stays ? -1 : query, &title));
    *row->context_lengths = (int32_t)put_text(dataset, title, row->context_tokens);
    for (int64_t t = 0; t < options->seq_length; t++)
        row->positions[t] = (int32_t)t;
    *row->labels = 0;  // the index of the query's context follows from its place among the ranks
    *row->loss_mask = 1;
    return 0;
}
