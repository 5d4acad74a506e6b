// Saves checkpoints. Everything is written to a folder with a temporary name, the manifest last; then the folder gets
// its name, and then the marker is replaced. A kill between any two system calls leaves the old state or the new one.
// Every rank writes its share; the first one creates the folder, writes the small files, and publishes.
#include "store/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "base/host_limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/watchdog.h"
#include "store/extra.h"
#include "store/folder.h"
#include "store/manifest.h"
#include "store/share.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// 64 digits and a NUL, as words that ranks exchange.
enum { DIGEST_WORDS = 9 };

// More than any model needs. With more, the manifest would exceed what its reader accepts, so it then omits sums and
// the list of each file's tensors.
enum { MOST_SUMS = 1 << 20 };

struct checkpoint_job {
    struct checkpoint_save save;  // with copies of what later parts need
    struct checkpoint_state state;
    struct group *all;  // NULL for this process alone
    int rank, ranks;
    char *temporary;  // name of the folder while it is written
    bool has_made;    // this job created SAVE
    // This rank's share. A process that saves alone may have several, as if it were that many ranks.
    struct share *shares;
    int share_count;
    int64_t *sizes;    // bytes of every rank's files, SHARE_FILES entries for each
    int64_t *counts;   // number of tensors in them
    int64_t *firsts;   // where the sums of each begin, and where the last end
    int64_t *digests;  // their SHA-256, DIGEST_WORDS for each, once all are written
    int64_t *sums;     // per file: counts + 1 running sums and counts hashes of names
    // The background thread: first every rank writes its share, then the first one publishes.
    pthread_t thread;
    bool has_thread, is_publishing;
    atomic_bool is_ready;     // the thread, if there is one, has finished
    int status;               // of this rank's last step
    struct error_note *note;  // its message
};

// ---- what ranks tell each other ----

// Returns -1 on every rank if one has failed, with that rank's message.
static int agree(const struct checkpoint_job *job, int status, const char *what) {
    return job->all ? comm_agree(job->all, status, what) : status;
}

// ---- the folder ----

// Ensures that SAVE is writable.
static int prepare(struct checkpoint_job *job) {
    if (job->rank != 0)
        return 0;
    job->has_made = !file_exists(job->save.folder);
    TRY(file_make_folders(job->save.folder));
    folder_restore(job->save.folder);
    if (folder_remove_leftovers(job->save.folder) < 0)
        log_warn("%s", error_message());
    return 0;
}

static int check_space(const struct checkpoint_job *job) {
    uint64_t needed = 0, available = 0;
    for (int i = 0; i < SHARE_FILES * job->ranks; i++)
        needed += (uint64_t)job->sizes[i];
    TRY(file_free_bytes(job->save.folder, &available));
    return space_check(job->save.folder, needed, available);
}

// Checks the limit on file sizes before files are begun.
static int check_limit(const struct checkpoint_job *job) {
    uint64_t largest = 0;
    for (int k = 0; k < job->share_count; k++)
        for (int i = 0; i < SHARE_FILES; i++)
            largest = job->shares[k].files[i].bytes > largest ? job->shares[k].files[i].bytes : largest;
    return space_check_limit(job->save.folder, largest);
}

static int make_folder(struct checkpoint_job *job) {
    TRY(check_space(job));
    OWNED char *path = checkpoint_path(job->save.folder, job->state.iteration);
    job->temporary = file_temporary_name(path);
    return file_make_folders(job->temporary);
}

static void share_sizes(struct checkpoint_job *job) {
    int files = SHARE_FILES * job->ranks;
    job->sizes = memory_alloc((size_t)(3 * files + 1) * sizeof job->sizes[0]);
    job->counts = job->sizes + files;
    job->firsts = job->counts + files;
    for (int k = 0; k < job->share_count; k++)
        for (int i = 0; i < SHARE_FILES; i++) {
            job->sizes[SHARE_FILES * (job->rank + k) + i] = (int64_t)job->shares[k].files[i].bytes;
            job->counts[SHARE_FILES * (job->rank + k) + i] = (int64_t)job->shares[k].files[i].count;
        }
    if (job->all) {
        comm_all_gather_i64(job->all, job->sizes, SHARE_FILES, "sizes of a checkpoint's files");
        comm_all_gather_i64(job->all, job->counts, SHARE_FILES, "sizes of a checkpoint's files");
    }
    for (int at = 0; at < files; at++)
        job->firsts[at + 1] = job->firsts[at] + (job->sizes[at] > 0 ? 2 * job->counts[at] + 1 : 0);
}

static void list_tensors(struct manifest_file *file, const int64_t *sums, size_t count) {
    file->sum_count = count + 1;
    file->tensor_count = count;
    file->sums = memory_alloc(file->sum_count * sizeof file->sums[0]);
    file->tensors = memory_alloc((count + 1) * sizeof file->tensors[0]);
    for (size_t i = 0; i < file->sum_count; i++)
        file->sums[i] = (uint64_t)sums[i];
    for (size_t i = 0; i < count; i++)
        file->tensors[i] = (uint64_t)sums[file->sum_count + i];
}

// Lists the files of every rank, with the digests that all have sent.
static void list_files(const struct checkpoint_job *job, struct manifest *manifest) {
    for (int i = 0; i < SHARE_FILES; i++)
        for (int rank = 0; rank < job->ranks; rank++) {
            int at = SHARE_FILES * rank + i;
            if (job->sizes[at] == 0)
                continue;
            struct manifest_file file = {.name = share_file_name(i, job->sizes, rank, job->ranks),
                                         .holds = memory_string(share_holds[i]),
                                         .bytes = (uint64_t)job->sizes[at]};
            memcpy(file.sha256, &job->digests[DIGEST_WORDS * at], sizeof file.sha256);
            if (job->sums)
                list_tensors(&file, job->sums + job->firsts[at], (size_t)job->counts[at]);
            manifest_add(manifest, file);
        }
}

static void gather_digests(struct checkpoint_job *job) {
    int count = DIGEST_WORDS * SHARE_FILES * job->ranks;
    int64_t *words = job->digests = memory_alloc((size_t)count * sizeof words[0]);
    for (int k = 0; k < job->share_count; k++)
        for (int i = 0; i < SHARE_FILES; i++)
            memcpy(words + DIGEST_WORDS * (SHARE_FILES * (job->rank + k) + i), job->shares[k].files[i].digest.sha256,
                   sizeof job->shares[k].files[i].digest.sha256);
    if (job->all)
        comm_all_gather_i64(job->all, words, DIGEST_WORDS * SHARE_FILES, "digests of a checkpoint's files");
}

static void gather_sums(struct checkpoint_job *job) {
    int64_t total = job->firsts[SHARE_FILES * job->ranks];
    if (total > MOST_SUMS)
        return;
    job->sums = memory_alloc((size_t)(total + 1) * sizeof job->sums[0]);
    for (int k = 0; k < job->share_count; k++)
        for (int i = 0; i < SHARE_FILES; i++) {
            const struct share_file *file = &job->shares[k].files[i];
            int64_t *sums = job->sums + job->firsts[SHARE_FILES * (job->rank + k) + i];
            for (size_t s = 0; s < file->digest.count; s++)
                sums[s] = (int64_t)file->digest.sums[s];
            for (size_t t = 0; file->digest.count > 0 && t < file->count; t++)
                sums[file->digest.count + t] = (int64_t)manifest_name_hash(file->entries[t].name);
        }
    if (!job->all)
        return;
    OWNED int *rows = memory_alloc(sizeof *rows * ((size_t)job->ranks + 1));
    for (int rank = 0; rank <= job->ranks; rank++)
        rows[rank] = (int)job->firsts[SHARE_FILES * rank];
    comm_all_gather_rows_i64(job->all, job->sums, rows, "sums of a checkpoint's tensors");
}

// Adds the remaining files once those of all ranks are in the folder.
static int complete_folder(const struct checkpoint_job *job) {
    OWNED_BY(manifest_free) struct manifest manifest = {.iteration = job->state.iteration};
    list_files(job, &manifest);
    TRY(state_write(&job->state, job->temporary, &manifest));
    TRY(extra_write(&job->save.files, job->temporary, &manifest));
    TRY(manifest_write(&manifest, job->temporary));
    TRY(file_sync_folder(job->temporary));
    return job->save.check ? job->save.check(job->save.context, job->temporary) : 0;
}

// Removes what was written, and keeps the error message. No rank continues before that is done: otherwise a run that
// ends on the error could kill the first rank in the middle of it.
static int undo(const struct checkpoint_job *job) {
    struct error_note *note = error_take();
    if (job->rank == 0 && job->temporary && file_remove_tree(job->temporary) < 0)
        log_warn("%s", error_message());
    // Fails, as it should, if the folder has other content by now.
    if (job->rank == 0 && job->has_made)
        (void)rmdir(job->save.folder);
    if (job->all) {
        int64_t nothing = 0;
        comm_broadcast_i64(job->all, &nothing, 1, 0, "checkpoint undone");
    }
    return error_give(note);
}

// Whether a folder is a checkpoint of this program; only those are ever removed.
static bool is_ours(const char *path, int64_t iteration) {
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    return manifest_read(&manifest, path) == 0 && manifest.iteration == iteration;
}

static void remove_old(const struct checkpoint_job *job) {
    const struct checkpoint_save *save = &job->save;
    if (save->keep_last <= 0 && save->replaced[0] <= 0 && save->replaced[1] <= 0)
        return;
    OWNED_BY(folder_list_free) struct folder_list list = {0};
    if (folder_list_read(&list, save->folder) < 0) {
        log_warn("old checkpoints were not removed: %s", error_message());
        return;
    }
    struct retention retention = {.newest = job->state.iteration,
                                  .keep_last = save->keep_last,
                                  .retain_interval = save->retain_interval,
                                  .best = save->best,
                                  .replaced = {save->replaced[0], save->replaced[1]}};
    for (size_t i = list.count; i-- > 0;) {
        if (!retention_may_remove(&retention, list.iterations[i]))
            continue;
        OWNED char *path = checkpoint_path(save->folder, list.iterations[i]);
        if (is_ours(path, list.iterations[i]) && retention_removes(&retention, list.iterations[i]) &&
            folder_discard(path) < 0)
            log_warn("an old checkpoint is kept: %s", error_message());
    }
    error_clear();
}

// This checkpoint replaces the one that an earlier save completed, unless that has become the latest after all. Called
// only once it has its name: until then the other may be the only one.
static void remove_unmarked(const struct checkpoint_job *job) {
    int64_t unmarked = job->save.unmarked ? *job->save.unmarked : 0, latest = 0;
    if (unmarked == 0 || unmarked == job->state.iteration)
        return;
    bool is_latest = folder_marker_read(job->save.folder, &latest) == 1 && latest == unmarked;
    OWNED char *path = checkpoint_path(job->save.folder, unmarked);
    if (!is_latest && is_ours(path, unmarked) && folder_discard(path) < 0)
        log_warn("%s", error_message());
    error_clear();
}

// Renames the complete folder and makes it the latest.
static int give_name(const struct checkpoint_job *job) {
    OWNED char *path = checkpoint_path(job->save.folder, job->state.iteration);
    int result = folder_replace(job->temporary, path);
    bool has_name = result == 0 || !file_exists(job->temporary);
    if (result == 0) {
        result = folder_marker_write(job->save.folder, job->state.iteration);
        if (result < 0)
            error_context("the checkpoint %s is complete (load it with --ckpt-step %" PRId64
                          "), but not marked as the latest",
                          path, job->state.iteration);
    }
    struct error_note *note = result < 0 ? error_take() : NULL;
    if (has_name)
        remove_unmarked(job);
    if (job->save.unmarked && has_name)
        *job->save.unmarked = result < 0 ? job->state.iteration : 0;
    return note ? error_give(note) : result;
}

// The first rank publishes once the shares of all ranks are written.
static int publish(const struct checkpoint_job *job) {
    TRY(complete_folder(job));
    TRY(give_name(job));
    remove_old(job);
    return 0;
}

// ---- a save from its beginning to its end ----

static struct checkpoint_job *open_job(const struct checkpoint_save *save) {
    CHECK(save->state->iteration >= 0);
    struct checkpoint_job *job = memory_alloc(sizeof *job);
    job->save = *save;
    job->save.folder = memory_string(save->folder);
    job->save.files = (struct checkpoint_file_list){0};
    for (size_t i = 0; i < save->files.count; i++) {
        checkpoint_file_list_add(&job->save.files, save->files.items[i].role, save->files.items[i].path);
        job->save.files.items[i].held = save->files.items[i].held;
    }
    job->state = *save->state;
    job->state.config_json = save->state->config_json ? memory_string(save->state->config_json) : NULL;
    job->state.program_version = NULL;
    job->all = save->ranks ? save->ranks->mesh->all : NULL;
    job->rank = job->all ? group_rank(job->all) : 0;
    job->share_count = job->all || save->shares < 1 ? 1 : (int)save->shares;
    job->ranks = job->all ? group_size(job->all) : job->share_count;
    job->shares = memory_alloc(sizeof job->shares[0] * (size_t)job->share_count);
    return job;
}

static void close_job(struct checkpoint_job *job) {
    for (int k = 0; k < job->share_count; k++)
        share_free(&job->shares[k]);
    free(job->shares);
    checkpoint_state_free(&job->state);
    checkpoint_file_list_free(&job->save.files);
    free((char *)(uintptr_t)job->save.folder);
    free(job->temporary);
    free(job->sizes);
    free(job->digests);
    free(job->sums);
    free(job);
}

static int plan(struct checkpoint_job *job, const struct checkpoint_save *save) {
    const struct checkpoint_ranks *ranks = save->ranks;
    struct share_options options = {.size = job->share_count, .writers = job->share_count};
    if (ranks)
        options = (struct share_options){
            .self = group_rank(ranks->mesh->stage), .size = group_size(ranks->mesh->stage), .writers = ranks->writers};
    for (int k = 0; k < job->share_count; k++, options.self++)
        TRY(share_plan(&job->shares[k], save, &options));
    return 0;
}

// The first part of a save, up to a folder that every rank knows.
static int begin(struct checkpoint_job *job, const struct checkpoint_save *save) {
    int status = prepare(job);
    if (status == 0)
        status = plan(job, save);
    if (status == 0)
        status = check_limit(job);
    TRY(agree(job, status, "checkpoint begun"));
    share_sizes(job);
    for (int k = 0; k < job->share_count; k++)
        for (int i = 0; i < SHARE_FILES; i++)
            job->shares[k].files[i].name = share_file_name(i, job->sizes, job->rank + k, job->ranks);
    TRY(agree(job, job->rank == 0 ? make_folder(job) : 0, "folder of the checkpoint"));
    if (job->all)
        comm_broadcast_text(job->all, &job->temporary, 0, "name of the checkpoint");
    return 0;
}

static int write_shares(struct checkpoint_job *job, const struct checkpoint_save *save) {
    for (int k = 0; k < job->share_count; k++)
        TRY(share_write(&job->shares[k], save, job->temporary));
    return 0;
}

// Called when this rank's share is written or has failed: agrees on the result, and gathers what publishing needs.
static int end_writing(struct checkpoint_job *job, int status) {
    if (agree(job, status, "checkpoint written") < 0)
        return undo(job);
    gather_digests(job);
    gather_sums(job);
    return 0;
}

// The other ranks wait until the first one has published the checkpoint and removed old ones.
static int end_publishing(const struct checkpoint_job *job, int status) {
    return agree(job, status, "checkpoint published") < 0 ? undo(job) : 0;
}

// While ranks access files, no wait has a deadline, and every rank notices a lost one.
static void begin_patience(const struct checkpoint_job *job) {
    if (job->all)
        comm_patience_begin(job->all, "saving a checkpoint");
}

static void end_patience(struct group *all) {
    if (all)
        comm_patience_end(all);
}

int checkpoint_save(const struct checkpoint_save *save) {
    struct checkpoint_job *job = open_job(save);
    begin_patience(job);
    int status = begin(job, save);
    if (status < 0)
        undo(job);
    else
        status = end_writing(job, write_shares(job, save));
    if (status == 0)
        status = end_publishing(job, job->rank == 0 ? publish(job) : 0);
    end_patience(job->all);
    close_job(job);
    return status;
}

// Every rank that will write files creates an empty one: the folder must be the same on all machines.
static int write_empty(const struct checkpoint_job *job) {
    bool writes = false;
    for (int i = 0; i < SHARE_FILES; i++)
        writes = writes || job->shares[0].files[i].bytes > 0;
    if (!writes)
        return 0;
    OWNED char *path = memory_printf("%s/rehearsal-%d", job->temporary, job->rank);
    int result = file_write_all(path, "", 0);
    if (result < 0 && !file_is_folder(job->temporary))
        error_context("--save must be a folder that all nodes share, but here it is not that of rank 0");
    else if (result < 0)
        error_context("cannot save a checkpoint");
    return result;
}

int checkpoint_save_rehearse(const struct checkpoint_save *save) {
    struct checkpoint_job *job = open_job(save);
    int status = agree(job, job->rank == 0 ? extra_check(&job->save.files) : 0, "files of the checkpoint");
    if (status == 0)
        status = begin(job, save);
    if (status == 0)
        status = agree(job, write_empty(job), "save rehearsed");
    undo(job);
    close_job(job);
    return status;
}

static void keep_status(struct checkpoint_job *job, int status) {
    job->status = status;
    job->note = status < 0 ? error_take() : NULL;
    atomic_store(&job->is_ready, true);
}

static void *work_in_background(void *context) {
    struct checkpoint_job *job = context;
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_SAVE, "saving a checkpoint in the background");
    keep_status(job, job->is_publishing ? publish(job) : share_write_kept(&job->shares[0], job->temporary));
    watchdog_end(&work);
    return NULL;
}

static void start_thread(struct checkpoint_job *job) {
    atomic_store(&job->is_ready, false);
    job->has_thread = pthread_create(&job->thread, NULL, work_in_background, job) == 0;
    if (!job->has_thread)
        work_in_background(job);
}

// Whether this is the first rank of its machine, the only one that logs.
static bool is_first_here(const struct checkpoint_job *job) {
    for (int rank = 0; job->all && rank < job->rank; rank++)
        if (group_is_neighbour(job->all, rank))
            return false;
    return true;
}

// Whether all machines have memory for copies of the shares of all their ranks, with a tenth to spare for other uses
// meanwhile. If one lacks it, all ranks write without copies.
static bool has_room_for_copies(const struct checkpoint_job *job) {
    uint64_t needed = 0, room = host_memory_room(1);
    for (int rank = 0; rank < job->ranks; rank++)
        for (int i = 0; i < SHARE_FILES && (!job->all || group_is_neighbour(job->all, rank)); i++)
            needed += (uint64_t)job->sizes[SHARE_FILES * rank + i];
    bool is_here = needed <= room - room / 10;
    if (!is_here && is_first_here(job))
        log_warn("--async-save: the copies of this node's ranks need %.3g GB of host memory, but %.3g GB are "
                 "available; training waits until the checkpoint of iteration %" PRId64 " is written",
                 (double)needed / 1e9, (double)room / 1e9, job->state.iteration);
    int64_t is_short = !is_here;
    if (job->all)
        comm_max_i64(job->all, &is_short, 1, "room for a checkpoint");
    return !is_short;
}

int checkpoint_save_start(struct checkpoint_job **result, const struct checkpoint_save *save) {
    CHECK(!save->produce);
    struct checkpoint_job *job = open_job(save);
    struct group *all = job->all;
    begin_patience(job);
    int status = begin(job, save);
    if (status < 0) {
        undo(job);
        close_job(job);
        job = NULL;
    } else if (!has_room_for_copies(job)) {
        keep_status(job, write_shares(job, save));
    } else {
        share_keep(&job->shares[0], save);
        start_thread(job);
    }
    end_patience(all);
    *result = job;
    return status;
}

bool checkpoint_save_is_ready(struct checkpoint_job *job) {
    return atomic_load(&job->is_ready);
}

static void wait_for_thread(struct checkpoint_job *job) {
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_ELSEWHERE, "waiting for the thread that saves");
    if (job->has_thread)
        pthread_join(job->thread, NULL);
    job->has_thread = false;
    watchdog_end(&work);
}

// Ends a part: if the shares are written, the first rank now publishes; if that is done too, the job is over.
static int end_part(struct checkpoint_job *job, bool *is_over) {
    wait_for_thread(job);
    int status = job->status < 0 ? error_give(job->note) : 0;
    *is_over = true;
    if (job->is_publishing)
        return end_publishing(job, status);
    TRY(end_writing(job, status));
    *is_over = false;
    job->is_publishing = true;
    if (job->rank == 0)
        start_thread(job);
    return 0;
}

int checkpoint_save_advance(struct checkpoint_job **pending) {
    struct checkpoint_job *job = *pending;
    struct group *all = job->all;
    bool is_over;
    begin_patience(job);
    int status = end_part(job, &is_over);
    end_patience(all);
    if (is_over) {
        close_job(job);
        *pending = NULL;
    }
    return status;
}

int checkpoint_save_finish(struct checkpoint_job *job) {
    while (job)
        TRY(checkpoint_save_advance(&job));
    return 0;
}

void checkpoint_save_abandon(struct checkpoint_job *job) {
    wait_for_thread(job);
    error_drop(job->note);
    close_job(job);
}
