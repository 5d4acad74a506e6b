// System calls that fail on purpose, in the program that includes this: its own open, read, stat and so on take the
// place of the C library's. While `failing.error` is set, calls are counted, and those from number `first` on, at most
// `times` of them, fail with it.
#ifndef TESTS_FAILING_CALLS_H
#define TESTS_FAILING_CALLS_H

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct failing_calls {
    int error;  // errno; 0: all calls work, and none is counted
    int first, times, count, failed;
    const char *name;  // only calls with a path that has this in it; NULL: all
} failing;

// `path` is NULL for a call that has none.
static bool call_fails(const char *path) {
    bool counts = failing.error != 0 && (!failing.name || (path && strstr(path, failing.name)));
    if (!counts || ++failing.count < failing.first || failing.failed >= failing.times)
        return false;
    failing.failed++;
    errno = failing.error;
    return true;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return call_fails(path) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    return call_fails(NULL) ? -1 : (ssize_t)syscall(SYS_read, descriptor, bytes, count);
}

int stat(const char *path, struct stat *status) {
    return call_fails(path) ? -1 : fstatat(AT_FDCWD, path, status, 0);
}

int fstat(int descriptor, struct stat *status) {
    return call_fails(NULL) ? -1 : fstatat(descriptor, "", status, AT_EMPTY_PATH);
}

void *mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
    // Memory is not what fails.
    if (descriptor >= 0 && call_fails(NULL))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, size, protection, flags, descriptor, offset);
}

DIR *opendir(const char *path) {
    DIR *(*next)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    return call_fails(path) ? NULL : next(path);
}

struct dirent *readdir(DIR *stream) {
    struct dirent *(*next)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
    return call_fails(NULL) ? NULL : next(stream);
}

#endif
