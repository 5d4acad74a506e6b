// Downloads checkpoints. See remote_checkpoint.h.
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/phase.h"
#include "net/remote.h"
#include "store/checkpoint.h"
#include "store/remote_checkpoint.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP_BYTES = 1 << 20 };
static const double NAP_SECONDS = 0.1;
static const char manifest_name[] = "manifest.json", lock_name[] = ".bevatron-fetch", use_name[] = ".bevatron-use-";

// ---- one file ----

// Copies the whole stream into the file and the hash.
static int receive(struct remote_stream *stream, struct file_writer *writer, struct sha256 *hash, struct phase *phase) {
    OWNED char *bytes = memory_alloc(STEP_BYTES);
    for (ssize_t got = 1; got > 0;) {
        do
            got = read(remote_stream_descriptor(stream), bytes, STEP_BYTES);
        while (got < 0 && errno == EINTR);
        if (got > 0) {
            sha256_update(hash, bytes, (size_t)got);
            TRY(file_write(writer, bytes, (size_t)got));
            phase_advance(phase, got);
        }
    }
    return remote_stream_check(stream);
}

static int fetch_file(const char *url, const char *path, const struct manifest_file *file, struct phase *phase) {
    struct remote_stream *stream;
    struct file_writer writer;
    struct sha256 hash;
    unsigned char digest[32];
    char hex[65];
    TRY(remote_stream_open(&stream, url, 0));
    int status = file_create(&writer, path);
    if (status == 0) {
        sha256_init(&hash);
        status = receive(stream, &writer, &hash, phase);
        sha256_final(&hash, digest);
        sha256_hex(digest, hex);
        if (status == 0 && strcmp(hex, file->sha256) != 0)
            status = error_set_code(EXIT_CODE_NO_CHECKPOINT,
                                    "%s is damaged: its SHA-256 is not that of the manifest; load another iteration "
                                    "with --ckpt-step",
                                    url);
        if (status == 0)
            status = file_commit(&writer);
        else
            file_abort(&writer);
    }
    struct error_note *error = status < 0 ? error_take() : NULL;
    remote_stream_close(stream);
    return error ? error_give(error) : status;
}

// ---- one checkpoint ----

static uint64_t count_bytes(const struct manifest *manifest) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->count; i++)
        bytes += manifest->files[i].bytes;
    return bytes;
}

static int fetch_files(const struct checkpoint_fetch *fetch, const struct manifest *manifest, const struct buffer *text,
                       const char *folder) {
    int status = 0;
    struct phase *phase = phase_begin_amount("downloading the checkpoint", "bytes", (double)count_bytes(manifest));
    for (size_t i = 0; status == 0 && i < manifest->count; i++) {
        OWNED char *url = remote_folder_path(fetch->url, manifest->iteration, manifest->files[i].name);
        OWNED char *path = file_join(folder, manifest->files[i].name);
        status = fetch_file(url, path, &manifest->files[i], phase);
    }
    phase_end(phase);
    TRY(status);
    return file_write_in(folder, manifest_name, text->data, text->length);
}

static int check_room(const struct checkpoint_fetch *fetch, const struct manifest *manifest) {
    uint64_t needed = count_bytes(manifest), room = 0;
    if (file_free_bytes(fetch->folder, &room) == 0 && room < needed)
        return error_set("%s has room for %.1f GB, but the checkpoint in %s has %.1f GB; give another folder with "
                         "--checkpoint-cache-path",
                         fetch->folder, (double)room / 1e9, fetch->url, (double)needed / 1e9);
    error_clear();
    return 0;
}

static bool has_same(const char *path, const struct buffer *text) {
    OWNED char *name = file_join(path, manifest_name);
    OWNED_BY(buffer_free) struct buffer here = {0};
    bool is_same = file_exists(name) && file_read_own(name, MANIFEST_MOST_BYTES, &here) == 0 &&
                   here.length == text->length && memcmp(here.data, text->data, text->length) == 0;
    error_clear();
    return is_same;
}

static int download(const struct checkpoint_fetch *fetch, const struct manifest *manifest, const struct buffer *text) {
    OWNED char *path = checkpoint_path(fetch->folder, manifest->iteration), *temporary = file_temporary_name(path);
    double begin = clock_seconds();
    TRY(check_room(fetch, manifest));
    log_info("downloading the checkpoint of iteration %" PRId64 " from %s to %s", manifest->iteration, fetch->url,
             fetch->folder);
    if (mkdir(temporary, 0777) < 0)
        return error_set("cannot make the folder %s: %s; give another folder with --checkpoint-cache-path", temporary,
                         strerror(errno));
    if (fetch_files(fetch, manifest, text, temporary) < 0) {
        struct error_note *error = error_take();
        (void)file_remove_tree(temporary);
        return error_give(error);
    }
    TRY(folder_replace(temporary, path));
    log_info("downloaded it in %.1f s", clock_seconds() - begin);
    return 0;
}

// Called with the lock: makes the checkpoint the folder's latest.
static int bring(const struct checkpoint_fetch *fetch, const struct manifest *manifest, const struct buffer *text) {
    OWNED char *path = checkpoint_path(fetch->folder, manifest->iteration);
    TRY(has_same(path, text) ? 0 : download(fetch, manifest, text));
    return folder_marker_write(fetch->folder, manifest->iteration);
}

static int find_manifest(const struct checkpoint_fetch *fetch, struct manifest *manifest, struct buffer *text) {
    int status = remote_folder_manifest(fetch->url, fetch->iteration, manifest_name, text, manifest);
    return status > 0   ? 0
           : status < 0 ? -1
                        : error_set_code(EXIT_CODE_NO_CHECKPOINT,
                                         "there is no complete checkpoint of iteration %" PRId64 " in %s",
                                         fetch->iteration, fetch->url);
}

// ---- the cache ----

static char *use_path(const struct checkpoint_fetch *fetch, int64_t iteration) {
    return memory_printf("%s/%s%" PRId64, fetch->folder, use_name, iteration);
}

// The name has no "iter_", which would mark the folder itself as a checkpoint.
static char *place_path(const struct checkpoint_fetch *fetch, int64_t iteration) {
    return memory_printf("%s/%" PRId64, fetch->folder, iteration);
}

static void remove_place(const char *place, int64_t iteration) {
    OWNED char *path = checkpoint_path(place, iteration), *marker = file_join(place, folder_marker_name());
    bool is_gone = folder_remove_leftovers(place) == 0 && (!file_exists(path) || folder_discard(path) == 0);
    // Files that this program did not write stay, and so does their folder.
    if (is_gone && unlink(marker) == 0)
        (void)rmdir(place);
}

// Called with the lock: removes leftovers of earlier starts that no process uses.
static void remove_others(const struct checkpoint_fetch *fetch) {
    DIR *stream = opendir(fetch->folder);
    for (struct dirent *item; stream && (item = readdir(stream));) {
        int64_t iteration;
        if (!number_read_int(item->d_name, &iteration) || iteration < 0 || iteration == fetch->iteration)
            continue;
        OWNED char *place = place_path(fetch, iteration), *use = use_path(fetch, iteration);
        struct file_lock alone = {0};
        if (file_lock_try(&alone, use) == FILE_LOCK_HELD)
            remove_place(place, iteration);
        file_lock_release(&alone);
    }
    if (stream)
        closedir(stream);
    error_clear();
}

// A local checkpoint of that iteration that differs from the one at the address (the run was rolled back) is replaced
// if no process uses it.
static int check_unused(const char *place, const char *use, const struct manifest *manifest,
                        const struct buffer *text) {
    OWNED char *path = checkpoint_path(place, manifest->iteration);
    OWNED_BY(file_lock_release) struct file_lock alone = {0};
    if (!file_exists(path) || has_same(path, text) || file_lock_try(&alone, use) != FILE_LOCK_TAKEN)
        return 0;
    return error_set("%s holds an older checkpoint of iteration %" PRId64 ", and another process uses it; wait for its "
                     "end, or give another folder with --checkpoint-cache-path",
                     place, manifest->iteration);
}

// Called with the lock.
static int bring_cached(const struct checkpoint_fetch *fetch, const struct manifest *manifest,
                        const struct buffer *text, struct checkpoint_cached *cached) {
    OWNED char *use = use_path(fetch, fetch->iteration);
    const struct checkpoint_fetch inner = {.url = fetch->url, .folder = cached->folder, .iteration = fetch->iteration};
    TRY(check_unused(cached->folder, use, manifest, text));
    TRY(file_make_folders(cached->folder));
    TRY(folder_remove_leftovers(cached->folder));
    TRY(bring(&inner, manifest, text));
    // No process can hold the lock exclusively now: that also takes the folder's lock.
    TRY(file_lock_share(&cached->hold, use));
    remove_others(fetch);
    return 0;
}

// ---- choosing ----

int checkpoint_fetch_choose(const char *url, int64_t step, int64_t *iteration) {
    OWNED_BY(folder_list_free) struct folder_list list = {0};
    int64_t marked = -1;
    *iteration = step;
    if (step >= 0)
        return 1;
    int marker = remote_folder_marker(url, &marked);
    TRY(marker);
    TRY(remote_folder_list(&list, url, manifest_name));
    *iteration = list.count > 0 ? list.iterations[list.count - 1] : -1;
    bool has_marked = false;
    for (size_t i = 0; i < list.count; i++)
        has_marked = has_marked || list.iterations[i] == marked;
    if (marker > 0 && has_marked)
        *iteration = marked;
    else if (marker > 0 && *iteration >= 0)
        log_warn("the checkpoint of iteration %" PRId64 " in %s is not complete; using iteration %" PRId64, marked, url,
                 *iteration);
    return *iteration >= 0;
}

static int take_lock(struct file_lock *lock, const char *folder) {
    OWNED char *path = file_join(folder, lock_name);
    int result;
    double waited = 0;
    while ((result = file_lock_try(lock, path)) == FILE_LOCK_TAKEN && interrupt_check() == 0) {
        if (waited == 0)
            log_info("waiting for another process that downloads to %s", folder);
        clock_sleep(NAP_SECONDS);
        waited += NAP_SECONDS;
    }
    return result < 0 || result == FILE_LOCK_TAKEN ? -1 : 0;
}

// With `cached`, the folder is a cache.
static int fetch_locked(const struct checkpoint_fetch *fetch, struct checkpoint_cached *cached) {
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    OWNED_BY(buffer_free) struct buffer text = {0};
    TRY(find_manifest(fetch, &manifest, &text));
    return cached ? bring_cached(fetch, &manifest, &text, cached) : bring(fetch, &manifest, &text);
}

int checkpoint_fetch(const struct checkpoint_fetch *fetch) {
    OWNED_BY(file_lock_release) struct file_lock lock = {0};
    int64_t here;
    TRY(file_make_folders(fetch->folder));
    TRY(take_lock(&lock, fetch->folder));
    bool has_newer = fetch->prefers_newer && folder_marker_read(fetch->folder, &here) > 0 && here >= fetch->iteration;
    return has_newer ? 0 : fetch_locked(fetch, NULL);
}

int checkpoint_fetch_cached(const struct checkpoint_fetch *fetch, struct checkpoint_cached *cached) {
    struct file_lock lock = {0};
    *cached = (struct checkpoint_cached){0};
    TRY(file_make_folders(fetch->folder));
    TRY(take_lock(&lock, fetch->folder));
    cached->folder = place_path(fetch, fetch->iteration);
    int status = fetch_locked(fetch, cached);
    file_lock_release(&lock);
    if (status < 0) {
        free(cached->folder);
        cached->folder = NULL;
    }
    return status;
}

// ---- the folder in S3 ----

enum { MARKER_BYTES = 64 };

char *remote_folder_path(const char *url, int64_t iteration, const char *name) {
    OWNED char *folder = checkpoint_path("", iteration);  // "/iter_…"
    OWNED char *place = url_join(url, folder[0] == '/' ? folder + 1 : folder);
    return name ? url_join(place, name) : memory_string(place);
}

int remote_folder_marker(const char *url, int64_t *iteration) {
    OWNED char *path = url_join(url, folder_marker_name());
    OWNED_BY(buffer_free) struct buffer text = {0};
    int status = remote_read_all(path, MARKER_BYTES, &text);
    if (status > 0 && folder_marker_parse(&text, path, iteration) < 0)
        status = -1;
    return status;
}

int remote_folder_list(struct folder_list *list, const char *url, const char *name) {
    struct remote_list objects;
    OWNED char *prefix = url_join(url, "iter_"), *folder = url_join(url, "");
    *list = (struct folder_list){0};
    int status = remote_list(&objects, prefix, false);
    if (status == 0)
        list->iterations = memory_alloc((objects.count + 1) * sizeof *list->iterations);
    for (size_t i = 0; status == 0 && i < objects.count; i++) {
        const char *rest = objects.objects[i].url + strlen(folder), *slash = strchr(rest, '/');
        OWNED char *first = slash ? memory_printf("%.*s", (int)(slash - rest), rest) : NULL;
        int64_t iteration = first && strcmp(slash + 1, name) == 0 ? folder_iteration(first) : -1;
        if (iteration >= 0)
            list->iterations[list->count++] = iteration;
    }
    if (status == 0) {
        folder_list_sort(list);
        remote_list_free(&objects);
    }
    return status;
}

int remote_folder_manifest(const char *url, int64_t iteration, const char *name, struct buffer *text,
                           struct manifest *manifest) {
    OWNED char *path = remote_folder_path(url, iteration, name);
    *manifest = (struct manifest){0};
    int status = remote_read_all(path, MANIFEST_MOST_BYTES, text);
    if (status > 0 && manifest_parse(manifest, text, path) < 0)
        status = -1;
    if (status > 0 && manifest->iteration != iteration) {
        manifest_free(manifest);
        status = error_set("%s is the manifest of another iteration; the checkpoint was renamed", path);
    }
    return status;
}
