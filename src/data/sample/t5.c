// A row of T5: sentinels replace spans of the encoder's text; the decoder must produce the spans.
#include "data/sample/sentence.h"

#include "base/error.h"
#include "data/bad_data.h"
#include <inttypes.h>
#include <string.h>

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

static void pad(const struct sentence_dataset *dataset, const struct batch *row, int64_t length,
                int64_t decoder_length) {
    int32_t padding = dataset->options.vocabulary->pad < 0 ? 0 : dataset->options.vocabulary->pad;
    for (int64_t t = 0; t < dataset->options.seq_length; t++) {
        row->positions[t] = (int32_t)t;
        if (t >= length)
            row->tokens[t] = padding;
    }
    for (int64_t s = 0; s < dataset->options.decoder_seq_length; s++) {
        bool is_text = s < decoder_length;
        row->decoder_positions[s] = (int32_t)s;
        row->loss_mask[s] = is_text;
        if (is_text)
            continue;
        row->decoder_tokens[s] = padding;
        row->labels[s] = 0;
    }
}

int sentence_fill_t5(struct sentence_dataset *dataset, int64_t sample, const struct batch *row) {
    struct sentence_run run = sentence_dataset_run(dataset, sample);
    struct mt19937 random;
    mt19937_seed(&random, (uint32_t)((uint64_t)dataset->options.seed + (uint64_t)sample));
    TRY(read_text(dataset, &run));
    int64_t count = dataset->text.count;
    memcpy(dataset->original, dataset->text.tokens, (size_t)count * sizeof *dataset->original);
    word_mask_run(&dataset->mask, &(struct word_mask_text){dataset->text.tokens, count, run.target}, &random);
    TRY(check_spans(dataset, sample));
    int64_t length = write_encoder(dataset, dataset->original, count, row->tokens);
    *row->lengths = (int32_t)(length > 0 ? length : 1);  // sentences without tokens: one token of padding
    pad(dataset, row, length, write_decoder(dataset, dataset->original, row));
    return 0;
}
