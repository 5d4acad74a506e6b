// The manifest as JSON. Everything in it is checked on reading, so that one flipped bit anywhere makes either the
// manifest or the comparison with the files fail.
#include "store/manifest.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/words.h"
#include "store/folder.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "manifest.json";
static const char format_name[] = "bevatron-checkpoint";

// Bounds the cost of a hostile manifest; a checkpoint has at most two files per rank.
enum { MAX_FILES = 1 << 18 };

// The digits of a running sum, and of the hash of a name.
enum { SUM_DIGITS = 12 };

void manifest_add(struct manifest *manifest, struct manifest_file file) {
    // The capacity is the next power of two: thousands of ranks make thousands of files.
    size_t count = manifest->count;
    if ((count & (count - 1)) == 0)
        manifest->files = memory_realloc(manifest->files, (count > 0 ? 2 * count : 1) * sizeof manifest->files[0]);
    manifest->files[manifest->count++] = file;
}

void manifest_free(struct manifest *manifest) {
    for (size_t i = 0; i < manifest->count; i++) {
        free(manifest->files[i].name);
        free(manifest->files[i].holds);
        free(manifest->files[i].sums);
        free(manifest->files[i].tensors);
    }
    free(manifest->files);
    *manifest = (struct manifest){0};
}

uint64_t manifest_name_hash(const char *name) {
    struct sha256 hash;
    unsigned char digest[32];
    uint64_t first = 0;
    sha256_init(&hash);
    sha256_update(&hash, name, strlen(name));
    sha256_final(&hash, digest);
    for (int i = 0; i < SUM_DIGITS / 2; i++)
        first = first << 8 | digest[i];
    return first;
}

static void write_hashes(struct json_writer *json, const char *key, const uint64_t *hashes, size_t count) {
    json_key(json, key);
    json_begin_array(json);
    for (size_t i = 0; i < count; i++) {
        char text[SUM_DIGITS + 8];
        (void)snprintf(text, sizeof text, "%0*" PRIx64, SUM_DIGITS, hashes[i]);
        json_cstring(json, text);
    }
    json_end_array(json);
}

static int lowest_version(const struct manifest *manifest) {
    for (size_t i = 0; i < manifest->count; i++)
        if (manifest->files[i].tensors)
            return MANIFEST_TENSORS;
    return MANIFEST_OLDEST;
}

int manifest_write(const struct manifest *manifest, const char *folder) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text, .indent = 2};
    json_begin_object(&json);
    json_put_string(&json, "format", format_name);
    json_put_int(&json, "version", lowest_version(manifest));
    json_put_int(&json, "iteration", manifest->iteration);
    json_key(&json, "files");
    json_begin_array(&json);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_file *file = &manifest->files[i];
        json_begin_object(&json);
        json_put_string(&json, "name", file->name);
        json_put_string(&json, "holds", file->holds);
        json_put_int(&json, "bytes", (int64_t)file->bytes);
        json_put_string(&json, "sha256", file->sha256);
        if (file->sums)
            write_hashes(&json, "sums", file->sums, file->sum_count);
        if (file->tensors)
            write_hashes(&json, "tensors", file->tensors, file->tensor_count);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    buffer_append_byte(&text, '\n');
    return file_write_in(folder, file_name, text.data, text.length);
}

// A name that stays inside the folder: the files that a manifest lists get opened.
static bool is_plain_name(const char *name) {
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/') && strcmp(name, file_name) != 0;
}

static bool is_known_part(const char *holds) {
    static const char *const parts[] = {"model", "optimizer", "state", "config", "file"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(holds, parts[i]) == 0)
            return true;
    }
    return false;
}

// Reads a list of hashes into memory that the caller frees, whatever is returned; `what` is for messages.
static int read_hashes(uint64_t **hashes, size_t *count, const struct json *list, const char *what) {
    if (!list)
        return 0;
    if (list->type != JSON_ARRAY)
        return error_set("%s are not a list", what);
    *hashes = memory_alloc((list->count + 1) * sizeof **hashes);
    *count = list->count;
    for (size_t i = 0; i < list->count; i++) {
        const struct json *item = &list->items[i];
        if (item->type != JSON_STRING || item->length != SUM_DIGITS ||
            strspn(item->string, "0123456789abcdef") != SUM_DIGITS)
            return error_set("%s: number %zu is not %d hexadecimal digits", what, i, SUM_DIGITS);
        (*hashes)[i] = strtoull(item->string, NULL, 16);
    }
    return 0;
}

static int read_lists(struct manifest_file *file, const struct json *entry) {
    char what[128];
    (void)snprintf(what, sizeof what, "the checksums of \"%.64s\"", file->name);
    TRY(read_hashes(&file->sums, &file->sum_count, json_member(entry, "sums"), what));
    (void)snprintf(what, sizeof what, "the tensors of \"%.64s\"", file->name);
    TRY(read_hashes(&file->tensors, &file->tensor_count, json_member(entry, "tensors"), what));
    if (file->sums && file->sum_count == 0)
        return error_set("the checksums of \"%.64s\" are an empty list", file->name);
    if (file->sums && file->tensors && file->sum_count != file->tensor_count + 1)
        return error_set("\"%.64s\" has %zu checksums for %zu tensors", file->name, file->sum_count,
                         file->tensor_count);
    return 0;
}

// Unknown members are refused: otherwise a changed letter could hide an optional one.
static int check_members(const struct json *entry) {
    static const char *const known[] = {"name", "holds", "bytes", "sha256", "sums", "tensors"};
    for (size_t i = 0; entry->type == JSON_OBJECT && i < entry->count; i++) {
        bool is_known = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            is_known = is_known || strcmp(entry->keys[i].string, known[k]) == 0;
        if (!is_known)
            return error_set("a file's entry has a member \"%.64s\", which this program does not know; the manifest "
                             "was changed, or a newer program wrote it",
                             entry->keys[i].string);
    }
    return 0;
}

static int read_file_entry(struct manifest *manifest, const struct json *entry) {
    const char *name = NULL, *holds = NULL, *sha256 = NULL;
    int64_t bytes = 0;
    TRY(check_members(entry));
    TRY(json_get_string(entry, "name", &name));
    TRY(json_get_string(entry, "holds", &holds));
    TRY(json_get_string(entry, "sha256", &sha256));
    TRY(json_get_int(entry, "bytes", &bytes));
    if (!is_plain_name(name))
        return error_set("it lists \"%.64s\", which is not a file of this folder", name);
    if (!is_known_part(holds))
        return error_set("\"%.64s\" is said to hold \"%.64s\", which is not a part of a checkpoint", name, holds);
    if (strlen(sha256) != 64 || strspn(sha256, "0123456789abcdef") != 64)
        return error_set("the sha256 of \"%.64s\" is not 64 hexadecimal digits", name);
    if (bytes < 0)
        return error_set("the size of \"%.64s\" is negative", name);
    struct manifest_file file = {.name = memory_string(name), .holds = memory_string(holds), .bytes = (uint64_t)bytes};
    memcpy(file.sha256, sha256, 65);
    int result = read_lists(&file, entry);
    manifest_add(manifest, file);
    return result;
}

static int check_names(const struct manifest *manifest) {
    OWNED const char **names = memory_alloc((manifest->count + 1) * sizeof names[0]);
    for (size_t i = 0; i < manifest->count; i++)
        names[i] = manifest->files[i].name;
    qsort(names, manifest->count, sizeof names[0], words_compare);
    for (size_t i = 1; i < manifest->count; i++)
        if (strcmp(names[i], names[i - 1]) == 0)
            return error_set("it lists \"%.64s\" twice", names[i]);
    return 0;
}

static int read_tree(struct manifest *manifest, const struct json *root) {
    const char *format = NULL;
    int64_t version = 0;
    TRY(json_get_string(root, "format", &format));
    if (strcmp(format, format_name) != 0)
        return error_set("its format is \"%.64s\", not \"%s\"", format, format_name);
    TRY(json_get_int(root, "version", &version));
    if (version < MANIFEST_OLDEST || version > MANIFEST_VERSION)
        return error_set_code(version > MANIFEST_VERSION ? EXIT_CODE_USAGE : EXIT_CODE_ERROR,
                              "it has version %" PRId64
                              " and this program reads versions %d to %d; use the program that wrote it or a newer one",
                              version, MANIFEST_OLDEST, MANIFEST_VERSION);
    TRY(json_get_int(root, "iteration", &manifest->iteration));
    if (manifest->iteration < 0)
        return error_set("its iteration is negative");
    const struct json *files = json_member(root, "files");
    if (!files || files->type != JSON_ARRAY || files->count == 0)
        return error_set("it has no list of \"files\"");
    if (files->count > MAX_FILES)
        return error_set("it lists %zu files, more than the %d allowed", files->count, MAX_FILES);
    for (size_t i = 0; i < files->count; i++)
        TRY(read_file_entry(manifest, &files->items[i]));
    return check_names(manifest);
}

bool manifest_has_foreign_weights(const char *folder) {
    static const char end[] = ".safetensors", begin[] = "pytorch_model";
    bool has_any = false;
    DIR *stream;
    const struct dirent *entry;
    do
        stream = opendir(folder);
    while (!stream && file_try_again(errno, folder));
    while (stream && !has_any && (entry = readdir(stream))) {
        size_t length = strlen(entry->d_name), tail = sizeof end - 1;
        bool is_tensors = length > tail && strcmp(entry->d_name + length - tail, end) == 0;
        has_any = is_tensors || strncmp(entry->d_name, begin, sizeof begin - 1) == 0;
    }
    if (stream)
        closedir(stream);
    return has_any && folder_own_iteration(folder) < 0;
}

int manifest_parse(struct manifest *manifest, const struct buffer *text, const char *name) {
    OWNED struct json *root = NULL;
    *manifest = (struct manifest){0};
    int result = json_parse(&root, buffer_string(text), text->length, name);
    if (result == 0 && (result = read_tree(manifest, root)) < 0)
        error_context("the manifest %s is not valid", name);
    if (result < 0)
        manifest_free(manifest);
    return result;
}

// Whether files in the folder may be opened; sets errno.
static bool may_enter(const char *folder) {
    int result;
    do
        result = access(folder, X_OK);
    while (result < 0 && file_try_again(errno, folder));
    return result == 0;
}

static int read_file(struct manifest *manifest, const char *folder) {
    *manifest = (struct manifest){0};
    OWNED char *path = file_join(folder, file_name), *config = file_join(folder, "config.json");
    OWNED struct json *root = NULL;
    int result = 0;
    // The most common cause is a path to some other folder.
    if (file_is_folder(folder) && !may_enter(folder))
        result = error_set("cannot read the folder %s: %s; %s", folder, strerror(errno), file_read_remedy(errno));
    else if (file_exists(path) && !file_is_regular(path))
        result = error_set("%s is not a regular file; restore it from a copy", path);
    else if (file_is_folder(folder) && !file_exists(path) && manifest_has_foreign_weights(folder))
        result =
            file_exists(config)
                ? error_set("%s has no %s; if it is a model of another program, convert it first (bevatron "
                            "checkpoint convert --input %s --output DIR --to bevatron), else restore it from a copy",
                            folder, file_name, folder)
                : error_set("%s has weights of Hugging Face but no config.json; copy config.json too", folder);
    else if (file_is_folder(folder) && !file_exists(path))
        result = error_set("%s is not a checkpoint: found no %s and no iter_… folder; give the folder of --save or one "
                           "of its iter_… folders",
                           folder, file_name);
    else
        result = json_parse_own(&root, path, MANIFEST_MOST_BYTES);
    if (result == 0) {
        result = read_tree(manifest, root);
        if (result < 0)
            error_context("the manifest %s is not valid", path);
    }
    if (result < 0)
        manifest_free(manifest);
    return result;
}

int manifest_read(struct manifest *manifest, const char *folder) {
    FILE_PATIENCE();
    return file_answer(read_file(manifest, folder));
}

int64_t manifest_digest(const struct manifest *manifest) {
    uint64_t digest = hash_bytes(&manifest->iteration, sizeof manifest->iteration, 0);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_file *file = &manifest->files[i];
        digest = hash_bytes(file->name, strlen(file->name), digest);
        digest = hash_bytes(file->sha256, sizeof file->sha256, digest);
        digest = hash_bytes(&file->bytes, sizeof file->bytes, digest);
    }
    return (int64_t)(digest >> 1);
}
