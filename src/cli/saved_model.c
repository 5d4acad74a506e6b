// From --load to a checkpoint, a configuration and a tokenizer. See saved_model.h.
#include "cli/saved_model.h"
#include "cli/remote_load.h"
#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "train/datasets.h"
#include "train/identity.h"
#include "train/state.h"

// The end-of-document token is chosen separately: the tokenizers are compared as if it were the checkpoint's.
static void warn_of_tokenizer(const struct saved_model *model, const struct config *config) {
    struct json *then = NULL;
    struct tokenizer *alike = NULL;
    struct tokenizer_options options = tokenizer_options_of(config);
    if (state_read_config(&then, model->found.path) == 0 && then) {
        const struct json *eod = json_member(then, "eod_token");
        options.eod_token = eod && eod->type == JSON_STRING ? eod->string : NULL;
        // A tokenizer without that token differs.
        if (tokenizer_open(&alike, &options) < 0)
            alike = NULL;
    }
    error_clear();
    identity_warn_of_tokenizer(alike ? alike : model->tokenizer, model->found.path);
    tokenizer_free(alike);
    json_free(then);
}

int saved_model_find(struct saved_model *model, struct config *config, struct session *session, enum config_use use) {
    *model = (struct saved_model){.found.hold = -1};
    if (!config->run.load)
        return error_set_code(EXIT_CODE_USAGE, "--load is missing; give the folder of the checkpoints");
    bool has_tokenizer = flag_is_given(&config->given, "--vocab-file") ||
                         flag_is_given(&config->given, "--merge-file") ||
                         flag_is_given(&config->given, "--tokenizer-model");
    TRY(config_apply_preset(config));
    TRY(remote_load(config, session, true));
    TRY(find_checkpoint_here(&model->found, config, false));
    TRY(state_load_config(config, &model->found));
    TRY(config_validate_for(config, session->place.size, use));
    TRY(datasets_open_tokenizer(&model->tokenizer, config));
    if (has_tokenizer && model->tokenizer && session->place.rank == 0)
        warn_of_tokenizer(model, config);
    return 0;
}

void saved_model_free(struct saved_model *model) {
    tokenizer_free(model->tokenizer);
    found_checkpoint_free(&model->found);
}
