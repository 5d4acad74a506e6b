// Rotary positions: their scaling, and features that exclude it.
#include "config/validate.h"
#include <inttypes.h>

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
    int64_t pairs = config_rotary_channels(config) / 2;
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
    int64_t rotated = config_rotary_channels(config);
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
    if (config_has_longrope(config))
        validate_longrope(config, complaints);
}
