// state.json and config.json of a checkpoint. Internal to this folder.
#ifndef CHECKPOINT_STATE_H
#define CHECKPOINT_STATE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

// Writes both files into folder and adds them to the manifest.
int state_write(const struct checkpoint_state *state, const char *folder, struct manifest *manifest);

#endif
