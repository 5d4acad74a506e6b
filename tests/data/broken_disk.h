// A disk that breaks: this fsync stands in front of the C library's and fails when it is told to.
#ifndef TESTS_DATA_BROKEN_DISK_H
#define TESTS_DATA_BROKEN_DISK_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int syncs_until_failure;  // 1: the next one fails; 0: none does
static bool break_folders;       // the syncs of folders count, not those of files

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
