// A model that training saved: which checkpoint --load names, the configuration it was trained with, and its tokenizer.
// The commands that use a model begin with this.
#ifndef CLI_SAVED_MODEL_H
#define CLI_SAVED_MODEL_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"

struct saved_model {
    char *path;                   // the checkpoint's iter_… folder
    struct tokenizer *tokenizer;  // NULL where neither the checkpoint nor the flags have one
};

// Completes `config`, which holds the flags that were given, by the checkpoint's, and validates it. The checkpoint's
// checksums are state_prove's to look at, once the ranks can talk. The result is freed by saved_model_free, also after
// an error.
int saved_model_find(struct saved_model *model, struct config *config, int world_size, enum config_use use);
void saved_model_free(struct saved_model *model);

#endif
