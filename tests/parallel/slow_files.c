// A slow or broken file system, to be preloaded: every write of more than a few bytes to a file whose path contains
// $SLOW_WRITES, every such read of one whose path contains $SLOW_READS, every fsync of one whose path contains
// $SLOW_SYNCS, and every removal below a folder whose path contains $SLOW_REMOVALS, takes $SLOW_SECONDS longer, or
// until a signal arrives. If $SLOW_TIMES is set, only that many do. While a file $BROKEN_WHILE exists, there is no
// space for writes to files whose path contains $BROKEN_WRITES, and folders of such a path have none; that file itself
// can be written.
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { SMALL = 16 };

static void *original(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

static void delay(const char *path, const char *variable) {
    static atomic_int count;
    const char *wanted = getenv(variable), *seconds = getenv("SLOW_SECONDS"), *times = getenv("SLOW_TIMES");
    if (!wanted || !seconds || !strstr(path, wanted) ||
        (times && atomic_fetch_add(&count, 1) >= strtol(times, NULL, 10)))
        return;
    double time = strtod(seconds, NULL);
    struct timespec rest = {.tv_sec = (time_t)time, .tv_nsec = (long)((time - (double)(time_t)time) * 1e9)};
    (void)nanosleep(&rest, NULL);
}

static const char *path_of(int descriptor, char path[4096]) {
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, 4095);
    path[length > 0 ? length : 0] = '\0';
    return path;
}

static void delay_file(int descriptor, size_t count, const char *variable) {
    char path[4096];
    if (count > SMALL)
        delay(path_of(descriptor, path), variable);
}

static int is_broken_path(const char *path) {
    const char *wanted = getenv("BROKEN_WRITES"), *cause = getenv("BROKEN_WHILE");
    return wanted && cause && strstr(path, wanted) && strcmp(path, cause) != 0 && access(cause, F_OK) == 0;
}

static int is_broken(int descriptor) {
    char path[4096];
    return is_broken_path(path_of(descriptor, path));
}

int statvfs(const char *restrict path, struct statvfs *restrict status) {
    int (*next)(const char *, struct statvfs *);
    void *symbol = original("statvfs");
    memcpy(&next, &symbol, sizeof next);
    int result = next(path, status);
    if (result == 0 && is_broken_path(path))
        status->f_bavail = status->f_bfree = 0;
    return result;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    delay_file(descriptor, count, "SLOW_WRITES");
    if (is_broken(descriptor)) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t (*next)(int, const void *, size_t);
    void *symbol = original("write");
    memcpy(&next, &symbol, sizeof next);
    return next(descriptor, bytes, count);
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    if (getenv("SLOW_READS"))
        delay_file(descriptor, count, "SLOW_READS");
    ssize_t (*next)(int, void *, size_t);
    void *symbol = original("read");
    memcpy(&next, &symbol, sizeof next);
    return next(descriptor, bytes, count);
}

int fsync(int descriptor) {
    delay_file(descriptor, SMALL + 1, "SLOW_SYNCS");
    int (*next)(int);
    void *symbol = original("fsync");
    memcpy(&next, &symbol, sizeof next);
    return next(descriptor);
}

int remove(const char *path) {
    delay(path, "SLOW_REMOVALS");
    int (*next)(const char *);
    void *symbol = original("remove");
    memcpy(&next, &symbol, sizeof next);
    return next(path);
}
