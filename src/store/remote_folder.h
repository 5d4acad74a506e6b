// A copy of SAVE (checkpoint.h) in S3, with the same names:
//
//   URL/iter_0000010/…                       the files, in any order
//   URL/iter_0000010/manifest.json           written after them
//   URL/latest_checkpointed_iteration.txt    written after that
//
// An object appears whole or not at all, so a kill leaves the marker at a complete checkpoint, unless the marked one
// was being copied again. Removing a checkpoint starts with its manifest; until all files are gone, deleting.json lists
// them.
#ifndef STORE_REMOTE_FOLDER_H
#define STORE_REMOTE_FOLDER_H

#include "base/buffer.h"
#include "store/folder.h"
#include "store/manifest.h"
#include <stdbool.h>
#include <stdint.h>

// URL/iter_0000010/name, to be freed; NULL as name for the address of the checkpoint itself.
char *remote_folder_path(const char *url, int64_t iteration, const char *name);
// 1 and the iteration, 0 if there is no marker, -1 on error.
int remote_folder_marker(const char *url, int64_t *iteration);
// The iterations that have an object with this name, e.g. manifest.json, in increasing order.
int remote_folder_list(struct folder_list *list, const char *url, const char *name);
// The manifest of an iteration and its text: 1, 0 if there is none, -1.
int remote_folder_manifest(const char *url, int64_t iteration, const char *name, struct buffer *text,
                           struct manifest *manifest);

#endif
