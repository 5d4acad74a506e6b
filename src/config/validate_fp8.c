// What fp8 matmuls require of the other flags.
#include "config/validate.h"

#include <inttypes.h>
#include <string.h>

// Sizes that fp8 matmuls can have.
enum { FP8_STEP = 16 };

static void validate_sizes(const struct config *config, struct complaints *complaints) {
    int64_t parts = config->tensor_model_parallel_size, heads = config->num_attention_heads * config->kv_channels;
    int64_t keys = config_query_groups(config) * config->kv_channels;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"--hidden-size", config->hidden_size},
                 {"the width of this rank's attention heads", heads / parts},
                 {"the width of this rank's queries, keys and values", (heads + 2 * keys) / parts},
                 {"this rank's part of --ffn-hidden-size", config->ffn_hidden_size / parts}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value % FP8_STEP != 0)
            complain(complaints,
                     "--fp8-format needs multiples of %d, but %s is %" PRId64 "; change it or leave out --fp8-format",
                     (int)FP8_STEP, sizes[i].name, sizes[i].value);
    int64_t lengths[] = {config->seq_length, config->decoder_seq_length};
    int64_t ranks = config->context_parallel_size * (config->sequence_parallel ? parts : 1);
    int64_t samples = config->micro_batch_size > 0 ? config->micro_batch_size : 1;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        if (samples * lengths[i] / ranks % FP8_STEP != 0)
            complain(complaints,
                     "--fp8-format needs multiples of %d, but a micro-batch has %" PRId64
                     " tokens on a rank; change --seq-length or --micro-batch-size, or leave out --fp8-format",
                     (int)FP8_STEP, samples * lengths[i] / ranks);
}

static void validate_output(const struct config *config, struct complaints *complaints) {
    int64_t parts = config->tensor_model_parallel_size;
    if (!config->fp8_format)
        complain(complaints, "--fp8-output-proj needs --fp8-format; give --fp8-format hybrid too");
    if (config->mtp_num_layers > 0)
        complain(complaints, "--fp8-output-proj is not verified with --mtp-num-layers; leave one out");
    // The vocabulary is padded later, to a multiple for each rank.
    int64_t rows =
        config->padded_vocab_size > 0 ? config->padded_vocab_size : config->make_vocab_size_divisible_by * parts;
    if (rows % (FP8_STEP * parts) != 0)
        complain(complaints,
                 "--fp8-output-proj needs %d x N rows of the vocabulary on each rank; give "
                 "--make-vocab-size-divisible-by %d, or leave it out",
                 (int)FP8_STEP, (int)FP8_STEP);
    if (config_word_embedding_size(config) % FP8_STEP != 0)
        complain(complaints, "--fp8-output-proj needs multiples of %d, but a token's row has %" PRId64 "; leave it out",
                 (int)FP8_STEP, config_word_embedding_size(config));
}

void validate_fp8(const struct config *config, struct complaints *complaints) {
    if (config->fp8_output_proj)
        validate_output(config, complaints);
    if (!config->fp8_format)
        return;
    if (!config->bf16)
        complain(complaints, "--fp8-format is for the matmuls of a bf16 model; give --bf16 with it");
    validate_sizes(config, complaints);
}
