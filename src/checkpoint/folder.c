// The folder of --save: who is in it, which is the latest, and changes to it that a kill at any moment cannot spoil.
// The rule behind all of it: a name iter_NNNNNNN only ever stands for a whole checkpoint; work in progress and work
// being undone carry ".tmp." in their names.
#include "checkpoint/folder.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/looks.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = "iter_";
static const char marker_name[] = "latest_checkpointed_iteration.txt";
static const char temporary_mark[] = ".tmp.";
// What stood in the way of a new folder. The second ".tmp." is that of file_temporary_name, and tells such a name from
// the temporary one of a host called "old".
static const char aside_suffix[] = ".tmp.old";
static const char aside_mark[] = ".tmp.old.tmp.";

// Digits of a non-negative number that fits; *end is the first other character. -1 if there are none or too many.
static int64_t parse_digits(const char *text, const char **end) {
    int64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > (INT64_MAX - 9) / 10)
            return -1;
        value = value * 10 + (*at - '0');
    }
    *end = at;
    return at > text ? value : -1;
}

// The iteration a name begins with; *rest is what follows its digits.
static int64_t parse_name(const char *name, const char **rest) {
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return -1;
    const char *digits = name + sizeof prefix - 1;
    int64_t iteration = parse_digits(digits, rest);
    // One spelling for one iteration: seven digits, more only if needed.
    if (iteration < 0 || *rest - digits < 7 || (*rest - digits > 7 && digits[0] == '0'))
        return -1;
    return iteration;
}

int64_t folder_iteration(const char *name) {
    const char *rest = "";
    int64_t iteration = parse_name(name, &rest);
    return *rest == '\0' ? iteration : -1;
}

char *checkpoint_path(const char *folder, int64_t iteration) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s%07" PRId64, prefix, iteration);
    return file_join(folder, name);
}

static int compare_iterations(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int folder_list_read(struct folder_list *list, const char *folder) {
    *list = (struct folder_list){0};
    DIR *stream = opendir(folder);
    if (!stream)
        return error_set("cannot list the folder %s: %s; %s", folder, strerror(errno), looks_remedy(errno));
    size_t capacity = 0;
    const struct dirent *entry;
    while ((entry = readdir(stream))) {
        int64_t iteration = folder_iteration(entry->d_name);
        if (iteration < 0)
            continue;
        char *path = file_join(folder, entry->d_name);
        bool is_folder = file_is_folder(path);
        free(path);
        if (!is_folder)
            continue;
        if (list->count == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            list->iterations = memory_realloc(list->iterations, capacity * sizeof list->iterations[0]);
        }
        list->iterations[list->count++] = iteration;
    }
    closedir(stream);
    if (list->count > 0)
        qsort(list->iterations, list->count, sizeof list->iterations[0], compare_iterations);
    return 0;
}

void folder_list_free(struct folder_list *list) {
    free(list->iterations);
    *list = (struct folder_list){0};
}

bool folder_marker_exists(const char *folder) {
    char *path = file_join(folder, marker_name);
    bool exists = file_exists(path);
    free(path);
    return exists;
}

int folder_marker_read(const char *folder, int64_t *iteration) {
    if (!folder_marker_exists(folder))
        return 0;
    char *path = file_join(folder, marker_name);
    struct buffer text = {0};
    int result = file_read_all(path, 64, &text);
    if (result == 0) {
        const char *end = "";
        int64_t value = parse_digits(buffer_string(&text), &end);
        // People write this file with echo, so a line end after the number is fine.
        size_t blanks = strspn(end, " \r\n");
        if (value < 0 || (size_t)(end - text.data) + blanks != text.length)
            result = error_set("%s does not hold an iteration number", path);
        else
            *iteration = value;
    }
    buffer_free(&text);
    free(path);
    return result < 0 ? -1 : 1;
}

int folder_marker_write(const char *folder, int64_t iteration) {
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRId64, iteration);
    char *path = file_join(folder, marker_name);
    int result = file_write_all(path, text, (size_t)length);
    free(path);
    return result;
}

static bool is_temporary(const char *name) {
    const char *rest = "";
    if (parse_name(name, &rest) >= 0)
        return strncmp(rest, temporary_mark, sizeof temporary_mark - 1) == 0;
    size_t length = sizeof marker_name - 1;
    return strncmp(name, marker_name, length) == 0 &&
           strncmp(name + length, temporary_mark, sizeof temporary_mark - 1) == 0;
}

void folder_restore(const char *folder) {
    DIR *stream = opendir(folder);
    if (!stream)
        return;
    const struct dirent *entry;
    while ((entry = readdir(stream))) {
        const char *rest = "";
        int64_t iteration = parse_name(entry->d_name, &rest);
        if (iteration < 0 || strncmp(rest, aside_mark, sizeof aside_mark - 1) != 0)
            continue;
        char *from = file_join(folder, entry->d_name), *to = checkpoint_path(folder, iteration);
        // Several ranks may try at once; one succeeds. A folder that cannot be written to is only read from.
        if (!file_exists(to) && rename(from, to) == 0)
            log_warn("put %s back, which an interrupted save had moved aside", to);
        free(from);
        free(to);
    }
    closedir(stream);
}

int folder_remove_leftovers(const char *folder) {
    DIR *stream = opendir(folder);
    if (!stream)
        return error_set("cannot list the folder %s: %s; %s", folder, strerror(errno), looks_remedy(errno));
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(stream))) {
        if (!is_temporary(entry->d_name))
            continue;
        char *path = file_join(folder, entry->d_name);
        // This process has nothing under way here; another one on a shared file system may have.
        if (file_temporary_owner(path) != FILE_TEMPORARY_LIVE) {
            log_info("removing %s, which an interrupted save left", path);
            result = file_remove_tree(path);
        }
        free(path);
    }
    closedir(stream);
    return result;
}

// A temporary name that folder_restore knows: TO.tmp.old.tmp.HOST.PID.RANDOM.
static char *aside_name(const char *to) {
    char *old = memory_printf("%s%s", to, aside_suffix), *name = file_temporary_name(old);
    free(old);
    return name;
}

// For file systems without exchange: two renames, undone if the second fails.
static int replace_in_two(const char *from, const char *to) {
    char *aside = aside_name(to);
    int result = file_rename(to, aside);
    if (result == 0) {
        result = file_rename(from, to);
        if (result < 0 && rename(aside, to) == 0)
            error_context("the earlier folder was put back");
    }
    if (result == 0 && file_remove_tree(aside) < 0)
        log_warn("%s", error_message());
    free(aside);
    return result;
}

int folder_replace(const char *from, const char *to) {
    if (!file_exists(to))
        return file_rename(from, to);
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) < 0) {
        if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP)
            return replace_in_two(from, to);
        return error_set("cannot put %s in the place of %s: %s", from, to, strerror(errno));
    }
    char *parent = file_parent(to);
    int result = file_sync_folder(parent);
    free(parent);
    // The new folder stands; that the old one cannot be removed is no reason to call the save failed.
    if (result == 0 && file_remove_tree(from) < 0)
        log_warn("%s", error_message());
    return result;
}

int folder_discard(const char *path) {
    char *aside = file_temporary_name(path);
    int result = file_rename(path, aside);
    if (result == 0)
        result = file_remove_tree(aside);
    free(aside);
    return result;
}
