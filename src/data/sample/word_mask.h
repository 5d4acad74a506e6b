// Chooses the words of a sample that a model must predict, as Megatron does for BERT and T5. A word is a token with its
// continuations (##ing); runs of up to max_ngram words are covered, in random order, until the budget is used.
#ifndef DATA_SAMPLE_WORD_MASK_H
#define DATA_SAMPLE_WORD_MASK_H

#include "base/rng.h"
#include "data/sample/vocabulary.h"

struct word_mask_options {
    const struct sample_vocabulary *vocabulary;
    double probability;   // share of the tokens
    int64_t max_ngram;    // words
    bool is_geometric;    // lengths with probability 0.2 (0.8)^(n-1), as in SpanBERT; false: proportional to 1 / n
    bool replaces_all;    // every covered token becomes [MASK]; false: 80 % do, 10 % become random, 10 % are kept
    int64_t most_tokens;  // of a sample
};

// A run of words that was covered: entries [begin, end) of `places`.
struct word_span {
    int64_t begin, end;
};

struct word_mask {
    struct word_mask_options options;
    double *cumulative;   // (max_ngram) probability of a length up to n
    int64_t place_count;  // tokens that belong to words, in order
    int32_t *places;      // (place_count) position of each in the sample
    int64_t word_count;
    int32_t *words;          // (word_count + 1) first entry of each in places
    int64_t *candidates;     // (word_count) words in random order
    unsigned char *covered;  // (place_count)
    int64_t span_count;
    struct word_span *spans;  // (span_count) in the order of the text
};

void word_mask_create(struct word_mask *mask, const struct word_mask_options *options);
void word_mask_free(struct word_mask *mask);  // a zeroed one is fine

// A sample being masked: `tokens` become the model's input; `target` is the length that the sample was cut for.
struct word_mask_text {
    int32_t *tokens;  // (count)
    int64_t count;
    int64_t target;
};
// Fills places, covered and spans.
void word_mask_run(struct word_mask *mask, struct word_mask_text *text, struct mt19937 *random);

#endif
