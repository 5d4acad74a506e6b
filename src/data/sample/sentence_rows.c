// Rows of BERT, T5 and ICT. See sentence.h.
#include "data/sample/sentence.h"

#include "base/error.h"
#include <inttypes.h>
#include <string.h>

static struct mt19937 generator_of(const struct sentence_dataset *dataset, int64_t sample) {
    struct mt19937 random;
    mt19937_seed(&random, (uint32_t)((uint64_t)dataset->options.seed + (uint64_t)sample));
    return random;
}

static int32_t padding_of(const struct sentence_dataset *dataset) {
    int32_t pad = dataset->options.vocabulary->pad;
    return pad < 0 ? 0 : pad;
}

// The positions of a row, and its tokens after the text.
static void pad_tokens(const struct sentence_dataset *dataset, const struct batch *row, int64_t length) {
    for (int64_t t = 0; t < dataset->options.seq_length; t++) {
        row->positions[t] = (int32_t)t;
        if (t >= length)
            row->tokens[t] = padding_of(dataset);
    }
}

// ---- BERT ----

// Two segments of text, trimmed at random ends to the target length, with [CLS] and [SEP] around them, masked.

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

static void pad_bert(const struct sentence_dataset *dataset, const struct batch *row, int64_t length) {
    int64_t T = dataset->options.seq_length;
    pad_tokens(dataset, row, length);
    memset(row->labels, 0, (size_t)T * sizeof *row->labels);
    for (int64_t t = 0; t < T; t++)
        row->loss_mask[t] = 0;
    memset(row->token_types + length, 0, (size_t)(T - length) * sizeof *row->token_types);
    *row->lengths = (int32_t)length;
}

int sentence_fill_bert(struct sentence_dataset *dataset, int64_t sample, const struct batch *row) {
    const struct sentence_options *options = &dataset->options;
    struct sentence_run run = sentence_dataset_run(dataset, sample);
    struct mt19937 random = generator_of(dataset, sample);
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
    pad_bert(dataset, row, length);
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

// ---- T5 ----

// Sentinels replace spans of the encoder's text; the decoder must produce the spans.

static int read_text(struct sentence_dataset *dataset, const struct sentence_run *run) {
    dataset->text.count = 0;
    for (int64_t i = run->begin; i < run->end && dataset->text.count < run->target; i++)
        TRY(sentence_dataset_read(dataset, i, run->target - dataset->text.count));
    return 0;
}

static int check_spans(const struct sentence_dataset *dataset, int64_t sample) {
    const struct word_mask *mask = &dataset->mask;
    int64_t sentinels = dataset->options.vocabulary->sentinel_count, length = 1;
    for (int64_t i = 0; i < mask->span_count; i++)
        length += 1 + mask->spans[i].end - mask->spans[i].begin;
    if (mask->span_count > sentinels)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s: sample %" PRId64 " has %" PRId64 " spans, and the tokenizer %" PRId64
                              " sentinels; raise --vocab-extra-ids",
                              dataset->name, sample, mask->span_count, sentinels);
    if (length > dataset->options.decoder_seq_length)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s: sample %" PRId64 " gives the decoder %" PRId64
                              " tokens; raise --decoder-seq-length %" PRId64 " or lower --mask-prob",
                              dataset->name, sample, length, dataset->options.decoder_seq_length);
    return 0;
}

// A span is replaced up to its last token, even if a separator is between its words.
static int64_t write_encoder(const struct sentence_dataset *dataset, const int32_t *tokens, int64_t count,
                             int32_t *out) {
    const struct word_mask *mask = &dataset->mask;
    int32_t *at = out;
    int64_t from = 0;
    for (int64_t i = 0; i < mask->span_count; i++) {
        int64_t begin = mask->places[mask->spans[i].begin], end = mask->places[mask->spans[i].end - 1] + 1;
        if (begin > from) {
            memcpy(at, tokens + from, (size_t)(begin - from) * sizeof *at);
            at += begin - from;
        }
        *at++ = dataset->options.vocabulary->sentinels[i];
        from = end;
    }
    memcpy(at, tokens + from, (size_t)(count - from) * sizeof *at);
    return at + (count - from) - out;
}

// The decoder's input is shifted by one: it begins with BOS, and its labels end with EOS.
static int64_t write_decoder(const struct sentence_dataset *dataset, const int32_t *tokens, const struct batch *row) {
    const struct word_mask *mask = &dataset->mask;
    const struct sample_vocabulary *vocabulary = dataset->options.vocabulary;
    int64_t length = 0;
    row->decoder_tokens[0] = vocabulary->bos;
    for (int64_t i = 0; i < mask->span_count; i++) {
        row->labels[length++] = vocabulary->sentinels[i];
        for (int64_t k = mask->spans[i].begin; k < mask->spans[i].end; k++)
            row->labels[length++] = tokens[mask->places[k]];
    }
    memcpy(row->decoder_tokens + 1, row->labels, (size_t)length * sizeof *row->labels);
    row->labels[length++] = vocabulary->eos;
    return length;
}

static void pad_t5(const struct sentence_dataset *dataset, const struct batch *row, int64_t length,
                   int64_t decoder_length) {
    pad_tokens(dataset, row, length);
    for (int64_t s = 0; s < dataset->options.decoder_seq_length; s++) {
        bool is_text = s < decoder_length;
        row->decoder_positions[s] = (int32_t)s;
        row->loss_mask[s] = is_text;
        if (is_text)
            continue;
        row->decoder_tokens[s] = padding_of(dataset);
        row->labels[s] = 0;
    }
}

int sentence_fill_t5(struct sentence_dataset *dataset, int64_t sample, const struct batch *row) {
    struct sentence_run run = sentence_dataset_run(dataset, sample);
    struct mt19937 random = generator_of(dataset, sample);
    TRY(read_text(dataset, &run));
    int64_t count = dataset->text.count;
    memcpy(dataset->original, dataset->text.tokens, (size_t)count * sizeof *dataset->original);
    word_mask_run(&dataset->mask, &(struct word_mask_text){dataset->text.tokens, count, run.target}, &random);
    TRY(check_spans(dataset, sample));
    int64_t length = write_encoder(dataset, dataset->original, count, row->tokens);
    *row->lengths = (int32_t)(length > 0 ? length : 1);  // sentences without tokens: one token of padding
    pad_t5(dataset, row, length, write_decoder(dataset, dataset->original, row));
    return 0;
}

// ---- ICT ----

// The query is a sentence of a block, the context is the block, after the title of its document.

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
        out[t] = padding_of(dataset);
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
    struct mt19937 random = generator_of(dataset, sample);
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
