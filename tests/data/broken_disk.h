// A failing disk: this fsync replaces the C library's and fails on request.
#ifndef TESTS_DATA_BROKEN_DISK_H
#define TESTS_DATA_BROKEN_DISK_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int syncs_until_failure;  // 1: the next one fails; 0: none does
static bool break_folders;       // count the syncs of folders, not of files

int fsync(int descriptor);
int fsync(int descriptor) {
    struct stat status;
    bool is_counted = fstat(descriptor, &status) == 0 && (S_ISDIR(status.st_mode) != 0) == break_folders;
    if (is_counted && syncs_until_failure > 0 && --syncs_until_failure == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, descriptor);
}

#endif
