// Brings a checkpoint from S3 (remote_folder.h) into a local folder, from which it is loaded like any other. Processes
// of one machine, or of several that share the folder, wait for the one that downloads. Every file is compared with the
// manifest's SHA-256 on the way, and the checkpoint gets its name when it is whole.
//
// A cache has a folder for each iteration, so that what a process loads from stays as it is while others load a newer
// one:
//
//   CACHE/100/                  to load from: iter_0000100 and the marker
//   CACHE/.bevatron-use-100     locked by every process that uses that folder; removing it needs the lock alone
//   CACHE/.bevatron-fetch       locked by the process that downloads and removes
#ifndef CHECKPOINT_REMOTE_FETCH_H
#define CHECKPOINT_REMOTE_FETCH_H

#include "base/file_lock.h"
#include <stdint.h>

// The iteration to load from the address: `step`, or if that is -1 the marker's, or the newest complete one. 1, 0 if
// there is none, -1 on error. Ranks ask once and share the answer: a run that still copies may finish another one.
int checkpoint_fetch_choose(const char *url, int64_t step, int64_t *iteration);

struct checkpoint_fetch {
    const char *url;
    const char *folder;  // made if it does not exist
    int64_t iteration;
    bool prefers_newer;  // if the folder's latest checkpoint is as new, it stays; not of a cache
};
// Makes the checkpoint the latest one of the folder.
int checkpoint_fetch(const struct checkpoint_fetch *fetch);

struct checkpoint_cached {
    char *folder;           // to load from, to be freed
    struct file_lock hold;  // while it is held, the folder is not removed
};
// Brings the checkpoint into the cache `folder`, and removes others that no process uses.
int checkpoint_fetch_cached(const struct checkpoint_fetch *fetch, struct checkpoint_cached *cached);

#endif
