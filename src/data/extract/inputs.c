// Expands what stands after --input into files that exist.
#include "data/extract/inputs.h"
#include "data/extract/content.h"
#include "base/error.h"
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// strcmp order, whatever the locale, so that a dataset does not depend on it.
static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int expand_pattern(struct string_list *files, const char *pattern) {
    glob_t found;
    int status = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (status != 0) {
        globfree(&found);
        return error_set("no file matches %s; check the path", pattern);
    }
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_names);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!file_is_folder(found.gl_pathv[i]))
            string_list_add(files, found.gl_pathv[i]);
    globfree(&found);
    return 0;
}

// ---- folders ----

static bool ends_with(const char *name, size_t length, const char *ending) {
    size_t bytes = strlen(ending);
    return length > bytes && memcmp(name + length - bytes, ending, bytes) == 0;
}

static bool is_wanted(const char *name, const char *const *endings) {
    static const char *const compressions[] = {".gz", ".bz2", ".xz", ".zst", NULL};
    size_t length = strlen(name);
    for (const char *const *compression = compressions; *compression; compression++)
        if (ends_with(name, length, *compression)) {
            length -= strlen(*compression);
            break;
        }
    for (; *endings; endings++)
        if (ends_with(name, length, *endings))
            return true;
    return false;
}

static int walk_folder(struct string_list *files, const char *path, const char *const *endings) {
    DIR *folder = opendir(path);
    if (!folder)
        return error_set("cannot open the folder %s: %s; check its permissions", path, strerror(errno));
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(folder))) {
        struct stat status;
        if (entry->d_name[0] == '.')
            continue;
        char *inner = file_join(path, entry->d_name);
        if (lstat(inner, &status) == 0 && S_ISDIR(status.st_mode))
            result = walk_folder(files, inner, endings);
        else if (!file_is_folder(inner) && is_wanted(entry->d_name, endings))
            string_list_add(files, inner);
        free(inner);
    }
    closedir(folder);
    return result;
}

static int expand_folder(struct string_list *files, const char *path, const char *const *endings) {
    int64_t before = files->count;
    TRY(walk_folder(files, path, endings));
    if (files->count == before)
        return error_set("%s is a folder without files that end in %s (or that and .gz, .bz2, .xz, .zst); name the "
                         "files, for instance '%s/*'",
                         path, endings[0], path);
    qsort(files->items + before, (size_t)(files->count - before), sizeof *files->items, compare_names);
    return 0;
}

int inputs_expand_folders(struct string_list *files, const struct string_list *names, const char *const *endings) {
    for (int64_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        if (strcmp(name, "-") == 0 || (file_exists(name) && !file_is_folder(name)))
            string_list_add(files, name);
        else if (file_is_folder(name) && !endings)
            return error_set("%s is a folder; name the files in it, for instance '%s/*.jsonl'", name, name);
        else if (file_is_folder(name))
            TRY(expand_folder(files, name, endings));
        else if (content_check_name(name) < 0)
            return -1;
        else if (strpbrk(name, "*?["))
            TRY(expand_pattern(files, name));
        else
            return error_set("cannot open %s: no such file; check the path", name);
    }
    if (files->count == 0)
        return error_set("no input files");
    return 0;
}

int inputs_expand(struct string_list *files, const struct string_list *names) {
    return inputs_expand_folders(files, names, NULL);
}

uint64_t inputs_bytes(const struct string_list *files) {
    uint64_t total = 0;
    for (int64_t i = 0; i < files->count; i++) {
        struct stat status;
        if (strcmp(files->items[i], "-") == 0 || stat(files->items[i], &status) < 0 || !S_ISREG(status.st_mode))
            return 0;
        total += (uint64_t)status.st_size;
    }
    return total;
}
