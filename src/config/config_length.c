// The length of a run: --tokens, --epochs, --train-iters or --train-samples. See config.h.
#include "config/validate.h"
#include "base/error.h"
#include "base/log.h"

// Source of a length; FLAG_FROM_DEFAULT if it is not given.
static enum flag_source source_of(const struct config *config, const char *flag, bool is_set) {
    return is_set ? flag_source(&config->given, flag) : FLAG_FROM_DEFAULT;
}

int config_choose_length(struct config *config) {
    // A plan without data uses mock data, and a provisional length.
    if (config->data.mock_data && !flag_is_given(&config->given, "--mock-data"))
        config->run.epochs = 0;
    const enum flag_source tokens = source_of(config, "--tokens", config->run.tokens > 0),
                           epochs = source_of(config, "--epochs", config->run.epochs > 0),
                           iters = source_of(config, "--train-iters", config->run.train_iters > 0),
                           samples = source_of(config, "--train-samples", config->run.train_samples > 0);
    enum flag_source own = tokens > epochs ? tokens : epochs, counted = iters > samples ? iters : samples;
    if (own == FLAG_FROM_DEFAULT)
        return 0;
    if ((tokens == FLAG_FROM_COMMAND && epochs == FLAG_FROM_COMMAND) ||
        (own == FLAG_FROM_COMMAND && counted == FLAG_FROM_COMMAND))
        return error_set_code(EXIT_CODE_USAGE, "--tokens, --epochs, --train-iters and --train-samples exclude each "
                                               "other; give one");
    if (config->data.mock_data && epochs > FLAG_FROM_DEFAULT)
        return error_set_code(EXIT_CODE_USAGE, "--epochs needs data, and --mock-data has no end; give --train-iters");
    if (own == FLAG_FROM_FILE && counted == own)
        log_info("note: the file gives the length twice; its iterations or samples count, not %s",
                 epochs == own ? "epochs" : "tokens");
    // The command line takes precedence over a file. Files of this program have both: iterations win.
    if (own > counted)
        config->run.train_iters = config->run.train_samples = 0;
    else
        config->run.tokens = config->run.epochs = 0;
    if (tokens > epochs)
        config->run.epochs = 0;
    else if (epochs > tokens)
        config->run.tokens = 0;
    return 0;
}

// In samples if the other flags of the schedule are, or the batch grows; otherwise in iterations. Replaces values
// derived by earlier validations: the batch may have changed.
void derive_length_of_tokens(struct config *config) {
    static const char *const of_samples[] = {"--lr-decay-samples", "--lr-warmup-samples", "--lr-wsd-decay-samples",
                                             "--rampup-batch-size", "--step-batch-size-schedule"};
    bool by_samples = false;
    if (config->run.tokens <= 0 || config->run.seq_length == 0 || config->run.global_batch_size == 0)
        return;
    int64_t samples = (int64_t)(config->run.tokens / (double)config->run.seq_length);
    for (size_t i = 0; i < sizeof of_samples / sizeof of_samples[0]; i++)
        by_samples = by_samples || flag_is_given(&config->given, of_samples[i]);
    config->run.train_samples = by_samples ? samples : 0;
    config->run.train_iters = by_samples ? 0 : samples / config->run.global_batch_size;
    if (config->run.train_iters == 0 && !by_samples)
        config->run.train_iters = 1;
    if (!flag_is_given(&config->given, "--lr-decay-iters"))
        config->run.lr_decay_iters = 0;
    if (!flag_is_given(&config->given, "--lr-decay-samples"))
        config->run.lr_decay_samples = 0;
}
