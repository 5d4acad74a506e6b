// Legal sizes of fp8 and fp4 matmuls.
#include "config/validate.h"
#include "base/error.h"
#include <inttypes.h>
#include <string.h>

// Units of sizes of fp8 matmuls, plain and with blocks of 32 and 128 values.
enum { FP8_STEP = 16, FP8_STEP_MX = 32, FP8_STEP_BLOCKS = 128 };

static bool is_recipe(const struct config *config, const char *name) {
    return strcmp(config->run.fp8_recipe, name) == 0;
}

static int size_step(const struct config *config) {
    return is_recipe(config, "blockwise") ? FP8_STEP_BLOCKS : is_recipe(config, "mxfp8") ? FP8_STEP_MX : FP8_STEP;
}

// 0 without experts in fp8.
static int64_t expert_width(const struct config *config) {
    int64_t slices = config_expert_slices(config);
    bool is_fp8 = config->model.num_experts > 0 && slices > 0 && !config->machine.has_wide_experts;
    return is_fp8 ? config_expert_width(&config->model) / slices : 0;
}

// Blocks of ranks that split a size must equal those of one rank, so their parts are whole blocks. A size that no rank
// splits may end within a block.
struct fp8_size {
    const char *name;
    int64_t value;
    bool is_split, is_latent;
};

// One rank's part of a split size.
static struct fp8_size part_of(const char *name, int64_t whole, int64_t parts) {
    return (struct fp8_size){.name = name, .value = whole / parts, .is_split = parts > 1};
}

static struct fp8_size latent(const char *name, int64_t value) {
    return (struct fp8_size){.name = name, .value = value, .is_latent = true};
}

enum { FP8_MOST_SIZES = 11 };

// The widths of attention: ranks that share a layer split heads, but not latents.
static size_t list_heads(const struct config *config, struct fp8_size *sizes) {
    int64_t parts = config->machine.tensor_model_parallel_size, heads = config->model.num_attention_heads;
    int64_t queries = heads * config->model.kv_channels,
            keys = config_query_groups(&config->model) * config->model.kv_channels;
    size_t count = 0;
    if (!config->model.multi_latent_attention) {
        sizes[count++] = part_of("the width of this rank's attention heads", queries, parts);
        sizes[count++] = part_of("the width of this rank's queries, keys and values", queries + 2 * keys, parts);
        return count;
    }
    sizes[count++] = part_of("the width of this rank's queries", queries, parts);
    sizes[count++] = part_of("the width of this rank's keys without positions and values",
                             heads * (config->model.qk_head_dim + config->model.v_head_dim), parts);
    sizes[count++] = part_of("the width of this rank's values", heads * config->model.v_head_dim, parts);
    sizes[count++] = latent("--q-lora-rank", config->model.q_lora_rank);
    sizes[count++] = latent("--kv-lora-rank", config->model.kv_lora_rank);
    sizes[count++] = latent("--kv-lora-rank with --qk-pos-emb-head-dim",
                            config->model.kv_lora_rank + config->model.qk_pos_emb_head_dim);
    return count;
}

// Rows, columns and inner dimensions of a layer's matmuls, tokens excepted.
static size_t list_sizes(const struct config *config, struct fp8_size *sizes) {
    bool has_dense = config_expert_layers(&config->model) < config->model.num_layers;
    int64_t slices = config_expert_slices(config);
    size_t count = 0;
    sizes[count++] = part_of("--hidden-size", config->model.hidden_size, 1);
    sizes[count++] = part_of("this rank's part of --ffn-hidden-size", has_dense ? config->model.ffn_hidden_size : 0,
                             config->machine.tensor_model_parallel_size);
    sizes[count] = part_of("this rank's part of an expert's width", expert_width(config), 1);
    sizes[count++].is_split = slices > 1;
    return count + list_heads(config, sizes + count);
}

// The tokens of a micro-batch that a rank rounds together. With block scaling, rows that ranks split are gathered
// before, except those of latents.
static int64_t tokens_of(const struct config *config, int64_t length, int step, bool *are_split) {
    bool splits = config->machine.sequence_parallel && (step == FP8_STEP || config->model.multi_latent_attention);
    int64_t ranks = config->machine.context_parallel_size * (splits ? config->machine.tensor_model_parallel_size : 1);
    *are_split = ranks > 1;
    return (config->run.micro_batch_size > 0 ? config->run.micro_batch_size : 1) * length / ranks;
}

static void validate_sizes(const struct config *config, struct complaints *complaints, const char *flag, int step) {
    struct fp8_size sizes[FP8_MOST_SIZES];
    size_t count = list_sizes(config, sizes);
    bool has_blocks = config->run.fp8_format && step != FP8_STEP, are_split;
    for (size_t i = 0; i < count; i++) {
        int unit = has_blocks && !sizes[i].is_split ? FP8_STEP : step;
        if (sizes[i].value % unit != 0)
            complain(complaints, "%s needs multiples of %d%s, but %s is %" PRId64 "; change it or leave out %s", flag,
                     unit, unit > FP8_STEP && has_blocks ? " where ranks split a size" : "", sizes[i].name,
                     sizes[i].value, flag);
    }
    int64_t lengths[] = {config->run.seq_length, config->run.decoder_seq_length};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        int64_t tokens = tokens_of(config, lengths[i], step, &are_split);
        int unit = has_blocks && !are_split ? FP8_STEP : step;
        if (tokens % unit != 0)
            complain(complaints,
                     "%s needs multiples of %d, but a micro-batch has %" PRId64
                     " tokens on a rank; change --seq-length or --micro-batch-size, or leave out %s",
                     flag, unit, tokens, flag);
    }
}

// Names the first size whose last block ends early, other than a latent in blocks of 128; NULL if there is none.
static const char *find_ragged(const struct config *config, int64_t *value) {
    struct fp8_size sizes[FP8_MOST_SIZES];
    size_t count = list_sizes(config, sizes);
    int64_t lengths[] = {config->run.seq_length, config->run.decoder_seq_length};
    int step = size_step(config);
    bool are_split;
    for (size_t i = 0; i < count; i++) {
        *value = sizes[i].value;
        if (*value % (sizes[i].is_latent && step == FP8_STEP_BLOCKS ? FP8_STEP : step) != 0)
            return sizes[i].name;
    }
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        *value = tokens_of(config, lengths[i], step, &are_split);
        if (*value % step != 0)
            return "a micro-batch's number of tokens on a rank";
    }
    return NULL;
}

int config_check_whole_blocks(const struct config *config) {
    int64_t value;
    const char *name = config->run.fp8_format && size_step(config) != FP8_STEP ? find_ragged(config, &value) : NULL;
    if (!name)
        return 0;
    return error_set_code(EXIT_CODE_USAGE,
                          "on GPUs --fp8-recipe %s needs multiples of %d, but %s is %" PRId64
                          "; give --fp8-format hybrid --fp8-recipe delayed (CPUs emulate blocks that end early)",
                          config->run.fp8_recipe, size_step(config), name, value);
}

static void validate_output(const struct config *config, struct complaints *complaints) {
    int64_t parts = config->machine.tensor_model_parallel_size;
    // The vocabulary is padded later, to a multiple for each rank.
    int64_t rows = config->model.padded_vocab_size > 0 ? config->model.padded_vocab_size
                                                       : config->model.make_vocab_size_divisible_by * parts;
    if (rows % (FP8_STEP * parts) != 0)
        complain(complaints,
                 "--fp8-output-proj needs %d x N rows of the vocabulary on each rank; give "
                 "--make-vocab-size-divisible-by %" PRId64 ", or leave it out",
                 (int)FP8_STEP, FP8_STEP * parts);
    if (config_word_embedding_size(&config->model) % FP8_STEP != 0)
        complain(complaints, "--fp8-output-proj needs multiples of %d, but a token's row has %" PRId64 "; leave it out",
                 (int)FP8_STEP, config_word_embedding_size(&config->model));
}

// Megatron-LM refuses this with delayed scaling, or for more layers than a pipeline stage has; neither matters here.
static void validate_bf16_layers(const struct config *config, struct complaints *complaints) {
    int64_t start = config->run.num_layers_at_start_in_bf16, end = config->run.num_layers_at_end_in_bf16;
    int64_t stacks[] = {config_encoder_layers(&config->model), config_decoder_layers(&config->model)};
    if (!config->run.first_last_layers_bf16 || (!config->run.fp8_format && !config->run.fp4_format))
        return;
    for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++)
        if (stacks[i] > 0 && (start >= stacks[i] || end >= stacks[i] - start))
            complain(complaints,
                     "--first-last-layers-bf16 keeps %" PRId64 " layers at the start and %" PRId64
                     " at the end in bf16, and the model has %" PRId64
                     "; give a smaller --num-layers-at-start-in-bf16 or --num-layers-at-end-in-bf16",
                     start, end, stacks[i]);
}

void validate_fp8(const struct config *config, struct complaints *complaints) {
    enum { FP4_STEP = 32 };  // rows of 16 bytes
    validate_bf16_layers(config, complaints);
    if (config->run.fp4_format)
        validate_sizes(config, complaints, "--fp4-format", FP4_STEP);
    if (config->run.fp8_output_proj)
        validate_output(config, complaints);
    if (config->run.fp8_format)
        validate_sizes(config, complaints, "--fp8-format", size_step(config));
}
