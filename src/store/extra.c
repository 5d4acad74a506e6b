// Files that belong to a checkpoint: the tokenizer's, without which a model is useless. See struct checkpoint_file.
#include "store/extra.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/hash.h"
#include "base/memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void checkpoint_file_list_add(struct checkpoint_file_list *list, const char *role, const char *path) {
    list->items = memory_realloc(list->items, (list->count + 1) * sizeof list->items[0]);
    list->items[list->count++] = (struct checkpoint_file){memory_string(role), memory_string(path), NULL};
}

void checkpoint_file_list_free(struct checkpoint_file_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].role);
        free(list->items[i].path);
    }
    free(list->items);
    *list = (struct checkpoint_file_list){0};
}

const char *checkpoint_file_find(const struct checkpoint_file_list *list, const char *role) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].role, role) == 0)
            return list->items[i].path;
    return NULL;
}

int checkpoint_file_list_read(struct checkpoint_file_list *list, const char *path) {
    *list = (struct checkpoint_file_list){0};
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    struct file_patience patience = {0};
    TRY(manifest_read(&manifest, path));
    file_patience_begin(&patience);
    int result = 0;
    for (size_t i = 0; i < manifest.count && result == 0; i++) {
        const char *name = manifest.files[i].name, *end = strchr(name, '_');
        if (strcmp(manifest.files[i].holds, "file") != 0 || !end)
            continue;
        OWNED char *role = memory_printf("%.*s", (int)(end - name), name), *full = file_join(path, name);
        checkpoint_file_list_add(list, role, full);
        if (file_exists(full) && !extra_is_inside(path, full))
            result = error_set("%s is a link that leads out of the checkpoint; copy the file there", full);
    }
    // A file that could not be examined may not be a link at all.
    if (file_doubt() < 0)
        result = -1;
    file_patience_end(&patience);
    if (result < 0)
        checkpoint_file_list_free(list);
    return result;
}

void checkpoint_file_list_drop(struct checkpoint_file_list *list, const char *role) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct checkpoint_file *file = &list->items[i];
        if (strcmp(file->role, role) != 0) {
            list->items[kept++] = *file;
            continue;
        }
        free(file->role);
        free(file->path);
    }
    list->count = kept;
}

int extra_write_bytes(const char *to, const void *data, size_t size, char sha256[65]) {
    TRY(file_write_all(to, data, size));
    if (sha256) {
        struct sha256 hash;
        unsigned char digest[32];
        sha256_init(&hash);
        sha256_update(&hash, data, size);
        sha256_final(&hash, digest);
        sha256_hex(digest, sha256);
    }
    return 0;
}

int extra_copy(const char *from, const char *to, uint64_t *bytes, char sha256[65]) {
    OWNED_BY(file_map_close) struct file_map map = {0};
    TRY(file_map_open(&map, from));
    *bytes = map.size;
    return extra_write_bytes(to, map.data, map.size, sha256);
}

int extra_check(const struct checkpoint_file_list *files) {
    struct file_map map;
    for (size_t i = 0; i < files->count; i++) {
        if (files->items[i].held)
            continue;
        if (file_map_open(&map, files->items[i].path) < 0)
            return error_context("cannot save a checkpoint");
        file_map_close(&map);
    }
    return 0;
}

static bool begins_in(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || strcmp(folder, "/") == 0);
}

// MODEL/blobs if the folder is MODEL/snapshots/REVISION; else NULL.
static char *blobs_of(const char *folder) {
    static const char snapshots[] = "/snapshots";
    OWNED char *parent = file_parent(folder);
    size_t length = strlen(parent), tail = sizeof snapshots - 1;
    bool is_snapshot = length > tail && strcmp(parent + length - tail, snapshots) == 0;
    char *blobs = is_snapshot ? memory_printf("%.*s/blobs", (int)(length - tail), parent) : NULL;
    return blobs;
}

// NULL if it cannot be resolved.
static char *resolve(const char *path) {
    char *full;
    do
        full = realpath(path, NULL);
    while (!full && file_try_again(errno, path));
    return full;
}

bool extra_is_inside(const char *folder, const char *path) {
    OWNED char *root = resolve(folder), *file = resolve(path), *blobs = root ? blobs_of(root) : NULL;
    return root && file && (begins_in(file, root) || (blobs && begins_in(file, blobs)));
}

int extra_check_inside(const char *folder, const char *path) {
    struct stat status;
    if (stat(path, &status) < 0)
        return error_set("cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set("%s is %s, not a regular file; replace it by one", path, file_describe_kind(status.st_mode));
    if (!extra_is_inside(folder, path))
        return error_set("%s is a link that leads out of the folder, and would be copied; if it is to be, put the file "
                         "itself there",
                         path);
    return 0;
}

const char *extra_name(const struct checkpoint_file *file) {
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    size_t length = strlen(file->role);
    return strncmp(name, file->role, length) == 0 && name[length] == '_' ? name + length + 1 : name;
}

int extra_write(const struct checkpoint_file_list *files, const char *folder, struct manifest *manifest) {
    int result = 0;
    for (size_t i = 0; i < files->count && result == 0; i++) {
        struct manifest_file file = {.holds = memory_string("file")};
        file.name = memory_printf("%s_%s", files->items[i].role, extra_name(&files->items[i]));
        OWNED char *to = file_join(folder, file.name);
        const struct buffer *held = files->items[i].held;
        file.bytes = held ? held->length : 0;
        result = held ? extra_write_bytes(to, buffer_string(held), held->length, file.sha256)
                      : extra_copy(files->items[i].path, to, &file.bytes, file.sha256);
        manifest_add(manifest, file);
    }
    return result;
}
