// The files of a checkpoint beside its tensors: state.json and config.json, and copies of the files that belong to it.
#ifndef STORE_EXTRA_H
#define STORE_EXTRA_H

#include "store/checkpoint.h"
#include "store/manifest.h"

// Writes state.json and config.json into the folder and adds them to the manifest.
int state_write(const struct checkpoint_state *state, const char *folder, struct manifest *manifest);

int extra_write(const struct checkpoint_file_list *files, const char *folder, struct manifest *manifest);
// Whether all of them can be read.
int extra_check(const struct checkpoint_file_list *files);
// Whether a file of a folder really lies in it once links are followed: a file that a stranger's folder only points to
// must not be copied. A link from a snapshot in a cache of Hugging Face's hub to the cache's blobs counts as inside.
bool extra_is_inside(const char *folder, const char *path);
// -1 with a message unless it is a regular file that lies in the folder.
int extra_check_inside(const char *folder, const char *path);
// The file's own name, without the folder and without a role prefix.
const char *extra_name(const struct checkpoint_file *file);
// Writes a file of these bytes; sha256 may be NULL.
int extra_write_bytes(const char *to, const void *data, size_t size, char sha256[65]);
// Copies one file; sha256 may be NULL.
int extra_copy(const char *from, const char *to, uint64_t *bytes, char sha256[65]);

#endif
