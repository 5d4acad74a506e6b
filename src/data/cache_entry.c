// Entries of a cache. See text_cache.h.
#include "data/text_cache.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/file_print.h"
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const double NAP_SECONDS = 0.2;
// The second is what users of an entry lock (file_lock_keep).
static const char manifest_name[] = "manifest.json", used_name[] = "used";
enum { UNUSED_DAYS = 30, DIGITS = 16 };
const char cache_dataset_words[] = "dataset of ";

char *cache_entry_name(const char *name, const char *description) {
    enum { SHOWN = 48 };
    unsigned char digest[32];
    char hex[65], shown[SHOWN + 1] = "";
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, description, strlen(description));
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
    for (size_t i = 0; i < SHOWN && name[i]; i++)
        shown[i] = isalnum((unsigned char)name[i]) || strchr("._-", name[i]) ? name[i] : '_';
    return memory_printf("%s-%.*s", shown, DIGITS, hex);
}

// ---- finding ----

// The entry's folder, or that of an entry with the same digest, built when its source had another name. NULL if there
// is none. To be freed.
static char *find_folder(const char *root, const char *name) {
    char *path = file_join(root, name);
    if (file_exists(path))
        return path;
    free(path);
    const char *digest = strrchr(name, '-');
    DIR *stream = digest ? opendir(root) : NULL;
    path = NULL;
    for (struct dirent *item; stream && !path && (item = readdir(stream));) {
        const char *other = strrchr(item->d_name, '-');
        if (other && strcmp(other, digest) == 0)
            path = file_join(root, item->d_name);
    }
    if (stream)
        closedir(stream);
    return path;
}

// The entry is not removed while this process lives. If it cannot be locked, it is used without a lock.
static bool keep(const char *folder) {
    char *path = file_join(folder, used_name);
    int result = file_lock_keep(path);
    error_clear();
    free(path);
    return result != FILE_LOCK_TAKEN;
}

// Whether the manifest is this entry's and every file is unchanged: 1, 0, or -1 after a signal.
static int is_whole(const struct cache_entry *entry, const char *folder, bool warns) {
    struct file_print_list list;
    char *path = file_join(folder, manifest_name);
    int whole = file_exists(path) && file_print_list_read(&list, path) == 0;
    free(path);
    if (!whole) {
        error_clear();
        return 0;
    }
    whole = strcmp(list.about, entry->description) == 0;
    for (int64_t i = 0; whole == 1 && i < list.count; i++) {
        path = file_join(folder, list.items[i].path);
        whole = file_print_check(&list.items[i], path);
        free(path);
    }
    if (whole == 0 && warns)
        log_warn("%s was changed or damaged since it was written; rebuilding it", folder);
    file_print_list_free(&list);
    return whole;
}

// ---- building ----

static int check_root(const char *root) {
    TRY(file_make_folders(root));
    struct file_writer trial;
    char *path = file_join(root, "trial");
    int status = file_create(&trial, path);
    free(path);
    if (status == 0)
        file_abort(&trial);
    return status;
}

int cache_entry_choose_root(char **root, const struct string_list *roots) {
    *root = NULL;
    if (roots->count == 0)
        return error_set("no folder for the cache of tokenized text: neither XDG_CACHE_HOME nor HOME is set; "
                         "give a folder with --data-cache-path");
    for (int64_t i = 0; i < roots->count; i++) {
        if (check_root(roots->items[i]) == 0) {
            *root = memory_string(roots->items[i]);
            error_clear();
            return 0;
        }
        if (error_exit_code() == EXIT_CODE_STOPPED)
            return -1;
    }
    return error_context("no folder for the cache of tokenized text; give a writable folder with "
                         "--data-cache-path");
}

static int take_lock(struct file_lock *lock, const char *path, const char *doing) {
    bool is_told = false;
    for (;;) {
        int result = file_lock_try(lock, path);
        TRY(result);
        if (result != FILE_LOCK_TAKEN)
            return 0;
        struct file_lock_holder holder;
        file_lock_holder(&holder, path);
        if (!is_told && holder.host[0])
            log_info("waiting for process %ld on %s, which is %s", holder.process, holder.host, doing);
        is_told = is_told || holder.host[0];
        TRY(interrupt_check());
        clock_sleep(NAP_SECONDS);
    }
}

static int write_manifest(const struct cache_entry *entry, const char *folder) {
    struct file_print_list list = {.about = memory_string(entry->description)};
    int64_t count = 0;
    while (entry->files[count])
        count++;
    list.items = memory_alloc(((size_t)count + 1) * sizeof *list.items);
    int status = 0;
    for (; status == 0 && list.count < count; list.count += status == 0) {
        char *path = file_join(folder, entry->files[list.count]);
        status = file_print_take(&list.items[list.count], path, entry->files[list.count]);
        free(path);
    }
    char *path = file_join(folder, manifest_name);
    if (status == 0)
        status = file_print_list_write(&list, path);
    free(path);
    file_print_list_free(&list);
    return status;
}

// Comes first when an entry is built or removed: leftovers of a kill are then not mistaken for an entry.
static int remove_manifest(const char *folder) {
    char *path = file_join(folder, manifest_name);
    int status = file_remove_tree(path);
    free(path);
    return status;
}

static int build(const struct cache_entry *entry, const char *folder) {
    TRY(file_make_folders(folder));
    TRY(remove_manifest(folder));
    int status = entry->build(entry->context, folder);
    if (status == 0)
        status = write_manifest(entry, folder);
    enum exit_code code = error_exit_code();
    if (status < 0 && code == EXIT_CODE_ERROR)
        error_context("cannot write the cache in %s (--data-cache-path chooses another folder)", folder);
    return status;
}

static int build_alone(const struct cache_entry *entry, const char *folder) {
    char *path = memory_printf("%s.lock", folder);
    struct file_lock lock = {0};
    int status = take_lock(&lock, path, entry->doing);
    free(path);
    TRY(status);
    // Another process may have built it meanwhile.
    status = is_whole(entry, folder, false);
    if (status == 0)
        status = build(entry, folder);
    if (status >= 0)
        (void)keep(folder);
    file_lock_release(&lock);
    return status < 0 ? -1 : 0;
}

static int find_whole(char **folder, const struct cache_entry *entry) {
    int whole = 0;
    for (int64_t i = 0; whole == 0 && i < entry->roots->count; i++) {
        char *path = find_folder(entry->roots->items[i], entry->name);
        if (path && keep(path))
            whole = is_whole(entry, path, true);
        if (whole == 1)
            *folder = path;
        else
            free(path);
    }
    return whole;
}

// ---- removing ----

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
    double used = modified_at(folder, used_name), built = modified_at(folder, manifest_name);
    double last = used > built ? used : built;
    if (built < 0 || clock_wall_seconds() - last < UNUSED_DAYS * 86400.0)
        return false;
    struct file_print_list list;
    char *path = file_join(folder, manifest_name);
    bool is_read = file_print_list_read(&list, path) == 0;
    bool is_dataset = is_read && strncmp(list.about, cache_dataset_words, strlen(cache_dataset_words)) == 0;
    free(path);
    if (is_read)
        file_print_list_free(&list);
    error_clear();
    return is_dataset;
}

// No other process may be building or using the entry.
static void try_remove(const char *folder) {
    struct file_lock building = {0}, using = {0};
    char *lock = memory_printf("%s.lock", folder), *used = file_join(folder, used_name);
    bool is_free = file_lock_try(&building, lock) == FILE_LOCK_HELD && file_lock_try(&using, used) == FILE_LOCK_HELD;
    if (is_free && remove_manifest(folder) == 0 && file_remove_tree(folder) == 0)
        log_info("removed %s, unused for %d days", folder, UNUSED_DAYS);
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
    const char *dash = strrchr(name, '-');
    return dash && dash > name && strlen(dash + 1) == DIGITS && strspn(dash + 1, "0123456789abcdef") == DIGITS;
}

// Removes datasets of that folder that were last used UNUSED_DAYS ago. An entry that a process has open is never
// removed: the process holds a shared lock on a file in it, and removing takes an exclusive one. Locks may not reach
// other machines, so nothing is removed from file systems that machines share. Failures are left for the next time.
static void prune(const char *root) {
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

int cache_entry_open(char **folder, const struct cache_entry *entry) {
    *folder = NULL;
    int whole = find_whole(folder, entry);
    TRY(whole);
    if (whole == 0) {
        char *root;
        TRY(cache_entry_choose_root(&root, entry->roots));
        *folder = file_join(root, entry->name);
        free(root);
        if (build_alone(entry, *folder) < 0) {
            free(*folder);
            *folder = NULL;
            return -1;
        }
    }
    char *root = file_parent(*folder);
    prune(root);
    free(root);
    return 0;
}
