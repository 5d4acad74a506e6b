// See cache_prune.h.
#include "data/cache_prune.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/file_print.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char cache_used_name[] = "used", cache_dataset_words[] = "dataset of ";

static double modified_at(const char *folder, const char *name) {
    char *path = file_join(folder, name);
    struct stat status;
    double at = stat(path, &status) == 0 ? (double)status.st_mtim.tv_sec : -1;
    free(path);
    return at;
}

// Whether the folder is a complete dataset that has not been used for long. One that has not been used since it was
// built has only its manifest's time. Tokenizers are small, and flags may name their files: they stay.
static bool is_old(const char *folder) {
    double used = modified_at(folder, cache_used_name), built = modified_at(folder, "manifest.json");
    double last = used > built ? used : built;
    if (built < 0 || clock_wall_seconds() - last < CACHE_UNUSED_DAYS * 86400.0)
        return false;
    struct file_print_list list;
    char *path = file_join(folder, "manifest.json");
    bool is_read = file_print_list_read(&list, path) == 0;
    bool is_dataset = is_read && strncmp(list.about, cache_dataset_words, strlen(cache_dataset_words)) == 0;
    free(path);
    if (is_read)
        file_print_list_free(&list);
    error_clear();
    return is_dataset;
}

// Removes the manifest first: leftovers of a kill are then not mistaken for an entry.
static int remove_entry(const char *folder) {
    char *manifest = file_join(folder, "manifest.json");
    int status = file_remove_tree(manifest);
    free(manifest);
    return status < 0 ? -1 : file_remove_tree(folder);
}

// No other process may be building or using the entry.
static void try_remove(const char *folder) {
    struct file_lock building = {0}, using = {0};
    char *lock = memory_printf("%s.lock", folder), *used = file_join(folder, cache_used_name);
    bool is_free = file_lock_try(&building, lock) == FILE_LOCK_HELD && file_lock_try(&using, used) == FILE_LOCK_HELD;
    if (is_free && remove_entry(folder) == 0)
        log_info("removed %s, unused for %d days", folder, CACHE_UNUSED_DAYS);
    if (error_exit_code() != EXIT_CODE_OK)
        log_debug("%s", error_message());
    error_clear();
    file_lock_release(&using);
    file_lock_release(&building);
    free(lock);
    free(used);
}

// "NAME-DIGEST", as cache_entry_name makes it.
static bool is_entry_name(const char *name) {
    enum { DIGITS = 16 };
    const char *dash = strrchr(name, '-');
    return dash && dash > name && strlen(dash + 1) == DIGITS && strspn(dash + 1, "0123456789abcdef") == DIGITS;
}

void cache_prune(const char *root) {
    DIR *stream = opendir(root);
    if (!stream)
        return;
    bool is_local = file_is_local(dirfd(stream));
    for (struct dirent *item; is_local && (item = readdir(stream));) {
        if (!is_entry_name(item->d_name))
            continue;
        char *folder = file_join(root, item->d_name);
        if (is_old(folder))
            try_remove(folder);
        free(folder);
    }
    closedir(stream);
}
