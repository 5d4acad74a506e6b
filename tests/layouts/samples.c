// Samples that follow from their number: any layout that counts right is given the same. See layouts.h.
#include "layouts.h"
#include "base/memory.h"

#include <stdlib.h>

static uint32_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) >> 8);
}

static int32_t token(int64_t sample, int64_t column, int64_t vocabulary) {
    return (int32_t)(mixed((uint64_t)(sample * 4096 + column)) % (uint32_t)vocabulary);
}

// Fills row b of all arrays; those that a model does not take are left out later.
static void fill(struct step_input *input, int64_t b, int64_t sample, const struct config *config) {
    int64_t T = input->T, S = input->S, vocabulary = config->vocab_size;
    int64_t length = T - sample % 5, border = 1 + (int64_t)mixed((uint64_t)sample) % (T - 1);
    bool is_t5 = config_form(config) == CONFIG_T5;
    for (int64_t t = 0; t < T; t++) {
        ((int32_t *)input->tokens)[b * T + t] = token(sample, t, vocabulary);
        ((int32_t *)input->types)[b * T + t] = t >= border;
        ((int32_t *)input->first_keys)[b * T + t] = t < border ? 0 : (int32_t)border;
    }
    for (int64_t t = 0; t < S; t++)
        ((int32_t *)input->decoder_tokens)[b * S + t] = token(sample, 1000 + t, vocabulary);
    for (int64_t t = 0, columns = is_t5 ? S : T; t < columns; t++) {
        ((int32_t *)input->labels)[b * columns + t] = token(sample, (is_t5 ? 1000 : 0) + t + 1, vocabulary);
        ((float *)input->mask)[b * columns + t] = t % 7 != 3 && (is_t5 || t < length);
    }
    ((int32_t *)input->lengths)[b] = (int32_t)length;
    ((int32_t *)input->pair_labels)[b] = (int32_t)(sample % 3 == 0);
    ((int64_t *)input->samples)[b] = sample;
}

static int next_input(void *context, struct step_input *input) {
    struct samples *samples = context;
    const struct config *config = samples->config;
    enum config_form form = config_form(config);
    int64_t B = samples->input.B;
    int64_t first = samples->first + (samples->next++ * samples->data_ranks + samples->data_rank) * B;
    for (int64_t b = 0; b < B; b++)
        fill(&samples->input, b, first + b, config);
    *input = samples->input;
    if (form != CONFIG_BERT)
        input->types = input->pair_labels = NULL;
    if (form == CONFIG_GPT)
        input->lengths = NULL;
    if (form != CONFIG_T5)
        input->decoder_tokens = NULL;
    if (!config->reset_attention_mask)
        input->first_keys = NULL;
    return 0;
}

void samples_open(struct samples *samples, const struct config *config, int data_rank, int data_ranks) {
    int64_t B = config->micro_batch_size, T = config->seq_length, S = config->decoder_seq_length;
    size_t first = sizeof(int32_t) * (size_t)(B * T), second = sizeof(int32_t) * (size_t)(B * S);
    *samples = (struct samples){.config = config, .data_rank = data_rank, .data_ranks = data_ranks};
    samples->input = (struct step_input){.B = B,
                                         .T = T,
                                         .S = S,
                                         .tokens = memory_alloc(first),
                                         .labels = memory_alloc(first > second ? first : second),
                                         .mask = memory_alloc(first > second ? first : second),
                                         .types = memory_alloc(first),
                                         .lengths = memory_alloc(sizeof(int32_t) * (size_t)B),
                                         .first_keys = memory_alloc(first),
                                         .decoder_tokens = memory_alloc(second + 1),
                                         .pair_labels = memory_alloc(sizeof(int32_t) * (size_t)B),
                                         .samples = memory_alloc(sizeof(int64_t) * (size_t)B)};
}

void samples_close(struct samples *samples) {
    const struct step_input *input = &samples->input;
    const void *arrays[] = {input->tokens,     input->labels,         input->mask,        input->types,  input->lengths,
                            input->first_keys, input->decoder_tokens, input->pair_labels, input->samples};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free((void *)(uintptr_t)arrays[i]);
}

struct step_source samples_step(struct samples *samples) {
    const struct config *config = samples->config;
    if (samples->next > 0)
        samples->first += config->global_batch_size;
    samples->next = 0;
    return (struct step_source){.next = next_input,
                                .context = samples,
                                .count = config->global_batch_size / config->micro_batch_size / samples->data_ranks};
}
