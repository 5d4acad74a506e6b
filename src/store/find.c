// Decides which checkpoint to load, and whether it is complete. The marker is believed if it makes sense; a missing or
// garbled one costs a warning and a search, since the folders themselves say everything. Damage is never ignored
// silently, and an error of the file system is not damage: it is retried, and if it persists, nothing is decided. If
// there are several ranks, the first does all of this, and the others verify their share of the files of the checkpoint
// it examines.
#include "store/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/hub.h"
#include "store/folder.h"
#include "store/manifest.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool checkpoint_exists(const char *folder) {
    if (folder_marker_exists(folder))
        return true;
    if (!file_is_folder(folder))
        return file_exists(folder);
    OWNED_BY(folder_list_free) struct folder_list list = {0};
    return folder_list_read(&list, folder) == 0 && (list.count > 0 || folder_own_iteration(folder) >= 0);
}

// Reads the manifest and compares its iteration with the folder's name, without reading other files.
static int read_manifest(struct manifest *manifest, const char *path) {
    if (!file_is_folder(path))
        return error_set("there is no folder %s", path);
    TRY(manifest_read(manifest, path));
    int64_t iteration = folder_own_iteration(path);
    // A copy may have any name, but a name with an iteration must have the right one.
    if (iteration < 0 || iteration == manifest->iteration)
        return 0;
    error_set("%s holds iteration %" PRId64 " according to its manifest; the folder was renamed", path,
              manifest->iteration);
    manifest_free(manifest);
    return -1;
}

int checkpoint_verify(const char *path, bool skip_checksums) {
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    FILE_PATIENCE();
    int result = read_manifest(&manifest, path);
    if (result == 0)
        result =
            manifest_verify(&manifest, path, &(struct manifest_proof){.skip_checksums = skip_checksums, .size = 1});
    return result < 0 && file_doubt() < 0 ? CHECKPOINT_UNREAD : result;
}

// ---- several ranks ----

// The first rank's request to verify a checkpoint with it: the iteration, -1 to end, and a digest of the manifest it
// has seen, since a folder of this name may differ on another machine.
struct verify_request {
    int64_t iteration, digest;
};

// Proof of damage on any rank counts before another rank's failure to read.
static int agree_on_proof(const struct checkpoint_find *find, int result, bool is_unread) {
    int64_t failed[2] = {result < 0 && !is_unread, is_unread};
    comm_max_i64(find->all, failed, 2, "checkpoint proved");
    if (failed[0])
        return comm_agree(find->all, is_unread ? 0 : result, "checkpoint proved");
    return comm_agree(find->all, result, "checkpoint proved") < 0 ? CHECKPOINT_UNREAD : 0;
}

static int prove_share(const struct checkpoint_find *find, struct verify_request *request) {
    int self = group_rank(find->all);
    OWNED char *path = checkpoint_path(find->folder, request->iteration);
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    FILE_PATIENCE();
    int result = read_manifest(&manifest, path);
    if (self == 0)
        request->digest = result == 0 ? manifest_digest(&manifest) : -1;
    comm_broadcast_i64(find->all, &request->digest, 1, 0, "manifest of the checkpoint");
    // If the first rank has no manifest to compare with, its own message counts.
    if (result == 0 && request->digest >= 0 && request->digest != manifest_digest(&manifest))
        result = error_set(
            "%s holds a different checkpoint here than on rank 0; --load must be a folder that all nodes share", path);
    if (result == 0)
        result =
            manifest_verify(&manifest, path,
                            &(struct manifest_proof){
                                .skip_checksums = find->skip_checksums, .self = self, .size = group_size(find->all)});
    return agree_on_proof(find, result, result < 0 && file_doubt() < 0);
}

// The other ranks' loop: verify what the first rank requests until it has decided.
static void assist(const struct checkpoint_find *find) {
    for (;;) {
        struct verify_request request = {0};
        comm_broadcast_i64(find->all, &request.iteration, 1, 0, "checkpoint to verify");
        if (request.iteration < 0)
            break;
        (void)prove_share(find, &request);
    }
    error_clear();
}

// 0 if the checkpoint of an iteration is complete; CHECKPOINT_UNREAD if that cannot be determined.
static int prove(const struct checkpoint_find *find, int64_t iteration) {
    if (find->all) {
        struct verify_request request = {.iteration = iteration};
        comm_broadcast_i64(find->all, &request.iteration, 1, 0, "checkpoint to verify");
        return prove_share(find, &request);
    }
    OWNED char *path = checkpoint_path(find->folder, iteration);
    return checkpoint_verify(path, find->skip_checksums);
}

// ---- choosing ----

enum { MOST_TRIES = 100 };

// The newest iterations other than `iteration`; empty if there are none.
static char *describe_others(const struct folder_list *list, int64_t iteration) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    size_t first = list->count > 8 ? list->count - 8 : 0;
    for (size_t i = first; i < list->count; i++)
        if (list->iterations[i] != iteration)
            buffer_printf(&text, "%s%" PRId64, text.length > 0 ? ", " : first > 0 ? "… " : "", list->iterations[i]);
    return memory_string(buffer_string(&text));
}

// A verification that was cut short by a signal says nothing about the checkpoint.
static bool was_stopped(void) {
    return error_exit_code() == EXIT_CODE_STOPPED;
}

// A checkpoint of a newer program is not damaged: an older checkpoint must not take its place.
static bool is_of_newer_program(void) {
    return error_exit_code() == EXIT_CODE_USAGE;
}

// Appends the remedy to the current message.
static int refuse(const struct checkpoint_find *find, int64_t iteration, const struct folder_list *list) {
    OWNED char *why = memory_string(error_message()), *others = describe_others(list, iteration);
    const char *copy = "restore it from a copy";
    bool says_copy = strstr(why, copy) != NULL;
    error_set_code(EXIT_CODE_NO_CHECKPOINT,
                   "the checkpoint of iteration %" PRId64 " in %s cannot be used: %s%s%s%s%s%s", iteration,
                   find->folder, why, says_copy ? "" : "; ", says_copy ? "" : copy,
                   *others ? ", or load another with --ckpt-step (others: " : "", others, *others ? ")" : "");
    return -1;
}

// Verifies an iteration and, if requested, holds it first.
static int hold_and_prove(const struct checkpoint_find *find, int64_t iteration) {
    OWNED char *path = checkpoint_path(find->folder, iteration);
    if (find->hold)
        *find->hold = folder_hold(path);
    int result = prove(find, iteration);
    if (result == 0)
        return 0;
    if (find->hold && *find->hold >= 0)
        close(*find->hold);
    if (find->hold)
        *find->hold = -1;
    if (result == CHECKPOINT_UNREAD && !was_stopped())
        error_context("the checkpoint of iteration %" PRId64 " in %s is not used, and no older one instead", iteration,
                      find->folder);
    return result;
}

// Tries the iterations up to and including `newest`, in descending order. 0 and *iteration, or -1 with the message of
// the last one.
static int search(const struct checkpoint_find *find, const struct folder_list *list, int64_t newest,
                  int64_t *iteration) {
    for (size_t i = list->count; i-- > 0;) {
        if (list->iterations[i] > newest)
            continue;
        int result = hold_and_prove(find, list->iterations[i]);
        if (result == 0) {
            *iteration = list->iterations[i];
            return 0;
        }
        if (was_stopped() || result == CHECKPOINT_UNREAD)
            return result;
        if (is_of_newer_program())
            return refuse(find, list->iterations[i], list);
        log_warn("the checkpoint of iteration %" PRId64 " is damaged: %s", list->iterations[i], error_message());
    }
    return error_set_code(EXIT_CODE_NO_CHECKPOINT,
                          "there is no valid checkpoint in %s; check the path, or restore one from a copy",
                          find->folder);
}

// When an entry of the folder was last created, renamed or removed, in nanoseconds.
static int64_t last_change(const char *folder) {
    struct stat status;
    return stat(folder, &status) == 0 ? status.st_mtim.tv_sec * 1000000000LL + status.st_mtim.tv_nsec : -1;
}

// Whether the run of this folder has since saved another checkpoint, and may have removed the examined one.
static bool has_moved_on(const struct checkpoint_find *find, int64_t marker, int64_t change) {
    struct error_note *note = error_take();
    int64_t now = marker;
    bool has_moved =
        (folder_marker_read(find->folder, &now) > 0 && now != marker) || last_change(find->folder) != change;
    error_clear();
    if (note)
        (void)error_give(note);
    return has_moved;
}

// The requested or marked iteration cannot be used: no other is taken unless falling back is allowed.
static int do_without(const struct checkpoint_find *find, const struct folder_list *list, int64_t wanted,
                      int64_t *iteration) {
    if (was_stopped())
        return -1;
    if (find->step >= 0 || !find->allow_fallback || is_of_newer_program())
        return refuse(find, wanted, list);
    log_warn("the latest checkpoint, iteration %" PRId64 ", is damaged: %s", wanted, error_message());
    int result = search(find, list, wanted - 1, iteration);
    if (result < 0)
        return result;
    log_warn("FALLING BACK to the checkpoint of iteration %" PRId64 ": later iterations are lost", *iteration);
    return 0;
}

// Whether the marker names a missing iteration while a later one exists: its digits have changed.
static bool is_misled(const struct checkpoint_find *find, const struct folder_list *list, int64_t wanted) {
    if (find->step >= 0 || !find->allow_fallback || list->count == 0 || list->iterations[list->count - 1] <= wanted)
        return false;
    bool is_there = false;
    for (size_t i = 0; i < list->count; i++)
        is_there = is_there || list->iterations[i] == wanted;
    return !is_there;
}

static int choose(const struct checkpoint_find *find, const struct folder_list *list, int64_t *iteration) {
    int64_t wanted = find->step;
    int marker = 1, result = 0;
    // A run in progress removes checkpoints once it has marked a newer one, which is then used.
    for (int i = 0; i < MOST_TRIES; i++) {
        int64_t change = last_change(find->folder);
        if (find->step < 0)
            marker = folder_marker_read(find->folder, &wanted);
        if (file_doubt() < 0)
            return CHECKPOINT_UNREAD;
        if (marker <= 0)
            break;
        *iteration = wanted;
        result = hold_and_prove(find, wanted);
        if (result == 0)
            return 0;
        if (was_stopped() || result == CHECKPOINT_UNREAD || find->step >= 0 || !has_moved_on(find, wanted, change))
            break;
    }
    if (result == CHECKPOINT_UNREAD)
        return result;
    if (marker > 0 && is_misled(find, list, wanted)) {
        error_set("%s in %s names iteration %" PRId64 ", which is not there", folder_marker_name(), find->folder,
                  wanted);
        marker = -1;
    }
    if (marker > 0)
        return do_without(find, list, wanted, iteration);
    if (marker < 0)
        log_warn("%s; looking for the newest valid checkpoint instead", error_message());
    result = search(find, list, INT64_MAX, iteration);
    if (result == 0 && marker < 0)
        log_warn("using the checkpoint of iteration %" PRId64, *iteration);
    return result;
}

// The flag must name the folder that contains the checkpoints.
static int check_folder(const struct checkpoint_find *find) {
    const char *folder = find->folder, *flag = find->flag ? find->flag : "--load";
    if (!file_is_folder(folder) && file_exists(folder))
        return error_set_code(EXIT_CODE_NO_CHECKPOINT, "%s is a file; give the folder of the checkpoints with %s",
                              folder, flag);
    if (!file_is_folder(folder)) {
        error_set_code(EXIT_CODE_NO_CHECKPOINT, "there is no folder %s to load a checkpoint from; check %s", folder,
                       flag);
        return hub_suggest(folder, HUB_MODEL);
    }
    int64_t iteration = folder_own_iteration(folder);
    if (iteration < 0)
        return 0;
    OWNED char *absolute = realpath(folder, NULL), *parent = file_parent(absolute ? absolute : folder);
    error_set_code(
        EXIT_CODE_NO_CHECKPOINT,
        "%s is the folder of one iteration; give its parent folder and the iteration: %s %s --ckpt-step %" PRId64,
        folder, flag, parent, iteration);
    return -1;
}

static int look_here(const struct checkpoint_find *find, int64_t *iteration) {
    TRY(check_folder(find));
    folder_restore(find->folder);
    OWNED_BY(folder_list_free) struct folder_list list = {0};
    TRY(folder_list_read(&list, find->folder));
    return choose(find, &list, iteration);
}

static int find_here(const struct checkpoint_find *find, int64_t *iteration) {
    FILE_PATIENCE();
    int result = look_here(find, iteration);
    return result < 0 && file_doubt() < 0 ? CHECKPOINT_UNREAD : result;
}

int checkpoint_find(const struct checkpoint_find *find, char **path, int64_t *iteration) {
    *path = NULL;
    int result = 0;
    if (find->hold)
        *find->hold = -1;
    if (find->all)
        comm_patience_begin(find->all, "looking for a checkpoint and verifying it");
    if (!find->all || group_rank(find->all) == 0)
        result = find_here(find, iteration);
    else
        assist(find);
    if (find->all) {
        int64_t none = -1;
        if (group_rank(find->all) == 0)  // the others need not verify any more
            comm_broadcast_i64(find->all, &none, 1, 0, "checkpoint to verify");
        int64_t found[2] = {*iteration, result};
        (void)comm_agree(find->all, result, "checkpoint found");
        comm_broadcast_i64(find->all, found, 2, 0, "iteration of the checkpoint");
        *iteration = found[0];
        result = (int)found[1];
        comm_patience_end(find->all);
    }
    if (result == 0)
        *path = checkpoint_path(find->folder, *iteration);
    return result;
}

// ---- checkpoints whose ranks had just compared their copies of the parameters ----
//
// A run that finds a difference goes back to one of these: anything saved later, or without a comparison, may contain
// the fault.

int64_t checkpoint_newest_verified(const struct checkpoint_wish *wish) {
    OWNED_BY(folder_list_free) struct folder_list list = {0};
    int64_t found = -1;
    struct error_note *note = error_take();
    FILE_PATIENCE();
    if (folder_list_read(&list, wish->folder) < 0)
        list = (struct folder_list){0};
    // Stops at a read error: the unreadable checkpoint may be the newest that counts.
    for (size_t i = list.count; i-- > 0 && found < 0 && file_doubt() == 0;) {
        if (list.iterations[i] > wish->most)
            continue;
        struct checkpoint_state state;
        OWNED char *path = checkpoint_path(wish->folder, list.iterations[i]);
        if (checkpoint_load_state(path, &state) == 0) {
            bool is_verified = state.replicas_verified > 0 && state.iteration == list.iterations[i];
            if (is_verified && (!wish->accepts || wish->accepts(wish->context, &state)))
                found = list.iterations[i];
            checkpoint_state_free(&state);
        }
    }
    error_clear();
    if (file_doubt() < 0)
        found = CHECKPOINT_UNREAD;
    if (found == CHECKPOINT_UNREAD)
        error_drop(note);
    else if (note)
        error_give(note);
    return found;
}
