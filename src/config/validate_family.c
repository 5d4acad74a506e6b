// Flags that only a BERT or a T5 has. In Megatron the name of the script selects the model, here --model does: without
// it such a command line would silently train a GPT.
#include "config/validate.h"
#include "base/log.h"
#include <string.h>

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
