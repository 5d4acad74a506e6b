// Samples that depend only on their number: every layout that counts correctly gets the same. See layouts.h.
#include "layouts.h"

static uint32_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) >> 8);
}

static int32_t token(int64_t sample, int64_t column, int64_t vocabulary) {
    return (int32_t)(mixed((uint64_t)(sample * 4096 + column)) % (uint32_t)vocabulary);
}

static void fill(const struct batch *row, int64_t sample, int64_t vocabulary) {
    int64_t T = row->T, S = row->S, length = T - sample % 5, border = 1 + (int64_t)mixed((uint64_t)sample) % (T - 1);
    for (int64_t t = 0; t < T; t++) {
        row->tokens[t] = token(sample, t, vocabulary);
        if (row->token_types)
            row->token_types[t] = t >= border;
        if (row->document_starts)
            row->document_starts[t] = t < border ? 0 : (int32_t)border;
    }
    for (int64_t t = 0; t < S; t++)
        row->decoder_tokens[t] = token(sample, 1000 + t, vocabulary);
    for (int64_t t = 0, columns = S > 0 ? S : T; t < columns; t++) {
        row->labels[t] = token(sample, (S > 0 ? 1000 : 0) + t + 1, vocabulary);
        row->loss_mask[t] = t % 7 != 3 && (S > 0 || t < length);
    }
    if (row->lengths)
        *row->lengths = (int32_t)length;
    if (row->pair_labels)
        *row->pair_labels = (int32_t)(sample % 3 == 0);
    *row->samples = sample;
}

static int next_input(void *context, struct batch *input) {
    struct samples *samples = context;
    int64_t B = samples->input.B;
    int64_t first = samples->first + (samples->next++ * samples->data_ranks + samples->data_rank) * B;
    for (int64_t b = 0; b < B; b++) {
        struct batch row = batch_row(&samples->input, b);
        fill(&row, first + b, samples->config->data.vocab_size);
    }
    *input = samples->input;
    return 0;
}

void samples_open(struct samples *samples, const struct config *config, int data_rank, int data_ranks) {
    enum config_form family = config->model.form;
    struct batch_form form = {.T = config->run.seq_length,
                              .fields = BATCH_BIT(TOKENS) | BATCH_BIT(LABELS) | BATCH_BIT(LOSS_MASK)};
    if (family != CONFIG_GPT)
        form.fields |= BATCH_BIT(LENGTHS);
    if (family == CONFIG_BERT)
        form.fields |= BATCH_BIT(TOKEN_TYPES) | BATCH_BIT(PAIR_LABELS);
    if (family == CONFIG_T5) {
        form.S = config->run.decoder_seq_length;
        form.fields |= BATCH_BIT(DECODER_TOKENS);
    }
    if (config->data.reset_attention_mask)
        form.fields |= BATCH_BIT(DOCUMENT_STARTS);
    *samples = (struct samples){.config = config, .data_rank = data_rank, .data_ranks = data_ranks};
    batch_allocate(&samples->input, &form, config->run.micro_batch_size);
}

void samples_close(struct samples *samples) {
    batch_free(&samples->input);
}

struct step_source samples_step(struct samples *samples) {
    const struct config *config = samples->config;
    if (samples->next > 0)
        samples->first += config->run.global_batch_size;
    samples->next = 0;
    return (struct step_source){.next = next_input,
                                .context = samples,
                                .count =
                                    config->run.global_batch_size / config->run.micro_batch_size / samples->data_ranks};
}
