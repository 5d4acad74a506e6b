// Whole files and folders: reading, mapping, creating, removing, and where a path lies.
#include "base/file.h"

#include "base/crash.h"
#include "base/error.h"
#include "base/file_patience.h"
#include "base/memory.h"
#include "base/watchdog.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

// Opens for reading; fails on a folder.
static int open_for_reading(const char *path, struct stat *status) {
    int descriptor = file_open_input(path, status);
    TRY(descriptor);
    if (S_ISDIR(status->st_mode)) {
        close(descriptor);
        return error_set("cannot read %s: it is a folder; name a file in it", path);
    }
    return descriptor;
}

// Reads to the end rather than trusting the size: pipes and files in /proc say 0. Returns 0, -1, or -errno.
static int read_to_end(int descriptor, const char *path, size_t limit_bytes, struct buffer *out, bool is_pipe) {
    size_t start = out->length;
    for (;;) {
        size_t got = out->length - start;
        size_t room = out->capacity > out->length + 1 ? out->capacity - out->length - 1 : 0;
        if (room == 0) {
            buffer_reserve(out, 1 << 16);
            continue;
        }
        if (is_pipe)
            TRY(file_await_pipe(descriptor, path));
        ssize_t count = read(descriptor, out->data + out->length, room);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            int error = errno;
            error_set("cannot read %s at byte %zu: %s", path, got, strerror(error));
            return is_pipe ? -1 : -error;
        }
        if (count == 0)
            return 0;
        out->length += (size_t)count;
        out->data[out->length] = '\0';
        if (out->length - start > limit_bytes)
            return error_set("cannot read %s: it is larger than the %zu bytes allowed here; is it the right file?",
                             path, limit_bytes);
    }
}

static int read_once(const char *path, size_t limit_bytes, struct buffer *out, bool takes_pipes) {
    struct stat status;
    buffer_clear(out);
    int descriptor = open_for_reading(path, &status);
    TRY(descriptor);
    int result = 0;
    if (!takes_pipes && !S_ISREG(status.st_mode))
        result = error_set("%s is %s, not a regular file; remove it", path, file_describe_kind(status.st_mode));
    else if (S_ISREG(status.st_mode) && (uintmax_t)status.st_size > limit_bytes)
        result = error_set("cannot read %s: its %jd bytes are more than the %zu allowed here; is it the right file?",
                           path, (intmax_t)status.st_size, limit_bytes);
    if (result == 0) {
        buffer_reserve(out, S_ISREG(status.st_mode) ? (size_t)status.st_size + 1 : 1 << 16);
        result = read_to_end(descriptor, path, limit_bytes, out, S_ISFIFO(status.st_mode));
    }
    close(descriptor);
    watchdog_done();
    if (result < 0)
        buffer_clear(out);
    return result;
}

// Each attempt starts over: after a server has come back, the file must be reopened.
static int read_all(const char *path, size_t limit_bytes, struct buffer *out, bool takes_pipes) {
    int result;
    do
        result = read_once(path, limit_bytes, out, takes_pipes);
    while (result < -1 && file_try_again(-result, path));
    return result < 0 ? -1 : 0;
}

int file_read_all(const char *path, size_t limit_bytes, struct buffer *out) {
    return read_all(path, limit_bytes, out, true);
}

int file_read_own(const char *path, size_t limit_bytes, struct buffer *out) {
    return read_all(path, limit_bytes, out, false);
}

int file_map_open(struct file_map *map, const char *path) {
    struct stat status;
    *map = (struct file_map){0};
    int descriptor = open_for_reading(path, &status);
    TRY(descriptor);
    int result = 0;
    if (!S_ISREG(status.st_mode)) {
        result = error_set("cannot map %s: it is %s, not a regular file; copy its contents to one", path,
                           file_describe_kind(status.st_mode));
    } else if (status.st_size > 0) {
        void *data;
        do
            data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        while (data == MAP_FAILED && file_try_again(errno, path));
        if (data == MAP_FAILED)
            result = error_set("cannot map the %jd bytes of %s: %s", (intmax_t)status.st_size, path, strerror(errno));
        else
            *map = (struct file_map){.data = data, .size = (size_t)status.st_size};
        if (map->data)
            file_fault_add(map->data, map->size, path);
    }
    close(descriptor);
    return result;
}

void file_map_close(struct file_map *map) {
    if (map->data)
        file_fault_remove(map->data);
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->size);
    *map = (struct file_map){0};
}

void file_map_release(const struct file_map *map, size_t begin, size_t end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    begin = (begin + page - 1) / page * page;
    end = end / page * page;
    // MADV_DONTNEED, not POSIX's advice of that name, which does nothing here. It loses nothing: the map is read-only.
    if (begin < end && end <= map->size)
        madvise((void *)(uintptr_t)(map->data + begin), end - begin, MADV_DONTNEED);
}

static int look(const char *path, struct stat *status) {
    int result;
    do
        result = stat(path, status);
    while (result < 0 && file_try_again(errno, path));
    return result;
}

bool file_exists(const char *path) {
    struct stat status;
    return look(path, &status) == 0;
}

bool file_is_folder(const char *path) {
    struct stat status;
    return look(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool file_is_regular(const char *path) {
    struct stat status;
    return look(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool file_is_empty_folder(const char *path) {
    DIR *folder = opendir(path);
    int entries = 0;
    while (folder && readdir(folder))
        entries++;
    if (folder)
        closedir(folder);
    return folder && entries <= 2;
}

int file_size(const char *path, uint64_t *size) {
    struct stat status;
    if (look(path, &status) < 0)
        return error_set("cannot find %s: %s; %s", path, strerror(errno), file_read_remedy(errno));
    *size = (uint64_t)status.st_size;
    return 0;
}

// A new folder is synced through its parent: otherwise a power cut loses it with all the synced files in it.
static int sync_parent(const char *path) {
    char *parent = file_parent(path);
    int result = file_sync_folder(parent);
    free(parent);
    return result;
}

static int make_folder(const char *path) {
    watchdog_doing("creating", path);
    if (mkdir(path, 0777) == 0)
        return sync_parent(path);
    int error = errno;
    // Some file systems answer "read-only" or "not allowed" for folders that exist.
    if (file_is_folder(path))
        return 0;
    if (error == EEXIST || error == ENOTDIR)
        return error_set("cannot create the folder %s: a file is in the way; choose another name", path);
    return error_set("cannot create the folder %s: %s; choose another path, or get write permission", path,
                     strerror(error));
}

int file_make_folders(const char *path) {
    char *prefix = memory_string(path);
    int result = 0;
    for (char *at = prefix + (prefix[0] == '/'); result == 0 && *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        result = make_folder(prefix);
        *at = '/';
    }
    if (result == 0)
        result = make_folder(path);
    watchdog_done();
    free(prefix);
    return result;
}

int file_make_parent(const char *path) {
    char *parent = file_parent(path);
    int result = file_make_folders(parent);
    free(parent);
    return result;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    watchdog_doing("removing", path);
    if (remove(path) == 0 || errno == ENOENT)
        return 0;
    return error_set("cannot remove %s: %s; remove it by hand", path, strerror(errno));
}

int file_remove_tree(const char *path) {
    struct stat status;
    if (lstat(path, &status) < 0 && errno == ENOENT)
        return 0;
    error_clear();
    // Symbolic links inside are removed, not followed.
    if (nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS) == 0)
        return 0;
    if (error_message()[0] == '\0')
        error_set("cannot remove %s: %s; remove it by hand", path, strerror(errno));
    return -1;
}

// Moves past slashes and "." parts; returns the length of the part that follows, 0 at the end.
static size_t next_part(const char **path) {
    for (;;) {
        *path += strspn(*path, "/");
        size_t length = strcspn(*path, "/");
        if (length != 1 || **path != '.')
            return length;
        *path += length;
    }
}

bool file_is_same_path(const char *a, const char *b) {
    if ((*a == '/') != (*b == '/'))
        return false;
    for (;;) {
        size_t length = next_part(&a);
        if (next_part(&b) != length || memcmp(a, b, length) != 0)
            return false;
        if (length == 0)
            return true;
        a += length;
        b += length;
    }
}

bool file_is_same(const char *a, const char *b) {
    struct stat of_a, of_b;
    return file_is_same_path(a, b) ||
           (stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_ino == of_b.st_ino && of_a.st_dev == of_b.st_dev);
}

char *file_parent(const char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    while (end > 1 && path[end - 1] == '/')
        end--;
    if (end == 0)
        return memory_string(".");
    char *parent = memory_string(path);
    parent[end] = '\0';
    return parent;
}

bool file_is_local(int descriptor) {
    static const unsigned long known[] = {0x01021994, 0xEF53, 0x58465342, 0x794C7630};  // tmpfs, ext4, XFS, overlay
    struct statfs status;
    if (fstatfs(descriptor, &status) < 0)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((unsigned long)status.f_type == known[i])
            return true;
    return false;
}

int file_free_bytes(const char *path, uint64_t *bytes) {
    struct statvfs status;
    char *at = memory_string(path);
    int result = statvfs(at, &status);
    while (result < 0 && (errno == ENOENT || errno == ENOTDIR) && strcmp(at, "/") != 0 && strcmp(at, ".") != 0) {
        char *parent = file_parent(at);
        free(at);
        at = parent;
        result = statvfs(at, &status);
    }
    if (result < 0)
        error_set("cannot read the free space at %s: %s", path, strerror(errno));
    else
        *bytes = (uint64_t)status.f_bavail * (uint64_t)status.f_frsize;
    free(at);
    return result;
}

char *file_join(const char *folder, const char *name) {
    size_t length = strlen(folder);
    bool has_slash = length == 0 || folder[length - 1] == '/';
    return memory_printf("%s%s%s", folder, has_slash ? "" : "/", name);
}

bool file_is_in(const char *folder, const char *name) {
    OWNED char *path = file_join(folder, name);
    return file_exists(path);
}
