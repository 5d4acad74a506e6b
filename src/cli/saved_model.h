// A trained model: the checkpoint of --load, its configuration, and its tokenizer. Used by all commands that need a
// model.
#ifndef CLI_SAVED_MODEL_H
#define CLI_SAVED_MODEL_H

#include "cli/session.h"
#include "data/tokenizer/tokenizer.h"
#include "train/found_checkpoint.h"

struct saved_model {
    struct found_checkpoint found;
    struct tokenizer *tokenizer;  // NULL if neither the checkpoint nor the flags have one
};

// Completes `config`, which holds the given flags, from the checkpoint, and validates it. Verifying checksums is left
// to found_checkpoint_verify, once the ranks can communicate. Free the result with saved_model_free, also after an
// error.
int saved_model_find(struct saved_model *model, struct config *config, struct session *session, enum config_use use);
void saved_model_free(struct saved_model *model);

#endif
