// Flags of features that this version does not have. A flag whose row is marked not_yet is refused unless it has its
// default, because it would change the numbers or the memory of the run; one in the list below passes with a note,
// because it would not. When a feature is built, its mark or line is removed.
#include "base/error.h"
#include "base/log.h"
#include "config/validate.h"
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

// ---- features of some families ----

// Flags that only a BERT or a T5 has. In Megatron the name of the script selects the model, here --model does: without
// it such a command line would silently train a GPT.

static const char bert[] = "--model bert", t5[] = "--model t5", either[] = "--model bert or --model t5",
                  ict[] = "--model ict";

static const struct {
    const char *flag;
    const char *family;
} of_families[] = {
    {"--bert-no-binary-head", bert},
    {"--mask-prob", either},
    {"--short-seq-prob", either},
    {"--leave-unmasked-prob", bert},
    {"--random-token-prob", bert},
    {"--decoder-seq-length", t5},
    {"--decoder-num-layers", t5},
    {"--bert-load", ict},
    {"--titles-data-path", ict},
    {"--query-in-block-prob", ict},
    {"--use-one-sent-docs", ict},
    {"--biencoder-projection-dim", ict},
    {"--biencoder-shared-query-context-model", ict},
    {"--retriever-score-scaling", ict},
    {"--retriever-report-topk-accuracies", ict},
};

// Whether a model of this form has the flags of a family. Megatron's scripts for BERT also serve ICT, so flags of
// BERT's samples are allowed there without effect.
static bool has_flags_of(enum config_form form, const char *family) {
    if (family == ict || form == CONFIG_ICT)
        return family == ict && form == CONFIG_ICT;
    return (form == CONFIG_BERT && family != t5) || form == CONFIG_T5;
}

static const char *name_of(const struct config *config) {
    return config->model.form == CONFIG_ICT ? "ICT" : "a GPT";
}

// Features that a GPT may have, but seldom has; NULL if there are none.
static const char *find_unusual(const struct config *config) {
    static const char *const flags[] = {"--encoder-seq-length", "--encoder-num-layers", "--vocab-extra-ids"};
    static const char sentences[] = "_sentence";
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flag_is_given(&config->given, flags[i]) && (i < 2 || config->data.vocab_extra_ids > 0))
            return flags[i];
    if (config->data.tokenizer_type && strncmp(config->data.tokenizer_type, "BertWordPiece", 13) == 0)
        return config->data.tokenizer_type;
    for (int64_t i = 0; i < config->data.data_path.count; i++) {
        const char *path = config->data.data_path.items[i];
        size_t length = strlen(path), end = sizeof sentences - 1;
        if (length > end && strcmp(path + length - end, sentences) == 0)
            return path;
    }
    return NULL;
}

void validate_family(const struct config *config, struct complaints *complaints) {
    // A launcher leaves it to the ranks to read the family from the checkpoint.
    if (config->run.use_checkpoint_args && flag_source(&config->given, "--model") == FLAG_FROM_DEFAULT)
        return;
    enum config_form form = config->model.form;
    bool is_chosen = flag_source(&config->given, "--model") != FLAG_FROM_DEFAULT || config->model.preset;
    bool is_refused = false;
    for (size_t i = 0; i < sizeof of_families / sizeof of_families[0]; i++) {
        const char *flag = of_families[i].flag, *family = of_families[i].family;
        if (!flag_is_given(&config->given, flag) || has_flags_of(form, family))
            continue;
        if (!is_chosen)
            complain(complaints, "%s belongs to %s, but without --model this is a GPT; give %s, or leave %s out", flag,
                     family, family, flag);
        else if (family == t5 || (family == ict && flag_source(&config->given, flag) == FLAG_FROM_COMMAND))
            complain(complaints, "%s belongs to %s; leave it out", flag, family);
        else if (flag_source(&config->given, flag) == FLAG_FROM_COMMAND)  // a file may have flags of any command
            log_info("note: %s has no effect in %s; it belongs to %s", flag, name_of(config), family);
        is_refused = is_refused || !is_chosen;
    }
    const char *unusual = is_chosen || is_refused ? NULL : find_unusual(config);
    if (unusual)
        log_warn_once("%s is usual for a BERT or a T5, but without --model this is a GPT; give --model bert, --model "
                      "t5 or --model gpt",
                      unusual);
}
