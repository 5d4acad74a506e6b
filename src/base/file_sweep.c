// Removes temporary files of a file or folder left by killed processes: names PATH.tmp.HOST.PID.RANDOM whose process is
// gone, and temporary names of such names.
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

// A folder with a temporary name is new and is removed as a whole. Thousands of ranks may write to it, and must not all
// list the files of all others.
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
