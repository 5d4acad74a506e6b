// Removes what killed processes left of a file: names PATH.tmp.HOST.PID.RANDOM whose process is gone. Only names that
// are exactly of this form are touched, since "PATH.tmp.old" may be somebody's copy.
#include "base/file.h"

#include "base/memory.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool is_temporary_of(const char *name, const char *target) {
    static const char mark[] = ".tmp.";
    size_t length = strlen(target);
    if (strncmp(name, target, length) != 0 || strncmp(name + length, mark, sizeof mark - 1) != 0)
        return false;
    const char *host = name + length + sizeof mark - 1, *process = host + strspn(host, LETTERS DIGITS "-");
    if (process == host || *process++ != '.')
        return false;
    const char *random = process + strspn(process, DIGITS);
    if (random == process || *random++ != '.')
        return false;
    return strlen(random) == 8 && strspn(random, DIGITS "abcdef") == 8;
}

void file_sweep(const char *path) {
    const char *slash = strrchr(path, '/'), *target = slash ? slash + 1 : path;
    char *parent = file_parent(path);
    DIR *folder = opendir(parent);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (!is_temporary_of(entry->d_name, target))
            continue;
        char *leftover = file_join(parent, entry->d_name);
        if (file_temporary_owner(leftover) == FILE_TEMPORARY_DEAD)
            unlink(leftover);
        free(leftover);
    }
    if (folder)
        closedir(folder);
    free(parent);
}
