// From --load to a checkpoint, a configuration and a tokenizer. See saved_model.h.
#include "cli/saved_model.h"
#include "cli/remote_load.h"
#include "base/error.h"
#include "train/datasets.h"
#include "train/identity.h"
#include "train/state.h"

#include <stdlib.h>
#include <unistd.h>

int saved_model_find(struct saved_model *model, struct config *config, struct session *session, enum config_use use) {
    *model = (struct saved_model){.hold = -1};
    if (!config->load)
        return error_set_code(EXIT_CODE_USAGE, "--load is missing; give the folder of the checkpoints");
    bool has_tokenizer = flag_is_given(&config->given, "--vocab-file") ||
                         flag_is_given(&config->given, "--merge-file") ||
                         flag_is_given(&config->given, "--tokenizer-model");
    TRY(config_apply_preset(config));
    TRY(remote_load(config, session, true));
    TRY(state_find_held(config, &model->path, &model->iteration, &model->hold));
    TRY(state_load_config(config, model->path));
    TRY(config_validate_for(config, session->place.size, use));
    TRY(datasets_open_tokenizer(&model->tokenizer, config));
    if (has_tokenizer && model->tokenizer && session->place.rank == 0)
        identity_warn_of_tokenizer(model->tokenizer, model->path);
    return 0;
}

void saved_model_free(struct saved_model *model) {
    tokenizer_free(model->tokenizer);
    free(model->path);
    if (model->hold >= 0)
        close(model->hold);
}
