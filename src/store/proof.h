// Verifies one file of a checkpoint against its entry in the manifest, and says where it is damaged. Internal to this
// folder.
#ifndef STORE_PROOF_H
#define STORE_PROOF_H

#include "store/manifest.h"

// Compares the size and, unless skipped, every byte. Returns -1 with a message that names the file and, if the manifest
// has running sums for it, the first damaged tensor and its bytes.
int proof_file(const struct manifest_file *file, const char *path, bool skip_checksums);

#endif
