// Flags of features that this version does not have. A flag whose row is marked not_yet is refused unless it has its
// default, because it would change the numbers or the memory of the run; one in the list below passes with a note,
// because it would not. When a feature is built, its mark or line is removed.
#include "config/validate.h"
#include "base/error.h"
#include "base/log.h"
#include <string.h>

static const struct {
    const char *flag;
    const char *note;
} without_effect[] = {
    {"--ckpt-format", "has no effect: checkpoints are written in bevatron's own format"},
    {"--attention-backend", "has no effect on training: bevatron picks the kernel"},
    {"--log-progress", "has no effect yet: metrics.jsonl has what progress.txt would say"},
    {"--log-memory-to-tensorboard", "has no effect yet"},
    {"--exit-signal-handler", "is always on: SIGTERM, SIGINT and SIGUSR1 end the run after a checkpoint"},
    {"--no-save-rng", "has no effect: random numbers follow from seed and position, so there is no state to save"},
    {"--no-load-rng", "has no effect: random numbers follow from seed and position, so there is no state to load"},
    {"--tensorboard-queue-size", "has no effect: bevatron decides when its files are written"},
};

// Compares the value with the default as texts.
static bool is_default(const struct config *config, const struct config *defaults, const struct flag *flag,
                       struct buffer *value, struct buffer *initial) {
    buffer_clear(value);
    buffer_clear(initial);
    flag_format(flag, config, value);
    flag_format(flag, defaults, initial);
    return strcmp(buffer_string(value), buffer_string(initial)) == 0;
}

void validate_features(const struct config *config, struct complaints *complaints) {
    // If every micro-batch has the same number of counted tokens, the mean over tokens is the mean of means.
    if (config->run.calculate_per_token_loss && config->model.form == CONFIG_GPT && !config->data.eod_mask_loss)
        log_info("note: --calculate-per-token-loss changes nothing here: all micro-batches have as many tokens");
    struct flag_table table = config_flag_table(0);
    struct config defaults;
    config_defaults(&defaults);
    struct buffer value = {0}, initial = {0};
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table.rows, i)); i++) {
        if (!flag->not_yet || is_default(config, &defaults, flag, &value, &initial))
            continue;
        if (flag->type == FLAG_BOOL)
            complain(complaints, "%s is not implemented in this version; leave it out", flag->name);
        else
            complain(complaints, "%s %s is not implemented in this version; leave it out%s%s", flag->name, value.data,
                     flag->initial ? " or give " : "", flag->initial ? flag->initial : "");
    }
    for (size_t i = 0; i < sizeof without_effect / sizeof without_effect[0]; i++) {
        flag = flag_find(&table, without_effect[i].flag);
        CHECK(flag != NULL);
        if (!is_default(config, &defaults, flag, &value, &initial))
            log_info("note: %s %s", flag->name, without_effect[i].note);
    }
    if (config->machine.tensor_model_parallel_size == 1 &&
        (config->machine.sequence_parallel || config->machine.distribute_saved_activations))
        log_info("note: --sequence-parallel and --distribute-saved-activations have no effect with one tensor-parallel "
                 "rank; they need --tensor-model-parallel-size 2 or more");
    else if (config->machine.sequence_parallel && config->machine.distribute_saved_activations)
        log_info(
            "note: --distribute-saved-activations has no effect with --sequence-parallel, which already splits them");
    buffer_free(&value);
    buffer_free(&initial);
    config_free(&defaults);
}
