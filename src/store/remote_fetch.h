// Downloads a checkpoint from S3 (remote_folder.h) into a local folder, from which it is loaded like any other.
// Processes of one machine, or of several that share the folder, wait for the one that downloads. Every file is
// compared with the manifest's SHA-256 on the way, and the checkpoint gets its name when it is complete.
//
// A cache has a folder per iteration, so that the folder a process loads from does not change while others load a newer
// one:
//
//   CACHE/100/                  to load from: iter_0000100 and the marker
//   CACHE/.bevatron-use-100     locked by every process that uses that folder; removing it takes an exclusive lock
//   CACHE/.bevatron-fetch       locked by the process that downloads and removes
#ifndef STORE_REMOTE_FETCH_H
#define STORE_REMOTE_FETCH_H

#include "base/file_lock.h"
#include <stdint.h>

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
