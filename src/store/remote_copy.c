// The thread that copies checkpoints to S3. See remote_checkpoint.h.
#include "store/remote_checkpoint.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/interrupt.h"
#include "net/remote.h"
#include "store/checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char manifest_name[] = "manifest.json", deleting_name[] = "deleting.json";

struct remote_copier {
    struct remote_copy_options options;  // owns its texts
    pthread_t thread;
    bool has_thread;
    atomic_bool stop;  // at once
    pthread_mutex_t lock;
    pthread_cond_t changed;
    // Not locked, used while copying: the current copy, and the two it may replace, the last and a former best.
    struct remote_offer current;
    int64_t passing[2];
    // Guarded by the lock:
    struct remote_offer offered;  // to be copied next; iteration -1 for none
    bool is_last;                 // nothing more will be offered
    int64_t missing;              // the last attempt, if it failed; else -1
};

// ---- copying one checkpoint ----

// A checkpoint's files, opened before the first is sent: removing the folder later does not disturb the copy.
struct opened_checkpoint {
    struct manifest manifest;
    struct buffer text;  // of the manifest
    char *path;
    int *descriptors;  // one per file
};

static void close_checkpoint(struct opened_checkpoint *opened) {
    for (size_t i = 0; opened->descriptors && i < opened->manifest.count; i++)
        if (opened->descriptors[i] >= 0)
            close(opened->descriptors[i]);
    free(opened->descriptors);
    manifest_free(&opened->manifest);
    buffer_free(&opened->text);
    free(opened->path);
}

static int open_checkpoint(struct opened_checkpoint *opened, const char *folder, int64_t iteration) {
    *opened = (struct opened_checkpoint){.path = checkpoint_path(folder, iteration)};
    char *path = file_join(opened->path, manifest_name);
    int status = file_read_own(path, MANIFEST_MOST_BYTES, &opened->text);
    if (status == 0)
        status = manifest_parse(&opened->manifest, &opened->text, path);
    free(path);
    TRY(status);
    opened->descriptors = memory_alloc(opened->manifest.count * sizeof *opened->descriptors);
    for (size_t i = 0; i < opened->manifest.count; i++)
        opened->descriptors[i] = -1;
    for (size_t i = 0; i < opened->manifest.count && status == 0; i++) {
        path = file_join(opened->path, opened->manifest.files[i].name);
        opened->descriptors[i] = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (opened->descriptors[i] < 0)
            status = error_set("cannot open %s: %s; --save must be a folder that the first rank sees", path,
                               strerror(errno));
        free(path);
    }
    return status;
}

static int send_file(const struct remote_copier *copier, const struct opened_checkpoint *opened, size_t index) {
    const struct manifest_file *file = &opened->manifest.files[index];
    OWNED char *url = remote_folder_path(copier->options.url, opened->manifest.iteration, file->name);
    OWNED char *path = file_join(opened->path, file->name);
    return remote_upload(&(struct remote_upload){.url = url,
                                                 .name = path,
                                                 .descriptor = opened->descriptors[index],
                                                 .size = file->bytes,
                                                 .sha256 = file->sha256,
                                                 .stop = &copier->stop});
}

// A removal of this iteration that was interrupted must not be resumed once the files are there again. Without
// permission to remove, nothing is removed.
static int drop_removal(const struct remote_copier *copier, int64_t iteration) {
    OWNED char *url = remote_folder_path(copier->options.url, iteration, deleting_name);
    OWNED_BY(buffer_free) struct buffer there = {0};
    int status = remote_read_all(url, MANIFEST_MOST_BYTES, &there);
    if (status > 0)
        status = remote_remove(url, &copier->stop);
    return status;
}

// Writes the manifest's text last of all files; that of an earlier copy was removed before the first file.
static int send_files(const struct remote_copier *copier, const struct opened_checkpoint *opened) {
    int64_t iteration = opened->manifest.iteration;
    OWNED char *url = remote_folder_path(copier->options.url, iteration, manifest_name);
    OWNED_BY(buffer_free) struct buffer there = {0};
    int status = remote_read_all(url, MANIFEST_MOST_BYTES, &there);
    bool is_there =
        status > 0 && there.length == opened->text.length && memcmp(there.data, opened->text.data, there.length) == 0;
    if (status > 0 && !is_there)
        status = remote_remove(url, &copier->stop);
    for (size_t i = 0; status >= 0 && !is_there && i < opened->manifest.count; i++)
        status = send_file(copier, opened, i);
    if (status >= 0)
        status = drop_removal(copier, iteration);
    if (status >= 0 && !is_there)
        status = remote_write_all(url, opened->text.data, opened->text.length, &copier->stop);
    return status < 0 ? -1 : 0;
}

static int send_marker(const struct remote_copier *copier, int64_t iteration) {
    OWNED char *url = url_join(copier->options.url, folder_marker_name());
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRId64, iteration);
    return remote_write_all(url, text, (size_t)length, &copier->stop);
}

// ---- removing old ones ----

// Removes the files that a manifest lists, and nothing else. deleting.json keeps the list in case of an interruption.
static int remove_checkpoint(const struct remote_copier *copier, int64_t iteration, const char *list_name) {
    const char *base = copier->options.url;
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    OWNED_BY(buffer_free) struct buffer text = {0};
    int status = remote_folder_manifest(base, iteration, list_name, &text, &manifest);
    if (status <= 0)
        return status;
    OWNED char *kept = remote_folder_path(base, iteration, deleting_name);
    OWNED char *whole = remote_folder_path(base, iteration, manifest_name);
    status = strcmp(list_name, deleting_name) == 0 ? 0 : remote_write_all(kept, text.data, text.length, &copier->stop);
    if (status == 0)
        status = remote_remove(whole, &copier->stop);
    for (size_t i = 0; status == 0 && i < manifest.count; i++) {
        OWNED char *url = remote_folder_path(base, iteration, manifest.files[i].name);
        status = remote_remove(url, &copier->stop);
    }
    if (status == 0)
        status = remote_remove(kept, &copier->stop);
    return status;
}

// Lists the copies that the newest one replaces.
static void take_replaced(struct remote_copier *copier, int64_t replaced[2]) {
    int64_t best = copier->current.best, *passing = copier->passing;
    for (int i = 0; i < 2; i++)
        replaced[i] = passing[i] == best ? 0 : passing[i];
    passing[1] = best > 0 && (passing[0] == best || passing[1] == best) ? best : 0;
    passing[0] = copier->current.is_passing ? copier->current.iteration : 0;
}

static int remove_old(struct remote_copier *copier) {
    const struct remote_copy_options *options = &copier->options;
    struct folder_list list;
    struct retention retention = {.newest = copier->current.iteration,
                                  .keep_last = options->keep_last,
                                  .retain_interval = options->retain_interval,
                                  .best = copier->current.best};
    take_replaced(copier, retention.replaced);
    if (options->keep_last <= 0 && retention.replaced[0] == 0 && retention.replaced[1] == 0)
        return 0;
    TRY(remote_folder_list(&list, options->url, deleting_name));
    int status = 0;
    for (size_t i = 0; status >= 0 && i < list.count; i++)
        if (list.iterations[i] != retention.newest)
            status = remove_checkpoint(copier, list.iterations[i], deleting_name);
    folder_list_free(&list);
    if (status >= 0)
        status = remote_folder_list(&list, options->url, manifest_name);
    TRY(status);
    for (size_t i = list.count; status >= 0 && i-- > 0;)
        if (retention_removes(&retention, list.iterations[i]))
            status = remove_checkpoint(copier, list.iterations[i], manifest_name);
    folder_list_free(&list);
    return status < 0 ? -1 : 0;
}

// ---- the thread ----

static uint64_t bytes_of(const struct manifest *manifest) {
    uint64_t total = 0;
    for (size_t i = 0; i < manifest->count; i++)
        total += manifest->files[i].bytes;
    return total;
}

static int copy_one(struct remote_copier *copier) {
    const struct remote_copy_options *options = &copier->options;
    int64_t iteration = copier->current.iteration;
    struct opened_checkpoint opened;
    double begin = clock_seconds();
    int status = open_checkpoint(&opened, options->folder, iteration);
    if (status == 0)
        status = send_files(copier, &opened);
    if (status == 0)
        status = send_marker(copier, iteration);
    if (status == 0)
        log_info("copied the checkpoint of iteration %" PRId64 " to %s: %.2f GB in %.1f s", iteration, options->url,
                 (double)bytes_of(&opened.manifest) / 1e9, clock_seconds() - begin);
    close_checkpoint(&opened);
    if (status < 0)
        return error_context("the checkpoint of iteration %" PRId64 " was not copied to %s; it is in %s", iteration,
                             options->url, options->folder);
    if (remove_old(copier) < 0 && !atomic_load(&copier->stop))
        log_warn("old checkpoints in %s were not removed: %s", options->url, error_message());
    error_clear();
    return 0;
}

static void *thread_main(void *argument) {
    struct remote_copier *copier = argument;
    pthread_mutex_lock(&copier->lock);
    for (;;) {
        while (copier->offered.iteration < 0 && !copier->is_last)
            pthread_cond_wait(&copier->changed, &copier->lock);
        if (copier->offered.iteration < 0 || atomic_load(&copier->stop))
            break;
        copier->current = copier->offered;
        copier->offered.iteration = -1;
        pthread_mutex_unlock(&copier->lock);
        int status = copy_one(copier);
        if (status < 0 && !atomic_load(&copier->stop))
            log_warn("%s", error_message());
        error_clear();
        pthread_mutex_lock(&copier->lock);
        copier->missing = status < 0 ? copier->current.iteration : -1;
    }
    pthread_mutex_unlock(&copier->lock);
    return NULL;
}

static bool has_checkpoint(const char *folder, int64_t iteration) {
    OWNED char *path = checkpoint_path(folder, iteration), *manifest = file_join(path, manifest_name);
    return file_is_regular(manifest);
}

// Whether the folder's latest checkpoint must be copied: an earlier run ended before copying it, or the run went back
// to it from a later one that was copied.
static bool is_missing(const struct remote_copy_options *options, int64_t latest) {
    int64_t there;
    bool is_marked = remote_folder_marker(options->url, &there) > 0;
    bool is_behind = is_marked && there > latest && has_checkpoint(options->folder, there);
    return has_checkpoint(options->folder, latest) && (!is_marked || there < latest || is_behind);
}

struct remote_copier *remote_copier_start(const struct remote_copy_options *options) {
    struct remote_copier *copier = memory_alloc(sizeof *copier);
    copier->options = *options;
    copier->options.folder = memory_string(options->folder);
    copier->options.url = memory_string(options->url);
    copier->offered.iteration = copier->missing = -1;
    pthread_mutex_init(&copier->lock, NULL);
    pthread_cond_init(&copier->changed, NULL);
    int64_t latest;
    if (folder_marker_read(options->folder, &latest) > 0 && is_missing(options, latest))
        copier->offered.iteration = latest;
    error_clear();
    copier->has_thread = thread_start(&copier->thread, thread_main, copier);
    if (!copier->has_thread)
        log_warn("no thread could be started: only the last checkpoint is copied to %s", options->url);
    return copier;
}

void remote_copier_offer(struct remote_copier *copier, struct remote_offer offer) {
    pthread_mutex_lock(&copier->lock);
    if (copier->offered.iteration >= 0)
        log_info("note: the checkpoint of iteration %" PRId64 " is not copied to %s: a newer one came first",
                 copier->offered.iteration, copier->options.url);
    copier->offered = offer;
    pthread_cond_signal(&copier->changed);
    pthread_mutex_unlock(&copier->lock);
}

// Copies the last checkpoint if the thread failed to or could not be started.
static int copy_missing(struct remote_copier *copier) {
    if (copier->offered.iteration < 0 && copier->missing < 0)
        return 0;
    if (copier->offered.iteration >= 0)
        copier->current = copier->offered;
    if (copier->has_thread)
        log_info("trying again to copy the checkpoint of iteration %" PRId64 " to %s", copier->current.iteration,
                 copier->options.url);
    if (copy_one(copier) == 0)
        return 0;
    OWNED char *message = memory_string(error_message());
    error_set("%s; run the same command again to copy it", message);
    return -1;
}

int remote_copier_finish(struct remote_copier *copier, bool waits) {
    if (!copier)
        return 0;
    pthread_mutex_lock(&copier->lock);
    copier->is_last = true;
    if (!waits)
        atomic_store(&copier->stop, true);
    pthread_cond_signal(&copier->changed);
    pthread_mutex_unlock(&copier->lock);
    if (copier->has_thread)
        pthread_join(copier->thread, NULL);
    int status = waits ? copy_missing(copier) : 0;
    pthread_mutex_destroy(&copier->lock);
    pthread_cond_destroy(&copier->changed);
    free((char *)copier->options.folder);
    free((char *)copier->options.url);
    free(copier);
    return status;
}

int remote_copy_check(const struct remote_copy_options *options, int64_t continued) {
    int64_t iteration;
    int status = remote_folder_marker(options->url, &iteration);
    if (status < 0)
        return error_context("--save-to");
    if (status > 0 && continued < 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--save-to %s holds checkpoints of another run, up to iteration %" PRId64
                              ", and --save %s holds none; resume that run with --load %s, or give another address",
                              options->url, iteration, options->folder, options->url);
    // A run that went back still has the later checkpoints in its folder.
    if (status > 0 && continued < iteration && !has_checkpoint(options->folder, iteration))
        return error_set_code(EXIT_CODE_USAGE,
                              "--save-to %s holds checkpoints up to iteration %" PRId64
                              ", --save %s only up to iteration %" PRId64
                              "; resume from the copy with --load %s, or give another address",
                              options->url, iteration, options->folder, continued, options->url);
    // Writing is tested now, so that it does not fail hours into training.
    OWNED char *probe = url_join(options->url, ".bevatron-probe");
    status = remote_write_all(probe, "", 0, NULL);
    // Without permission to remove, all checkpoints are kept.
    if (status == 0 && remote_remove(probe, NULL) < 0 && options->keep_last > 0)
        status = -1;
    return status < 0 ? error_context("--save-to") : 0;
}
