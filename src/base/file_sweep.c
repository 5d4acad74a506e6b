// Removes what killed processes left of a file or folder: names PATH.tmp.HOST.PID.RANDOM whose process is gone, and
// those of files that were to become such a one.
#include "base/file.h"

#include "base/error.h"
#include "base/memory.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_temporary_of(const char *name, const char *target) {
    size_t length = strlen(target), stem = file_temporary_stem(name);
    if (stem <= length)
        return stem == length && strncmp(name, target, length) == 0;
    char *inner = memory_printf("%.*s", (int)stem, name);
    bool is = is_temporary_of(inner, target);
    free(inner);
    return is;
}

// A folder that has a temporary name itself is new and removed as a whole. Thousands of ranks may write to it, and must
// not all read the names of all others' files.
static bool is_new(const char *folder) {
    const char *slash = strrchr(folder, '/');
    return file_temporary_stem(slash ? slash + 1 : folder) > 0;
}

void file_sweep(const char *path) {
    const char *slash = strrchr(path, '/'), *target = slash ? slash + 1 : path;
    char *parent = file_parent(path);
    DIR *folder = is_new(parent) ? NULL : opendir(parent);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (!is_temporary_of(entry->d_name, target))
            continue;
        char *leftover = file_join(parent, entry->d_name);
        struct error_note *note = error_take();
        if (file_temporary_owner(leftover) == FILE_TEMPORARY_DEAD && file_remove_tree(leftover) < 0)
            error_clear();
        if (note)
            (void)error_give(note);
        free(leftover);
    }
    if (folder)
        closedir(folder);
    free(parent);
}
