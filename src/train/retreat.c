// Which checkpoint a run is resumed from after an alarm. See retreat.h.
#include "train/retreat.h"

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include <inttypes.h>

static void point_back(const char *save) {
    int64_t latest = -1;
    if (folder_marker_read(save, &latest) <= 0)
        return;
    int64_t verified = checkpoint_newest_verified(&(struct checkpoint_wish){.folder = save, .most = latest});
    if (verified == latest)
        return;
    if (verified < 0)
        log_warn("no checkpoint in %s was saved with verified replicas; the latest, of iteration %" PRId64
                 ", may contain the fault: load an earlier one with --ckpt-step if it does",
                 save, latest);
    else if (folder_marker_write(save, verified) == 0)
        log_warn("GOING BACK to the checkpoint of iteration %" PRId64 ", the last one with verified replicas: that of "
                 "iteration %" PRId64 " may contain the fault",
                 verified, latest);
    else
        log_warn("%s; load the checkpoint of iteration %" PRId64 " with --ckpt-step: later ones may contain the fault",
                 error_message(), verified);
}

void retreat_after(const struct config *config, const struct mesh *mesh) {
    if (error_exit_code() != EXIT_CODE_CORRUPT || !config->save)
        return;
    struct error_note *note = error_take();
    if (mesh->rank == 0)
        point_back(config->save);
    // A rank that returned earlier would end the job, and the first rank in the middle of this.
    comm_barrier(mesh->all, "checkpoint to resume from");
    error_give(note);
}
