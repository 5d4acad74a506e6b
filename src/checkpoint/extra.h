// Copies the files that belong to a checkpoint into its folder.
#ifndef CHECKPOINT_EXTRA_H
#define CHECKPOINT_EXTRA_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

int extra_write(const struct checkpoint_file_list *files, const char *folder, struct manifest *manifest);
// Whether all of them can be read.
int extra_check(const struct checkpoint_file_list *files);
// The file's own name, without the folder and without a role it may already carry.
const char *extra_name(const struct checkpoint_file *file);
// Copies one file; sha256 may be NULL.
int extra_copy(const char *from, const char *to, uint64_t *bytes, char sha256[65]);

#endif
