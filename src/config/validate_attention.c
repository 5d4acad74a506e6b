// Attention: windows, in all layers or in some, and their rotary positions; caps and sinks; scaling of rotary
// positions.
#include "base/memory.h"
#include "config/config.h"
#include "config/validate.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

// "127,0" or "(127, 0)"; -1 for any other text. Megatron counts the tokens before one, ours also the token itself.
static int64_t parse_window_size(const char *text) {
    char *end = NULL;
    bool has_brackets = *text == '(';
    long long before = strtoll(text + has_brackets, &end, 10), after = 0;
    if (end == text + has_brackets || *end != ',' || before < -1 || before >= INT32_MAX)
        return -1;
    const char *second = end + 1;
    after = strtoll(second, &end, 10);
    bool is_whole = end != second && (!has_brackets || *end == ')') && end[has_brackets] == 0;
    return is_whole && (after == 0 || after == -1) ? before + 1 : -1;
}

static void validate_window_size(struct config *config, struct complaints *complaints) {
    if (!config->model.window_size)
        return;
    int64_t window = parse_window_size(config->model.window_size);
    if (window < 0)
        complain(complaints,
                 "--window-size %s is not LEFT,0, the number of tokens before a token that it attends to; give e.g. "
                 "127,0, or --sliding-window 128",
                 config->model.window_size);
    else if (flag_is_given(&config->given, "--sliding-window") && config->model.sliding_window != window)
        complain(complaints, "--window-size %s is --sliding-window %" PRId64 ", not %" PRId64 "; leave one out",
                 config->model.window_size, window, config->model.sliding_window);
    else
        config->model.sliding_window = window;
}

// The text is not two sizes.
static void complain_of_sizes(const struct string_list *given, int64_t ranks, struct complaints *complaints) {
    char remedy[128];
    snprintf(remedy, sizeof remedy,
             "give A B, with A × B = %" PRId64 ", e.g. %" PRId64 " %" PRId64 ": A neighbours exchange heads", ranks,
             ranks % 2 == 0 ? INT64_C(2) : ranks, ranks % 2 == 0 ? ranks / 2 : INT64_C(1));
    int64_t i = 0, size;
    while (i < given->count && config_hierarchy_size(given->items[i], &size) == 0)
        i++;
    if (i < given->count)
        complain(complaints, "--hierarchical-context-parallel-sizes has \"%.32s\", which is not a number of ranks; %s",
                 given->items[i], remedy);
    else
        complain(complaints, "--hierarchical-context-parallel-sizes takes two numbers, not %" PRId64 "; %s",
                 given->count, remedy);
}

// Two sizes, whose product is the context-parallel size. They have no effect on a rank that holds its sequences alone.
static bool validate_hierarchy(const struct config *config, struct complaints *complaints) {
    const struct string_list *given = &config->machine.hierarchical_context_parallel_sizes;
    int64_t ranks = config->machine.context_parallel_size, sizes[2];
    if (given->count > 0 && config_hierarchy(config, sizes) < 0)
        complain_of_sizes(given, ranks, complaints);
    else if (given->count > 0 && sizes[0] * sizes[1] != ranks)
        complain(complaints,
                 "--hierarchical-context-parallel-sizes %" PRId64 " %" PRId64 " are %" PRId64
                 " ranks, but --context-parallel-size is %" PRId64 "; give sizes whose product it is",
                 sizes[0], sizes[1], sizes[0] * sizes[1], ranks);
    else
        return given->count > 0 || !config_has_cp_comm_type(config, "a2a+p2p");
    return false;
}

// Each context-parallel rank that exchanges heads gets an equal part of the heads of a tensor-parallel rank.
static void validate_exchange(const struct config *config, const char *type, struct complaints *complaints) {
    int64_t parts = config->machine.tensor_model_parallel_size, ranks = config->machine.context_parallel_size, sizes[2];
    bool is_near = is(type, "a2a+p2p");
    const struct {
        const char *flag;
        int64_t heads;
    } counts[] = {{"--num-attention-heads", config->model.num_attention_heads},
                  {"--num-query-groups", config_query_groups(&config->model)}};
    if (!config_has_cp_comm_type(config, type))
        return;
    if (is_near && config_hierarchy(config, sizes) == 0)
        ranks = sizes[0];
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].heads > 0 && counts[i].heads % (ranks * parts) != 0) {
            complain(complaints,
                     "--cp-comm-type %s cannot share %s %" PRId64 " among %" PRId64 " ranks (%s %" PRId64
                     " × --tensor-model-parallel-size %" PRId64 "); give %s, or sizes whose product divides it",
                     type, counts[i].flag, counts[i].heads, ranks * parts,
                     is_near ? "the first of --hierarchical-context-parallel-sizes," : "--context-parallel-size", ranks,
                     parts, is_near ? "p2p" : "p2p or a2a+p2p");
            return;
        }
}

static void validate_cp_comm_type(const struct config *config, struct complaints *complaints) {
    static const char *const types[] = {"p2p", "all_gather", "a2a", "a2a+p2p"};
    const struct string_list *given = &config->machine.cp_comm_type;
    for (int64_t i = 0; i < given->count; i++) {
        bool is_known = false;
        for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
            is_known |= is(given->items[i], types[k]);
        if (!is_known)
            complain(complaints, "--cp-comm-type %s is unknown; give p2p, all_gather, a2a or a2a+p2p", given->items[i]);
    }
    if (given->count > 1 && given->count != config->model.num_layers)
        complain(complaints,
                 "--cp-comm-type has %" PRId64 " values for %" PRId64
                 " layers; give one for all layers or one for each",
                 given->count, config->model.num_layers);
    if (config->machine.context_parallel_size > 1) {
        validate_exchange(config, "a2a", complaints);
        if (validate_hierarchy(config, complaints))
            validate_exchange(config, "a2a+p2p", complaints);
    }
}

void validate_attention(struct config *config, struct complaints *complaints) {
    validate_window_size(config, complaints);
    validate_cp_comm_type(config, complaints);
    bool *layers = memory_alloc((size_t)config->model.num_layers + 1);
    if (config->model.window_attn_skip_freq && config->model.num_layers > 0 &&
        config_parse_window_freq(config->model.window_attn_skip_freq, layers, config->model.num_layers) < 0)
        complain(complaints,
                 "--window-attn-skip-freq %s is neither a number nor a list of 0 and 1 for each of the %" PRId64
                 " layers; give e.g. 6 or [1]*%" PRId64 "+[0]",
                 config->model.window_attn_skip_freq, config->model.num_layers, config->model.num_layers - 1);
    free(layers);
    if (config->model.softmax_type == SOFTMAX_OFF_BY_ONE)
        complain(complaints, "--softmax-type off-by-one is not supported; give vanilla or learnable");
}

// ---- rotary positions ----

static void validate_factors(const char *flag, const char *text, int64_t pairs, struct complaints *complaints) {
    int64_t count = config_rope_factors(text, NULL, 0);
    if (count < 0)
        complain(complaints, "%s is not a list of numbers of at least 1e-6, separated by commas; e.g. 1,1.5,2", flag);
    else if (count != pairs)
        complain(complaints,
                 "%s has %" PRId64 " numbers, but %" PRId64
                 " pairs of channels are rotated (--kv-channels × --rotary-percent / 2); give one for each",
                 flag, count, pairs);
}

// The frequencies of a sample follow from its length. With positions that start over at every document, they would
// follow from the longest document of a micro-batch.
static void validate_longrope(struct config *config, struct complaints *complaints) {
    int64_t pairs = config_rotary_channels(&config->model) / 2;
    if (flag_source(&config->given, "--rope-scaling-factor") == FLAG_FROM_DEFAULT &&
        config->model.max_position_embeddings > 0) {
        double factor = (double)config->model.max_position_embeddings / (double)config->model.rope_original_length;
        config->model.rope_scaling_factor = factor > 1 ? factor : 1;
    }
    if (config->model.rope_original_length < 2)
        complain(complaints, "--rope-scaling-type longrope needs a --rope-original-length of at least 2");
    if (config->model.rope_long_factor)
        validate_factors("--rope-long-factor", config->model.rope_long_factor, pairs, complaints);
    if (config->model.rope_short_factor)
        validate_factors("--rope-short-factor", config->model.rope_short_factor, pairs, complaints);
    if (config->data.reset_position_ids && config->run.seq_length > config->model.rope_original_length)
        complain(complaints,
                 "--reset-position-ids does not go with --rope-scaling-type longrope and a --seq-length above "
                 "--rope-original-length %" PRId64 ": the frequencies would depend on the longest document; leave it "
                 "out, or shorten --seq-length",
                 config->model.rope_original_length);
}

void validate_rope(struct config *config, struct complaints *complaints) {
    int64_t rotated = config_rotary_channels(&config->model);
    if (config->model.position_embedding_type == POSITIONS_ROPE && !config->model.multi_latent_attention &&
        config->model.kv_channels > 0 && (rotated < 2 || rotated % 2 != 0))
        complain(complaints,
                 "--rotary-percent %g of heads %" PRId64 " wide are %" PRId64
                 " channels, but rotation needs pairs; give another share",
                 config->model.rotary_percent, config->model.kv_channels, rotated);
    if (config->model.use_rope_scaling && config->model.rope_high_freq_factor <= config->model.rope_low_freq_factor)
        complain(complaints, "--rope-high-freq-factor must be above --rope-low-freq-factor");
    bool is_yarn = config->model.use_rope_scaling && config->model.rope_scaling_type == ROPE_SCALING_YARN;
    if (is_yarn && config->model.yarn_beta_fast < config->model.yarn_beta_slow)
        complain(complaints, "--yarn-beta-fast must not be below --yarn-beta-slow");
    if (is_yarn && config->model.rotary_base < 2)
        complain(complaints, "--rope-scaling-type yarn needs a --rotary-base of at least 2; give a larger one");
    if (config_has_longrope(&config->model))
        validate_longrope(config, complaints);
}
