// state.json and config.json of a checkpoint. Internal to this folder.
#ifndef STORE_STATE_H
#define STORE_STATE_H

#include "store/checkpoint.h"
#include "store/manifest.h"

// Writes both files into folder and adds them to the manifest.
int state_write(const struct checkpoint_state *state, const char *folder, struct manifest *manifest);

#endif
