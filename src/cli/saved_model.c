// From --load to a checkpoint, a configuration and a tokenizer. See saved_model.h.
#include "cli/saved_model.h"
#include "base/error.h"
#include "train/datasets.h"
#include "train/state.h"

#include <stdlib.h>

int saved_model_find(struct saved_model *model, struct config *config, int world_size, enum config_use use) {
    *model = (struct saved_model){0};
    if (!config->load)
        return error_set_code(EXIT_CODE_USAGE, "--load is missing: the folder that training saved its checkpoints in");
    TRY(config_apply_preset(config));
    int64_t iteration;
    TRY(state_find_here(config, true, &model->path, &iteration));
    TRY(state_load_config(config, model->path));
    TRY(config_validate_for(config, world_size, use));
    return datasets_open_tokenizer(&model->tokenizer, config);
}

void saved_model_free(struct saved_model *model) {
    tokenizer_free(model->tokenizer);
    free(model->path);
}
