// Proves one file of a checkpoint against its entry in the manifest, and says where it is damaged. Internal to this
// folder.
#ifndef CHECKPOINT_PROOF_H
#define CHECKPOINT_PROOF_H

#include "checkpoint/manifest.h"

// The size and, unless skipped, every byte. -1 with a message that names the file and, where the manifest has running
// sums of it, the first tensor that is damaged and its bytes.
int proof_file(const struct manifest_file *file, const char *path, bool skip_checksums);

#endif
