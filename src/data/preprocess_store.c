// Files of unfinished datasets: opened, written anywhere, synced, copied. Who writes where is decided elsewhere
// (preprocess_run.c); here bytes only reach the place they were given, whole or with an error that names the file.
#include "data/preprocess_run.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 20, LARGE_BYTES = 1 << 16 };

static const char *const kinds[] = {"bin", "lengths", "documents"};

char *store_path(const char *prefix, int64_t keys, int64_t file) {
    if (file == store_bad_lines(keys))
        return memory_printf("%s.bad_lines", prefix);
    return memory_printf("%s.%" PRId64 ".%s", prefix, file / STORE_KINDS, kinds[file % STORE_KINDS]);
}

// "cannot WHAT PATH: why; remedy"
static int fail(const struct store *store, int64_t file, const char *what, int error) {
    char *path = store_path(store->prefix, store->keys, file);
    const char *remedy = "check the disk";
    if (error == ENOSPC || error == EDQUOT)
        remedy = "free some space and run the same command again, or choose another folder";
    else if (error == EFBIG)
        remedy = "raise the file size limit (ulimit -f) or choose another file system";
    else if (error == EACCES || error == EPERM || error == EROFS)
        remedy = "choose a folder that you may write to";
    else if (error == EMFILE || error == ENFILE)
        remedy = "raise the number of open files (ulimit -n)";
    error_set("cannot %s %s: %s; %s", what, path, strerror(error), remedy);
    free(path);
    return -1;
}

// ---- writing through maps ----

// The kernel allows one write() into a file at a time, and from about ten threads on all of them wait for that. Where
// it is safe, large writes therefore go through maps of the file's next parts: each thread creates its own pages. Safe
// means a local file system, and a kernel that can be asked to create pages (MADV_POPULATE_WRITE), so that a full disk
// is an error and not a signal; else the caller writes as usual. A few windows of the file are mapped at a time; a new
// one replaces the first unused one.
enum { MAP_WINDOWS = 4, WINDOW_BYTES = 32 << 20, POPULATE_WRITE = 23 };  // the last is Linux's number

struct map_window {
    unsigned char *data;  // NULL if free
    uint64_t number;      // it begins at number * WINDOW_BYTES
    int users;            // threads that write to it
};

struct write_map {
    pthread_mutex_t lock;
    int descriptor;
    bool is_usable;
    uint64_t size;  // of the file, which may exceed the written data
    struct map_window windows[MAP_WINDOWS];
};

static void write_map_open(struct write_map *map, int descriptor) {
    struct stat status;
    *map = (struct write_map){.descriptor = descriptor};
    pthread_mutex_init(&map->lock, NULL);
    // Local file systems create pages of a map as readily as those of a write.
    map->is_usable = file_is_local(descriptor) && fstat(descriptor, &status) == 0;
    map->size = map->is_usable ? (uint64_t)status.st_size : 0;
}

static void release(struct map_window *window) {
    if (window->data)
        munmap(window->data, WINDOW_BYTES);
    *window = (struct map_window){0};
}

// The file keeps its size; the caller truncates it.
static void write_map_close(struct write_map *map) {
    for (int i = 0; i < MAP_WINDOWS; i++)
        release(&map->windows[i]);
    map->is_usable = false;
}

// Maps a window; the file grows to its end. With the lock held.
static bool begin_window(struct write_map *map, struct map_window *window, uint64_t number) {
    uint64_t end = (number + 1) * WINDOW_BYTES;
    if (end > map->size && ftruncate(map->descriptor, (off_t)end) < 0)
        return false;
    map->size = end > map->size ? end : map->size;
    void *data =
        mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, map->descriptor, (off_t)(number * WINDOW_BYTES));
    if (data == MAP_FAILED)
        return false;
    *window = (struct map_window){.data = data, .number = number};
    return true;
}

// The window of this number, with one more user; NULL if there is no room for it. With the lock held.
static struct map_window *take_window(struct write_map *map, uint64_t number) {
    struct map_window *place = NULL;
    for (int i = 0; i < MAP_WINDOWS; i++) {
        struct map_window *window = &map->windows[i];
        if (window->data && window->number == number) {
            window->users++;
            return window;
        }
        bool is_better = !place || !window->data || (place->data && window->number < place->number);
        if (window->users == 0 && is_better)
            place = window;
    }
    if (!place)
        return NULL;
    release(place);
    if (!begin_window(map, place, number)) {
        map->is_usable = false;
        return NULL;
    }
    place->users = 1;
    return place;
}

static size_t write_part(struct write_map *map, uint64_t offset, const void *bytes, size_t count) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), first = (size_t)(offset % WINDOW_BYTES);
    size_t part = WINDOW_BYTES - first < count ? WINDOW_BYTES - first : count;
    pthread_mutex_lock(&map->lock);
    struct map_window *window = map->is_usable ? take_window(map, offset / WINDOW_BYTES) : NULL;
    pthread_mutex_unlock(&map->lock);
    if (!window)
        return 0;
    size_t begin = first / page * page, end = (first + part + page - 1) / page * page;
    bool is_there = madvise(window->data + begin, end - begin, POPULATE_WRITE) == 0;
    if (is_there)
        memcpy(window->data + first, bytes, part);
    pthread_mutex_lock(&map->lock);
    map->is_usable = map->is_usable && is_there;
    window->users--;
    pthread_mutex_unlock(&map->lock);
    return is_there ? part : 0;
}

// Writes as much of the beginning as it can; returns the number of bytes, 0 if none.
static size_t write_map_write(struct write_map *map, uint64_t offset, const void *bytes, size_t count) {
    size_t done = 0, part = 1;
    while (done < count && part > 0) {
        part = write_part(map, offset + done, (const char *)bytes + done, count - done);
        done += part;
    }
    return done;
}

// ---- the files ----

static int open_file(struct store *store, int64_t file, uint64_t bytes) {
    struct stat status;
    char *path = store_path(store->prefix, store->keys, file);
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    store->descriptors[file] = descriptor;
    int result = 0;
    if (descriptor < 0)
        result = fail(store, file, "create", errno);
    else if (fstat(descriptor, &status) < 0)
        result = fail(store, file, "open", errno);
    else if ((uint64_t)status.st_size < bytes)
        result =
            error_set("cannot resume: %s has %" PRIu64 " bytes and should have %" PRIu64 "; start over with --restart",
                      path, (uint64_t)status.st_size, bytes);
    else if (ftruncate(descriptor, (off_t)bytes) < 0)
        result = fail(store, file, "cut", errno);
    free(path);
    return result;
}

int store_open(struct store *store, const char *prefix, int64_t keys, const uint64_t *bytes) {
    *store = (struct store){.prefix = memory_string(prefix), .keys = keys};
    store->descriptors = memory_alloc((size_t)store_files(keys) * sizeof *store->descriptors);
    for (int64_t file = 0; file < store_files(keys); file++)
        store->descriptors[file] = -1;
    for (int64_t file = 0; file < store_files(keys); file++) {
        if (open_file(store, file, bytes[file]) < 0) {
            store_close(store);
            return -1;
        }
    }
    return 0;
}

static void close_maps(struct store *store) {
    for (int64_t key = 0; store->maps && key < store->keys; key++)
        write_map_close(&store->maps[key]);
    free(store->maps);
    store->maps = NULL;
}

void store_close(struct store *store) {
    close_maps(store);
    for (int64_t file = 0; store->descriptors && file < store_files(store->keys); file++)
        if (store->descriptors[file] >= 0)
            close(store->descriptors[file]);
    free(store->descriptors);
    free(store->prefix);
    *store = (struct store){0};
}

void store_remove(struct store *store) {
    for (int64_t file = 0; store->descriptors && file < store_files(store->keys); file++) {
        char *path = store_path(store->prefix, store->keys, file);
        unlink(path);
        free(path);
    }
    store_close(store);
}

void store_share(struct store *store) {
    store->maps = memory_alloc((size_t)store->keys * sizeof *store->maps);
    for (int64_t key = 0; key < store->keys; key++)
        write_map_open(&store->maps[key], store->descriptors[store_file(key, STORE_TOKENS)]);
}

int store_cut(struct store *store, const uint64_t *bytes) {
    close_maps(store);
    for (int64_t file = 0; file < store_files(store->keys); file++)
        if (ftruncate(store->descriptors[file], (off_t)bytes[file]) < 0)
            return fail(store, file, "cut", errno);
    return 0;
}

int store_write(const struct store *store, int64_t file, uint64_t offset, const void *bytes, size_t count) {
    const char *from = bytes;
    if (store->maps && file % STORE_KINDS == STORE_TOKENS && count >= LARGE_BYTES) {
        size_t done = write_map_write(&store->maps[file / STORE_KINDS], offset, bytes, count);
        from += done;
        offset += done;
        count -= done;
    }
    if (file_write_at(store->descriptors[file], from, count, offset) < count)
        return fail(store, file, "write", errno);
    return 0;
}

int store_read(const struct store *store, int64_t file, uint64_t offset, void *out, size_t count) {
    if (file_read_at(store->descriptors[file], out, count, offset) < count)
        return fail(store, file, "read back", errno ? errno : EIO);
    return 0;
}

int store_sync(const struct store *store) {
    for (int64_t file = 0; file < store_files(store->keys); file++)
        if (fsync(store->descriptors[file]) < 0)
            return fail(store, file, "sync", errno);
    return 0;
}

int store_copy(const struct store *to, const uint64_t *at, const struct store *from, const uint64_t *bytes) {
    char *part = memory_alloc(COPY_BYTES);
    int result = 0;
    for (int64_t file = 0; result == 0 && file < store_files(from->keys); file++) {
        for (uint64_t done = 0; result == 0 && done < bytes[file];) {
            size_t count = bytes[file] - done < COPY_BYTES ? (size_t)(bytes[file] - done) : COPY_BYTES;
            result = interrupt_check();
            if (result == 0)
                result = store_read(from, file, done, part, count);
            if (result == 0)
                result = store_write(to, file, at[file] + done, part, count);
            done += count;
        }
    }
    free(part);
    return result;
}
