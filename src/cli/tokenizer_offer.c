// See tokenizer_offer.h.
#include "cli/tokenizer_offer.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/sample/blend_index.h"
#include "data/text_cache.h"
#include "train/data_paths.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { USUAL_SIZE = 32000 };  // as config_validate has it

// The first name of data that is text, to be freed; NULL if there is none. Errors in the names are reported later.
static char *find_text(const struct config *config) {
    char *name = NULL;
    for (int which = 0; which < SPLIT_COUNT && !config->mock_data; which++) {
        struct data_paths paths = {0};
        struct blend_list list = {0};
        if (data_paths_find(&paths, config, (enum split)which) == 0 && paths.items.count > 0)
            (void)blend_list_parse(&list, paths.items.items, paths.items.count, paths.flag);
        for (int64_t i = 0; i < list.count && !name; i++)
            if (text_source_exists(list.prefixes[i]))
                name = memory_string(list.prefixes[i]);
        blend_list_free(&list);
        data_paths_free(&paths);
        error_clear();
    }
    return name;
}

static bool has_tokenizer(const struct config *config) {
    return config->tokenizer_type || config->vocab_file || config->merge_file || config->tokenizer_model;
}

// Whether the checkpoint to resume from has a tokenizer. Changes the configuration.
static bool has_saved(struct config *config) {
    char *path = NULL;
    int64_t iteration;
    bool has = (state_is_begun(config) || config->pretrained_checkpoint) &&
               state_find_here(config, true, &path, &iteration) == 0 && state_load_config(config, path) == 0 &&
               has_tokenizer(config);
    error_clear();
    free(path);
    return has;
}

static bool asks(const struct config *config, const char *name) {
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return false;
    fprintf(stderr,
            "%s is text, but no tokenizer is given. Train one of %" PRId64
            " tokens on it (--tokenizer-type auto)? [Y/n] ",
            name, config->vocab_size > 0 ? config->vocab_size : USUAL_SIZE);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y' || answer[0] == '\n');
}

int tokenizer_offer(const struct config *config, bool may_ask) {
    struct config trial;
    config_copy(&trial, config);
    bool is_wanted = false;
    int status = config_apply_preset(&trial);
    char *name =
        status == 0 && !has_tokenizer(&trial) && !trial.use_checkpoint_args && config_form(&trial) == CONFIG_GPT
            ? find_text(&trial)
            : NULL;
    if (name)
        is_wanted = has_saved(&trial) || (may_ask && asks(config, name));
    free(name);
    config_free(&trial);
    return status < 0 ? -1 : is_wanted;
}
