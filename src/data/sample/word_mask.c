// The order of random numbers is that of NumPy and Megatron: a shuffle of the words; then for each word the length of
// its run, and for each covered token of the run one or two numbers and possibly an id.
#include "data/sample/sentence.h"

#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GEOMETRIC = 0.2, MASKED = 0.8, KEPT = 0.5;

void word_mask_create(struct word_mask *mask, const struct word_mask_options *options) {
    size_t most = (size_t)options->most_tokens;
    *mask = (struct word_mask){
        .options = *options,
        .cumulative = memory_alloc((size_t)options->max_ngram * sizeof *mask->cumulative),
        .places = memory_alloc(most * sizeof *mask->places),
        .words = memory_alloc((most + 1) * sizeof *mask->words),
        .candidates = memory_alloc(most * sizeof *mask->candidates),
        .covered = memory_alloc(most),
        .spans = memory_alloc(most * sizeof *mask->spans),
    };
    // 1 / n, normalized twice, accumulated, divided by the last, as in NumPy's choice().
    int64_t lengths = options->max_ngram;
    double *p = mask->cumulative;
    for (int64_t n = 0; n < lengths; n++)
        p[n] = 1.0 / (double)(n + 1);
    for (int time = 0; time < 2; time++) {
        double sum = 0;
        for (int64_t n = 0; n < lengths; n++)
            sum += p[n];
        for (int64_t n = 0; n < lengths; n++)
            p[n] /= sum;
    }
    for (int64_t n = 1; n < lengths; n++)
        p[n] += p[n - 1];
    for (int64_t n = 0; n < lengths; n++)
        p[n] /= p[lengths - 1];
}

void word_mask_free(struct word_mask *mask) {
    free(mask->cumulative);
    free(mask->places);
    free(mask->words);
    free(mask->candidates);
    free(mask->covered);
    free(mask->spans);
    *mask = (struct word_mask){0};
}

static void find_words(struct word_mask *mask, const struct word_mask_text *text) {
    const struct sample_vocabulary *vocabulary = mask->options.vocabulary;
    mask->place_count = mask->word_count = 0;
    for (int64_t i = 0; i < text->count; i++) {
        int32_t token = text->tokens[i];
        if (token == vocabulary->cls || token == vocabulary->sep)
            continue;
        if (!vocabulary->continues[token] || mask->word_count == 0)
            mask->words[mask->word_count++] = (int32_t)mask->place_count;
        mask->places[mask->place_count++] = (int32_t)i;
    }
    mask->words[mask->word_count] = (int32_t)mask->place_count;
}

static int64_t draw_length(const struct word_mask *mask, struct mt19937 *random) {
    int64_t most = mask->options.max_ngram, n = 0;
    double number = mt19937_random(random);
    if (mask->options.is_geometric) {
        double length = ceil(log1p(-number) / log(1.0 - GEOMETRIC));
        return length < 1 ? 1 : length > (double)most ? most : (int64_t)length;
    }
    while (n < most - 1 && mask->cumulative[n] <= number)
        n++;
    return n + 1;
}

// The longest run of at most n words from `word` on that fits the budget; empty if there is none.
static struct word_span fit_run(const struct word_mask *mask, int64_t word, int64_t n, double left) {
    struct word_span span = {mask->words[word], mask->words[word]};
    for (; n > 0; n--) {
        int64_t end = word + n < mask->word_count ? word + n : mask->word_count;
        if ((double)(mask->words[end] - span.begin) <= left) {
            span.end = mask->words[end];
            break;
        }
    }
    return span;
}

static int32_t replacement(const struct word_mask *mask, int32_t token, struct mt19937 *random) {
    const struct sample_vocabulary *vocabulary = mask->options.vocabulary;
    if (mask->options.replaces_all || mt19937_random(random) < MASKED)
        return vocabulary->mask;
    if (mt19937_random(random) >= KEPT)
        return (int32_t)mt19937_interval(random, (uint64_t)vocabulary->size - 1);
    return token;
}

static int compare_spans(const void *a, const void *b) {
    int64_t x = ((const struct word_span *)a)->begin, y = ((const struct word_span *)b)->begin;
    return (x > y) - (x < y);
}

void word_mask_run(struct word_mask *mask, struct word_mask_text *text, struct mt19937 *random) {
    CHECK(text->count <= mask->options.most_tokens);
    find_words(mask, text);
    double p = mask->options.probability, wanted = nearbyint((double)text->count * p);
    double budget = fmin(p * (double)text->target, fmax(1, wanted));
    for (int64_t i = 0; i < mask->word_count; i++)
        mask->candidates[i] = i;
    mt19937_shuffle_i64(random, mask->candidates, (size_t)mask->word_count);
    memset(mask->covered, 0, (size_t)mask->place_count);
    mask->span_count = 0;
    int64_t used = 0;
    for (int64_t i = 0; i < mask->word_count && (double)used < budget; i++) {
        int64_t n = draw_length(mask, random);
        // used + length <= budget, with both sides as in Megatron: the budget may be a fraction.
        struct word_span span = fit_run(mask, mask->candidates[i], n, budget - (double)used);
        bool is_free = span.end > span.begin;
        for (int64_t k = span.begin; k < span.end && is_free; k++)
            is_free = !mask->covered[k];
        if (!is_free)
            continue;
        for (int64_t k = span.begin; k < span.end; k++) {
            int32_t *token = &text->tokens[mask->places[k]];
            mask->covered[k] = 1;
            *token = replacement(mask, *token, random);
        }
        mask->spans[mask->span_count++] = span;
        used += span.end - span.begin;
    }
    qsort(mask->spans, (size_t)mask->span_count, sizeof *mask->spans, compare_spans);
}
