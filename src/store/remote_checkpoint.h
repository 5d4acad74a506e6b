// A copy of SAVE (checkpoint.h) in S3, with the same names:
//
//   URL/iter_0000010/…                       the files, in any order
//   URL/iter_0000010/manifest.json           written after them
//   URL/latest_checkpointed_iteration.txt    written after that
//
// An object appears whole or not at all, so a kill leaves the marker at a complete checkpoint, unless the marked one
// was being copied again. Removing a checkpoint starts with its manifest; until all files are gone, deleting.json lists
// them.
#ifndef STORE_REMOTE_CHECKPOINT_H
#define STORE_REMOTE_CHECKPOINT_H

#include "base/buffer.h"
#include "base/file_lock.h"
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

// ---- copying there ----
//
// Copies checkpoints to S3 in the background (--save-to), laid out as above. One thread of the first
// rank does it while training continues; while it is busy, only the newest completed checkpoint waits, and older ones
// are skipped. A failure costs a warning: the checkpoint stays in --save, and the next one is copied. Only the last one
// is retried.

struct remote_copier;

struct remote_copy_options {
    const char *folder;       // of --save
    const char *url;          // of --save-to
    int64_t keep_last;        // as in struct checkpoint_save, for the copies
    int64_t retain_interval;  // as keep_last
};

// Checks before training that the address can be used and belongs to this run. A run must not replace checkpoints that
// it does not continue; later ones are its own if its folder has them too: then it went back. `continued` is the
// iteration of the folder that the run continues, -1 if it starts over, or REMOTE_COPY_LOADED if it loads from the
// address.
#define REMOTE_COPY_LOADED INT64_MAX
int remote_copy_check(const struct remote_copy_options *options, int64_t continued);

// Copies the latest checkpoint of the folder if the address lacks it, and makes it the latest there if the run went
// back to it. The options are copied.
struct remote_copier *remote_copier_start(const struct remote_copy_options *options);
// Reports that a checkpoint is complete in the folder. Never waits.
struct remote_offer {
    int64_t iteration;
    bool is_passing;  // the next copy replaces it, unless it is the best
    int64_t best;     // an iteration that is not removed and not counted; 0 for none
};
void remote_copier_offer(struct remote_copier *copier, struct remote_offer offer);
// Stops the copier: if it waits, after the offered checkpoint is copied, else at once. If it waits and the last copy
// failed, that one is retried once; -1 if it fails again. NULL is fine.
int remote_copier_finish(struct remote_copier *copier, bool waits);

// ---- downloading ----
//
// Downloads a checkpoint from S3 into a local folder, from which it is loaded like any other.
// Processes of one machine, or of several that share the folder, wait for the one that downloads. Every file is
// compared with the manifest's SHA-256 on the way, and the checkpoint gets its name when it is complete.
//
// A cache has a folder per iteration, so that the folder a process loads from does not change while others load a newer
// one:
//
//   CACHE/100/                  to load from: iter_0000100 and the marker
//   CACHE/.bevatron-use-100     locked by every process that uses that folder; removing it takes an exclusive lock
//   CACHE/.bevatron-fetch       locked by the process that downloads and removes

// The iteration to load from the address: `step`, or if that is -1 the marker's, or the newest complete one. 1, 0 if
// there is none, -1 on error. One rank asks and shares the answer: a run in progress may finish another one meanwhile.
int checkpoint_fetch_choose(const char *url, int64_t step, int64_t *iteration);

struct checkpoint_fetch {
    const char *url;
    const char *folder;  // created if missing
    int64_t iteration;
    bool prefers_newer;  // keep the folder's latest checkpoint if it is as new; not for a cache
};
// Makes the checkpoint the latest one of the folder.
int checkpoint_fetch(const struct checkpoint_fetch *fetch);

struct checkpoint_cached {
    char *folder;           // to load from, to be freed
    struct file_lock hold;  // while it is held, the folder is not removed
};
// Downloads the checkpoint into the cache `folder`, and removes others that no process uses.
int checkpoint_fetch_cached(const struct checkpoint_fetch *fetch, struct checkpoint_cached *cached);

#endif
