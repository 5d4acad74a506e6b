// Maps the two files of a dataset, and suggests a name if they do not exist.
#include "data/index/index.h"

#include "data/extract/inputs.h"
#include "base/error.h"
#include "net/hub.h"
#include "base/memory.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

// The name of an existing dataset close to a wrong one: people forget _text_document, or add the ending. NULL if there
// is none. The caller frees it.
static char *find_near(const char *prefix) {
    size_t length = strlen(prefix);
    if (length > 4 && (strcmp(prefix + length - 4, ".bin") == 0 || strcmp(prefix + length - 4, ".idx") == 0) &&
        file_exists(prefix))
        return memory_printf("%.*s", (int)(length - 4), prefix);
    char *folder = file_parent(prefix), *found = NULL;
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    DIR *entries = *name ? opendir(folder) : NULL;
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        size_t bytes = strlen(entry->d_name), begin = strlen(name);
        bool is_near = bytes > begin + 4 && strncmp(entry->d_name, name, begin) == 0 && entry->d_name[begin] == '_' &&
                       strcmp(entry->d_name + bytes - 4, ".idx") == 0;
        char *near =
            is_near ? memory_printf("%.*s%.*s", (int)(name - prefix), prefix, (int)(bytes - 4), entry->d_name) : NULL;
        // Take the first in byte order, so that the message is always the same.
        if (near && (!found || strcmp(near, found) < 0)) {
            free(found);
            found = near;
        } else {
            free(near);
        }
    }
    if (entries)
        closedir(entries);
    free(folder);
    return found;
}

static bool has_file(const char *prefix, const char *extension) {
    char *path = memory_printf("%s.%s", prefix, extension);
    bool exists = file_exists(path);
    free(path);
    return exists;
}

// Refuses a name that looks like a text, a folder or a pattern rather than a dataset; 0 for other names.
static int refuse_text(const char *name) {
    bool is_text = ending_is_among(name, text_format_endings);
    if (is_text && file_exists(name))
        return error_set("%s is text, not a dataset; `bevatron preprocess` makes one, whose name is then "
                         "PREFIX_text_document",
                         name);
    if (is_text && strchr(name, ','))
        return error_set("%s does not exist; separate several paths by spaces, not by commas", name);
    if (strpbrk(name, "*?["))
        return error_set("no file matches %s; check the path, and that a shell did not change the pattern", name);
    bool is_folder = *name && name[strlen(name) - 1] == '/';
    return is_text || (is_folder && !file_exists(name))
               ? error_set("%s%s does not exist; check the path", is_folder ? "the folder " : "", name)
               : 0;
}

// Refuses .bin files of nanoGPT and llm.c, which have no index; 0 for other names.
static int refuse_tokens(const char *name) {
    size_t length = strlen(name), stem = length > 4 && strcmp(name + length - 4, ".bin") == 0 ? length - 4 : length;
    char *prefix = memory_printf("%.*s", (int)stem, name), *path = memory_printf("%s.bin", prefix);
    int result = 0;
    if (file_is_regular(path) && !has_file(prefix, "idx")) {
        result = content_explain(path);
        if (result == 0)
            result = error_set("cannot open dataset %s: %s.idx does not exist, but %s does; copy both files, or import "
                               "tokens of nanoGPT: `bevatron dataset import --nanogpt %s --output-prefix %s_document`",
                               prefix, prefix, path, path, prefix);
    }
    free(prefix);
    free(path);
    return result;
}

static int refuse_missing(const char *prefix) {
    if (ending_is_among(prefix, text_format_endings))
        TRY(content_check_name(prefix));
    TRY(content_check_prefix(prefix));
    TRY(refuse_tokens(prefix));
    if (has_file(prefix, "idx"))
        return error_set(
            "cannot open dataset %s: %s.bin does not exist, but %s.idx does; copy both files, or make them "
            "again with `bevatron preprocess`",
            prefix, prefix, prefix);
    char *near = find_near(prefix);
    int result = near ? 0 : refuse_text(prefix);
    if (result == 0)
        result = error_set("cannot open dataset %s: %s.idx does not exist; %s%s%s", prefix, prefix,
                           near ? "did you mean " : "check the path, and give it without .bin or .idx",
                           near ? near : "", near ? "?" : "");
    free(near);
    return hub_suggest(prefix, HUB_DATASET);
}

int index_files_find(const char *prefix) {
    return has_file(prefix, "idx") && has_file(prefix, "bin") ? 0 : refuse_missing(prefix);
}

static int map_file(struct file_map *map, const char *prefix, const char *extension) {
    char *path = memory_printf("%s.%s", prefix, extension);
    int result = file_map_open(map, path);
    free(path);
    return result;
}

static bool is_index(const char *begin, size_t length) {
    return length >= INDEX_MAGIC_BYTES && memcmp(begin, INDEX_MAGIC, INDEX_MAGIC_BYTES) == 0;
}

int index_files_check_output(const char *prefix, const char *how) {
    char *index = memory_printf("%s.idx", prefix), *tokens = memory_printf("%s.bin", prefix);
    int result = file_check_output(index, "the index of a dataset", is_index);
    if (result == 0 && !file_exists(index))
        result = file_check_output(tokens, NULL, NULL);
    else if (result == 0 && file_check_output(index, NULL, NULL) < 0)
        result =
            error_set_code(EXIT_CODE_USAGE, "the dataset %s exists; give another --output-prefix, or %s", prefix, how);
    free(index);
    free(tokens);
    return result;
}

int index_files_map(struct index_files *files, const char *prefix) {
    *files = (struct index_files){.prefix = memory_string(prefix), .is_mapped = true};
    if (index_files_find(prefix) == 0 && map_file(&files->index, prefix, "idx") == 0 &&
        map_file(&files->tokens, prefix, "bin") == 0)
        return 0;
    index_files_close(files);
    return -1;
}

struct index_files index_files_in_memory(const char *prefix, struct file_map index, struct file_map tokens) {
    return (struct index_files){.prefix = memory_string(prefix), .index = index, .tokens = tokens};
}

// Bytes in memory are not released: they could not be read from disk again.
void index_files_release(const struct index_files *files) {
    if (!files->is_mapped)
        return;
    file_map_release(&files->index, 0, files->index.size);
    file_map_release(&files->tokens, 0, files->tokens.size);
}

void index_files_close(struct index_files *files) {
    if (files->is_mapped) {
        file_map_close(&files->index);
        file_map_close(&files->tokens);
    }
    free(files->prefix);
    *files = (struct index_files){0};
}
