// Chooses the checkpoint from which a run is resumed after an alarm. See verified_restart.h.
#include "recovery/verified_restart.h"

#include "base/error.h"
#include "base/log.h"
#include "recovery/run_folders.h"
#include <inttypes.h>

static void point_back(const struct config *config) {
    int64_t latest = run_folders_latest(config);
    if (latest < 0)
        return;
    struct run_folder folders[RUN_FOLDERS];
    run_folders_open(folders, config, latest);
    int place = run_folders_search(folders, &(struct checkpoint_wish){0});
    if (place == CHECKPOINT_UNREAD) {
        log_warn("%s; the latest checkpoint stays that of iteration %" PRId64
                 ", which may contain the fault: load an earlier one with --ckpt-step if it does",
                 error_message(), latest);
        return;
    }
    int64_t verified = place < 0 ? -1 : folders[place].iteration;
    if (verified == latest)
        return;
    if (verified < 0)
        log_warn("no checkpoint in %s was saved with verified replicas; the latest, of iteration %" PRId64
                 ", may contain the fault: load an earlier one with --ckpt-step if it does",
                 config->run.save, latest);
    else if (run_folders_point(config, folders[place].path, verified) == 0)
        log_warn("GOING BACK to the checkpoint of iteration %" PRId64 ", the last one with verified replicas: that of "
                 "iteration %" PRId64 " may contain the fault",
                 verified, latest);
    else
        log_warn("%s; load the checkpoint of iteration %" PRId64 " with --ckpt-step: later ones may contain the fault",
                 error_message(), verified);
}

void retreat_after(const struct config *config, const struct mesh *mesh) {
    if (error_exit_code() != EXIT_CODE_CORRUPT || !config->run.save)
        return;
    struct error_note *note = error_take();
    if (mesh->rank == 0)
        point_back(config);
    // A rank that returned earlier would end the job, and the first rank in the middle of this.
    comm_barrier(mesh->all, "checkpoint to resume from");
    error_give(note);
}
