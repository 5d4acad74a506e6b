// See tokenizer_offer.h.
#include "cli/tokenizer_offer.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/state.h"
#include "train/text_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { USUAL_SIZE = 32000 };  // the default of config_validate

static bool has_tokenizer(const struct config *config) {
    return config->data.tokenizer_type || config->data.vocab_file || config->data.merge_file ||
           config->data.tokenizer_model;
}

// Whether the checkpoint to resume from has a tokenizer. Changes the configuration.
static bool has_saved(struct config *config) {
    struct found_checkpoint found;
    bool has = find_checkpoint_here(&found, config, true) == 0 && found.path &&
               state_load_config(config, &found) == 0 && has_tokenizer(config);
    error_clear();
    found_checkpoint_free(&found);
    return has;
}

static bool asks(const struct config *config, const char *name) {
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return false;
    fprintf(stderr,
            "%s is text, but no tokenizer is given. Train one of %" PRId64
            " tokens on it (--tokenizer-type auto)? [Y/n] ",
            name, config->data.vocab_size > 0 ? config->data.vocab_size : USUAL_SIZE);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y' || answer[0] == '\n');
}

int tokenizer_offer(const struct config *config, bool may_ask) {
    struct config trial;
    struct string_list texts = {0};
    config_copy(&trial, config);
    bool is_wanted = false;
    // The run itself reports values taken from files.
    log_hush(true);
    int status = config_apply_preset(&trial);
    log_hush(false);
    if (status == 0 && !has_tokenizer(&trial) && !trial.run.use_checkpoint_args) {
        status = text_data_find(&texts, &trial);
        // Ranks on other machines may not have the data that rank 0 reads.
        if (status < 0 && !may_ask) {
            error_clear();
            status = 0;
        }
        if (status == 0 && texts.count > 0 && config_form(&trial) == CONFIG_GPT) {
            is_wanted = has_saved(&trial) || (may_ask && asks(config, texts.items[0]));
            status = is_wanted ? 0 : text_data_refuse(texts.items[0]);
        }
    }
    string_list_free(&texts);
    config_free(&trial);
    return status < 0 ? -1 : is_wanted;
}
