// A row of BERT: two segments of text, trimmed at random ends to the target length, with [CLS] and [SEP] around them,
// masked.
#include "data/sample/sentence.h"

#include "base/error.h"
#include <string.h>

// A part of the text; trimming moves its ends.
struct segment {
    const int32_t *tokens;
    int64_t count;
};

static void trim(struct segment *a, struct segment *b, int64_t target, struct mt19937 *random) {
    while (a->count + b->count > target) {
        struct segment *longer = a->count > b->count ? a : b;
        if (mt19937_random(random) < 0.5)
            longer->tokens++;
        longer->count--;
    }
}

// Reads the sentences; *pivot is where the second part begins.
static int read_parts(struct sentence_dataset *dataset, const struct sentence_run *run, int64_t first_sentences,
                      int64_t *pivot) {
    dataset->text.count = *pivot = 0;
    for (int64_t i = run->begin; i < run->end; i++) {
        if (i == run->begin + first_sentences)
            *pivot = dataset->text.count;
        TRY(sentence_dataset_read(dataset, i, INT64_MAX));
    }
    if (first_sentences == run->end - run->begin)
        *pivot = dataset->text.count;
    return 0;
}

// [CLS] A [SEP], and B [SEP] if there is a B. Returns the length.
static int64_t put_together(const struct sample_vocabulary *vocabulary, const struct segment *a,
                            const struct segment *b, const struct batch *row) {
    int32_t *at = row->tokens;
    *at++ = vocabulary->cls;
    memcpy(at, a->tokens, (size_t)a->count * sizeof *at);
    at += a->count;
    *at++ = vocabulary->sep;
    memset(row->token_types, 0, (size_t)(at - row->tokens) * sizeof *row->token_types);
    if (b->count > 0) {
        for (int64_t i = 0; i <= b->count; i++)
            row->token_types[at - row->tokens + i] = 1;
        memcpy(at, b->tokens, (size_t)b->count * sizeof *at);
        at += b->count;
        *at++ = vocabulary->sep;
    }
    return at - row->tokens;
}

static void pad(const struct sentence_dataset *dataset, const struct batch *row, int64_t length) {
    int32_t padding = dataset->options.vocabulary->pad;
    for (int64_t t = 0; t < dataset->options.seq_length; t++) {
        row->positions[t] = (int32_t)t;
        row->labels[t] = 0;
        row->loss_mask[t] = 0;
        if (t < length)
            continue;
        row->tokens[t] = padding < 0 ? 0 : padding;
        row->token_types[t] = 0;
    }
    *row->lengths = (int32_t)length;
}

int sentence_fill_bert(struct sentence_dataset *dataset, int64_t sample, const struct batch *row) {
    const struct sentence_options *options = &dataset->options;
    struct sentence_run run = sentence_dataset_run(dataset, sample);
    struct mt19937 random;
    mt19937_seed(&random, (uint32_t)((uint64_t)options->seed + (uint64_t)sample));
    int64_t sentences = run.end - run.begin, first_sentences = sentences, pivot;
    bool is_swapped = false;
    if (options->has_binary_head) {
        first_sentences = 1;
        if (sentences >= 3)
            first_sentences += (int64_t)mt19937_interval(&random, (uint64_t)sentences - 2);
        is_swapped = mt19937_random(&random) < 0.5;
    }
    TRY(read_parts(dataset, &run, first_sentences, &pivot));
    struct segment a = {dataset->text.tokens, pivot}, b = {dataset->text.tokens + pivot, dataset->text.count - pivot};
    if (is_swapped) {
        struct segment moved = a;
        a = b;
        b = moved;
    }
    trim(&a, &b, run.target, &random);
    int64_t length = put_together(options->vocabulary, &a, &b, row);
    pad(dataset, row, length);
    memcpy(dataset->original, row->tokens, (size_t)length * sizeof *row->tokens);
    word_mask_run(&dataset->mask, &(struct word_mask_text){row->tokens, length, run.target}, &random);
    for (int64_t k = 0; k < dataset->mask.place_count; k++) {
        if (!dataset->mask.covered[k])
            continue;
        int32_t t = dataset->mask.places[k];
        row->labels[t] = dataset->original[t];
        row->loss_mask[t] = 1;
    }
    if (row->pair_labels)
        *row->pair_labels = is_swapped;
    return 0;
}
