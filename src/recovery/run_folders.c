// The checkpoints of a run in both of its folders. See run_folders.h.
#include "recovery/run_folders.h"

#include "base/error.h"
#include "base/log.h"
#include "formats/contents.h"
#include "store/folder.h"
#include <inttypes.h>
#include <string.h>

void run_folders_open(struct run_folder folders[RUN_FOLDERS], const struct config *config, int64_t most) {
    folders[0] = (struct run_folder){.path = config->run.save, .flag = "--save", .most = most, .iteration = -1};
    folders[1] = (struct run_folder){
        .path = config->run.save_fallback, .flag = "--save-fallback", .most = most, .iteration = -1};
}

int run_folders_search(struct run_folder folders[RUN_FOLDERS], const struct checkpoint_wish *wish) {
    int found = -1;
    for (int i = 0; i < RUN_FOLDERS; i++) {
        struct checkpoint_wish here = *wish;
        here.folder = folders[i].path;
        here.most = folders[i].most;
        folders[i].iteration = here.folder ? checkpoint_newest_verified(&here) : -1;
        if (folders[i].iteration == CHECKPOINT_UNREAD)
            return CHECKPOINT_UNREAD;
        if (folders[i].iteration >= 0 && (found < 0 || folders[i].iteration > folders[found].iteration))
            found = i;
    }
    return found;
}

int64_t run_folders_latest(const struct config *config) {
    struct run_folder folders[RUN_FOLDERS];
    int64_t latest = -1;
    run_folders_open(folders, config, 0);
    for (int i = 0; i < RUN_FOLDERS; i++) {
        struct contents contents;
        if (folders[i].path && contents_look(&contents, folders[i].path, -1) == 0 && contents.owner == OWNER_OURS &&
            contents.iteration > latest)
            latest = contents.iteration;
    }
    error_clear();
    return latest;
}

// The other folder names one before, so that it is not the latest. If it has none, its marker names nothing: that is
// not the latest either (see contents_look), while without a marker its newest would count.
static int point_elsewhere(const char *folder, int64_t iteration) {
    struct folder_list list;
    int64_t before = iteration > 0 ? iteration - 1 : 0, named = 0;
    if (folder_marker_read(folder, &named) == 1 && named < iteration)
        return 0;
    error_clear();
    TRY(folder_list_read(&list, folder));
    for (size_t i = 0; i < list.count && list.iterations[i] < iteration; i++)
        before = list.iterations[i];
    int status = list.count > 0 ? folder_marker_write(folder, before) : 0;
    folder_list_free(&list);
    return status;
}

int run_folders_point(const struct config *config, const char *chosen, int64_t iteration) {
    struct run_folder folders[RUN_FOLDERS];
    run_folders_open(folders, config, iteration);
    TRY(folder_marker_write(chosen, iteration));
    for (int i = 0; i < RUN_FOLDERS; i++)
        if (folders[i].path && strcmp(folders[i].path, chosen) != 0 && checkpoint_exists(folders[i].path) &&
            point_elsewhere(folders[i].path, iteration) < 0)
            log_warn("%s; if the run is restarted, it may resume from a later checkpoint there", error_message());
    error_clear();
    return 0;
}

// ---- after replicas were found to differ ----

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

void run_folders_point_to_verified(const struct config *config, const struct mesh *mesh) {
    if (error_exit_code() != EXIT_CODE_CORRUPT || !config->run.save)
        return;
    struct error_note *note = error_take();
    if (mesh->rank == 0)
        point_back(config);
    // A rank that returned earlier would end the job, and the first rank in the middle of this.
    comm_barrier(mesh->all, "checkpoint to resume from");
    error_give(note);
}
