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

// Checkpoints in S3, given to --load or --pretrained-checkpoint.
// Downloads the addresses in --load and --pretrained-checkpoint, and replaces them by folders. If --load is the address
// of --save-to, the folder is --save: the run resumes from the newer one of both. Every rank calls it: rank 0 chooses
// the iteration, and the ranks of a machine share one download. The session protects the downloads from removal; NULL
// is for a process that only reads, whatever other ranks do. If there is no checkpoint, --load is dropped with a
// warning, or it is an error (`must_exist`).
int remote_load(struct config *config, struct session *session, bool must_exist);

#endif
