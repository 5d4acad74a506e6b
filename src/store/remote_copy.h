// Copies checkpoints to S3 in the background (--save-to), as remote_folder.h lays them out. One thread of the first
// rank does it while training continues; while it is busy, only the newest completed checkpoint waits, and older ones
// are skipped. A failure costs a warning: the checkpoint stays in --save, and the next one is copied. Only the last one
// is retried.
#ifndef STORE_REMOTE_COPY_H
#define STORE_REMOTE_COPY_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
