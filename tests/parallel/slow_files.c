// A file system that is slow, to be preloaded: every write of more than a few bytes to a file whose path contains
// $SLOW_WRITES, every such read of one whose path contains $SLOW_READS, and every removal below a folder whose path
// contains $SLOW_REMOVALS, takes $SLOW_SECONDS longer, or until a signal comes. Where $SLOW_TIMES is set only so many
// do.
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void delay_file(int descriptor, size_t count, const char *variable) {
    char link[64], path[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = count > SMALL ? readlink(link, path, sizeof path - 1) : -1;
    if (length > 0) {
        path[length] = '\0';
        delay(path, variable);
    }
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    delay_file(descriptor, count, "SLOW_WRITES");
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

int remove(const char *path) {
    delay(path, "SLOW_REMOVALS");
    int (*next)(const char *);
    void *symbol = original("remove");
    memcpy(&next, &symbol, sizeof next);
    return next(path);
}
