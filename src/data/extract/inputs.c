// Expands the values of --input into existing files.
#include "data/extract/inputs.h"
#include "data/extract/content.h"
#include "data/extract/left_out.h"
#include "base/error.h"
#include "base/file.h"
#include "net/hub.h"
#include "base/memory.h"
#include "net/remote.h"
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// strcmp order in every locale, so that a dataset does not depend on the locale.
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

size_t inputs_stem_bytes(const char *name) {
    static const char *const compressions[] = {".gz", ".bz2", ".xz", ".zst", NULL};
    size_t length = strlen(name);
    for (const char *const *compression = compressions; *compression; compression++)
        if (ends_with(name, length, *compression))
            return length - strlen(*compression);
    return length;
}

bool inputs_are_wanted(const char *name, const char *const *endings) {
    size_t length = inputs_stem_bytes(name);
    for (; *endings; endings++)
        if (ends_with(name, length, *endings))
            return true;
    return false;
}

// The files to read in a folder or prefix, and those left out.
struct input_walk {
    struct string_list *files;
    const char *const *endings;
    struct left_out left;
};

static void take_file(struct input_walk *walk, const char *path, const char *name) {
    bool is_data = name[0] != '.' && !left_out_is_about(name) && inputs_are_wanted(name, walk->endings);
    if (is_data)
        string_list_add(walk->files, path);
    else
        left_out_add(&walk->left, path);
}

static int walk_folder(struct input_walk *walk, const char *path) {
    DIR *folder = opendir(path);
    if (!folder)
        return error_set("cannot open the folder %s: %s; check its permissions", path, strerror(errno));
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (errno = 0, entry = readdir(folder))) {
        struct stat status;
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        char *inner = file_join(path, name);
        if (name[0] != '.' && lstat(inner, &status) == 0 && S_ISDIR(status.st_mode))
            result = walk_folder(walk, inner);
        else if (name[0] == '.' || !file_is_folder(inner))
            take_file(walk, inner, name);
        free(inner);
    }
    // Otherwise unlisted files would be missing silently.
    if (result == 0 && errno != 0)
        result = error_set("cannot list all of the folder %s: %s; check the disk", path, strerror(errno));
    closedir(folder);
    return result;
}

static int expand_folder(struct string_list *files, const char *path, const char *const *endings) {
    int64_t before = files->count;
    struct input_walk walk = {.files = files, .endings = endings};
    int status = walk_folder(&walk, path);
    if (status == 0 && files->count == before)
        status = left_out_refuse(&walk.left, path, endings);
    else if (status == 0)
        left_out_say(&walk.left, path);
    left_out_free(&walk.left);
    TRY(status);
    qsort(files->items + before, (size_t)(files->count - before), sizeof *files->items, compare_names);
    return 0;
}

// ---- S3 and the web ----

// The objects below a prefix that ends with a slash.
static int add_prefix(struct string_list *files, const char *prefix, const char *const *endings) {
    struct remote_list list;
    struct input_walk walk = {.files = files, .endings = endings};
    int64_t before = files->count;
    TRY(remote_list(&list, prefix, false));
    for (size_t i = 0; i < list.count; i++) {
        const char *url = list.objects[i].url, *name = url + strlen(prefix), *slash = strrchr(name, '/');
        name = strstr(name, "/.") ? "" : slash ? slash + 1 : name;
        if (*name)
            take_file(&walk, url, name);
    }
    if (files->count > before)
        left_out_say(&walk.left, prefix);
    left_out_free(&walk.left);
    remote_list_free(&list);
    return 0;
}

static int expand_prefix(struct string_list *files, const char *prefix, const char *const *endings) {
    int64_t before = files->count;
    if (!endings)
        return error_set("%s is a prefix of many objects; name them, e.g. '%s*.jsonl'", prefix, prefix);
    TRY(add_prefix(files, prefix, endings));
    if (files->count == before)
        return error_set("there are no %s objects (or .gz, .bz2, .xz, .zst of them) below %s; check the prefix, or "
                         "give a pattern, e.g. '%s*'",
                         endings[0], prefix, prefix);
    return 0;
}

static int expand_objects(struct string_list *files, const char *pattern) {
    struct remote_list list;
    TRY(remote_glob(&list, pattern));
    for (size_t i = 0; i < list.count; i++)
        string_list_add(files, list.objects[i].url);
    remote_list_free(&list);
    return 0;
}

// One object or web file. If there is no object of that name, it may be a folder, as on disk.
static int expand_object(struct string_list *files, const char *name, const char *const *endings) {
    struct remote_object object;
    char *shown = url_is_s3(name) ? memory_string(name) : remote_hide(name);
    int64_t before = files->count;
    int status = remote_find(&object, shown);
    remote_object_free(&object);
    if (status > 0) {
        string_list_add(files, shown);
    } else if (status == 0) {
        char *folder = url_join(name, "");
        status = url_is_s3(name) && endings ? add_prefix(files, folder, endings) : 0;
        if (status == 0 && files->count == before)
            status =
                error_set("cannot open %s: no such %s; check the address", shown, url_is_s3(name) ? "object" : "file");
        free(folder);
    }
    free(shown);
    return status < 0 ? -1 : 0;
}

static int expand_remote(struct string_list *files, const char *name, const char *const *endings) {
    size_t length = strlen(name);
    bool is_bucket = url_is_s3(name) && !strchr(name + strlen("s3://"), '/');
    TRY(content_check_name(name));
    if (url_is_s3(name) && strpbrk(name, "*?["))
        return expand_objects(files, name);
    if (is_bucket) {
        char *folder = url_join(name, "");
        int status = expand_prefix(files, folder, endings);
        free(folder);
        return status;
    }
    if (url_is_s3(name) && name[length - 1] == '/')
        return expand_prefix(files, name, endings);
    return expand_object(files, name, endings);
}

int inputs_expand_folders(struct string_list *files, const struct string_list *names, const char *const *endings) {
    for (int64_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        if (url_is_remote(name))
            TRY(expand_remote(files, name, endings));
        else if (strcmp(name, "-") == 0 || (file_exists(name) && !file_is_folder(name)))
            string_list_add(files, name);
        else if (file_is_folder(name) && !endings)
            return error_set("%s is a folder; name the files in it, e.g. '%s/*.jsonl'", name, name);
        else if (file_is_folder(name))
            TRY(expand_folder(files, name, endings));
        else if (content_check_name(name) < 0)
            return -1;
        else if (strpbrk(name, "*?["))
            TRY(expand_pattern(files, name));
        else
            return error_set("cannot open %s: no such file; check the path", name), hub_suggest(name, HUB_DATASET);
    }
    if (files->count == 0)
        return error_set("no input files");
    return 0;
}

int inputs_expand(struct string_list *files, const struct string_list *names) {
    return inputs_expand_folders(files, names, NULL);
}

// 0 if unknown, without an error: the object is opened soon anyway.
static uint64_t remote_bytes(const char *url) {
    struct remote_object object;
    bool is_known = remote_find(&object, url) > 0 && object.size != UINT64_MAX;
    uint64_t size = is_known ? object.size : 0;
    remote_object_free(&object);
    error_clear();
    return size;
}

uint64_t inputs_bytes(const struct string_list *files) {
    uint64_t total = 0;
    for (int64_t i = 0; i < files->count; i++) {
        struct stat status;
        if (url_is_remote(files->items[i])) {
            uint64_t size = remote_bytes(files->items[i]);
            if (size == 0)
                return 0;
            total += size;
            continue;
        }
        if (strcmp(files->items[i], "-") == 0 || stat(files->items[i], &status) < 0 || !S_ISREG(status.st_mode))
            return 0;
        total += (uint64_t)status.st_size;
    }
    return total;
}
