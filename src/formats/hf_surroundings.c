// The files next to the weights in a folder of Hugging Face. See hf_surroundings.h.
#include "formats/hf_surroundings.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "formats/names.h"
#include "store/extra.h"
#include "store/manifest.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

// No known file of a model, other than weights, exceeds MAX_BYTES; vocabularies are the largest.
enum { MAX_BYTES = 256 << 20, MAX_CONFIG_BYTES = 16 << 20 };

static const char templates[] = "additional_chat_templates";

bool hf_surroundings_is_role(const char *role) {
    return strncmp(role, HF_ROLE, strlen(HF_ROLE)) == 0;
}

static bool ends_with_any(const char *name, const char *const *ends) {
    for (size_t i = 0; ends[i]; i++)
        if (name_ends(name, ends[i]))
            return true;
    return false;
}

// The model itself, which is written from its tensors.
static bool is_model(const char *name) {
    static const char *const ends[] = {".safetensors", ".safetensors.index.json", ".bin.index.json", NULL};
    return ends_with_any(name, ends) || (strncmp(name, "pytorch_model", 13) == 0 && name_ends(name, ".bin"));
}

// The model in other programs' formats, or a trainer's state: stale as soon as the weights change.
static bool is_other_weights(const char *name) {
    static const char *const ends[] = {".bin",     ".pt",        ".pth",  ".ckpt", ".h5",  ".h5.index.json",
                                       ".msgpack", ".onnx",      ".gguf", ".ot",   ".npz", ".msgpack.index.json",
                                       ".tflite",  ".onnx_data", ".nemo", ".pkl",  NULL};
    return ends_with_any(name, ends);
}

// A folder with weights counts too, so that errors in its config.json are reported.
bool hf_surroundings_is_folder(const char *path) {
    OWNED char *config = file_join(path, "config.json");
    OWNED struct json *root = NULL;
    bool is_theirs = file_exists(config) && (json_parse_own(&root, config, MAX_CONFIG_BYTES) < 0 ||
                                             root->type != JSON_OBJECT || json_member(root, "model_type") != NULL);
    return is_theirs || manifest_has_foreign_weights(path);
}

static void leave(struct buffer *left, const char *name, const char *why) {
    buffer_printf(left, "%s%s (%s)", left->length > 0 ? ", " : "", name, why);
}

// The names in a folder, in order; each to be freed, and the array.
static char **list_names(const char *folder, size_t *count) {
    char **names = NULL;
    *count = 0;
    DIR *stream = opendir(folder);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream))) {
        if (entry->d_name[0] == '.' && strcmp(entry->d_name, ".gitattributes") != 0)  // of git and of download tools
            continue;
        names = memory_realloc(names, (*count + 1) * sizeof names[0]);
        names[(*count)++] = memory_string(entry->d_name);
    }
    if (stream)
        closedir(stream);
    if (names)
        qsort(names, *count, sizeof names[0], words_compare);
    return names;
}

// Where the files of a folder are listed.
struct surroundings_to {
    const char *folder;
    struct checkpoint_file_list *files;
    struct buffer *left;
};

static void add_file(const struct surroundings_to *to, const char *path, const char *name, const char *role) {
    uint64_t bytes = 0;
    struct buffer *left = to->left;
    if (is_model(name))
        return;
    if (is_other_weights(name))
        leave(left, name, "weights or state of another program");
    else if (file_size(path, &bytes) < 0)
        leave(left, name, error_message());
    else if (!file_is_regular(path))
        leave(left, name, "not a regular file");
    else if (!extra_is_inside(to->folder, path))
        leave(left, name, "a link that leads out of the folder");
    else if (bytes > MAX_BYTES)
        leave(left, name, "larger than 256 MiB");
    else
        checkpoint_file_list_add(to->files, role, path);
}

void hf_surroundings_list(const char *folder, struct checkpoint_file_list *files, struct buffer *left) {
    size_t count = 0;
    OWNED char **names = list_names(folder, &count);
    struct surroundings_to to = {.folder = folder, .files = files, .left = left};
    for (size_t i = 0; i < count; i++) {
        OWNED char *path = file_join(folder, names[i]);
        if (strcmp(names[i], templates) == 0 && file_is_folder(path)) {
            size_t inner_count = 0;
            OWNED char **inner = list_names(path, &inner_count);
            for (size_t k = 0; k < inner_count; k++) {
                OWNED char *inside = file_join(path, inner[k]);
                add_file(&to, inside, inner[k], HF_ROLE_TEMPLATE);
                free(inner[k]);
            }
        } else if (file_is_folder(path)) {
            leave(left, names[i], "a folder");
        } else {
            add_file(&to, path, names[i], HF_ROLE);
        }
        free(names[i]);
    }
}

bool hf_surroundings_is_of_tokenizer(const char *path) {
    static const char *const ends[] = {"tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.json",
                                       "vocab.txt",
                                       "merges.txt",
                                       ".model",
                                       "generation_config.json",
                                       "chat_template.json",
                                       ".jinja",
                                       ".tiktoken",
                                       "tekken.json",
                                       NULL};
    return ends_with_any(path, ends);
}

// Whether a file beside a tokenizer.json is copied with it. A generation config belongs to the model; and if the file
// was named instead of the folder, other vocabularies there may be unrelated.
static bool goes_along(const char *path, bool has_folder) {
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                        "chat_template.json",    "chat_template.jinja",     NULL};
    if (!has_folder)
        return ends_with_any(path, names);
    return hf_surroundings_is_of_tokenizer(path) && !name_ends(path, "generation_config.json");
}

void hf_surroundings_add_tokenizer(struct checkpoint_file_list *files, const char *role, const char *path) {
    bool is_model = strcmp(role, "tokenizer-model") == 0, has_folder = is_model && file_is_folder(path);
    OWNED char *folder = has_folder ? memory_string(path) : file_parent(path),
               *model = file_join(folder, "tokenizer.json");
    checkpoint_file_list_add(files, role, has_folder ? model : path);
    if (has_folder || (is_model && file_is_same_path(path, model))) {
        OWNED_BY(checkpoint_file_list_free) struct checkpoint_file_list all = {0};
        OWNED_BY(buffer_free) struct buffer left = {0};
        hf_surroundings_list(folder, &all, &left);
        for (size_t i = 0; i < all.count; i++)
            if (goes_along(all.items[i].path, has_folder) && strcmp(all.items[i].path, model) != 0)
                checkpoint_file_list_add(files, all.items[i].role, all.items[i].path);
    }
}

const char *hf_surroundings_config(const struct checkpoint_file_list *files) {
    for (size_t i = 0; i < files->count; i++)
        if (hf_surroundings_is_role(files->items[i].role) && strcmp(extra_name(&files->items[i]), "config.json") == 0)
            return files->items[i].path;
    return NULL;
}

int hf_surroundings_write(const struct checkpoint_file_list *files, const char *folder) {
    for (size_t i = 0; i < files->count; i++) {
        const struct checkpoint_file *file = &files->items[i];
        const char *name = extra_name(file);
        if (!hf_surroundings_is_role(file->role) || strcmp(name, "config.json") == 0)
            continue;
        bool is_template = strcmp(file->role, HF_ROLE_TEMPLATE) == 0;
        OWNED char *parent = is_template ? file_join(folder, templates) : memory_string(folder);
        OWNED char *to = file_join(parent, name);
        uint64_t bytes = 0;
        TRY(file_make_folders(parent));
        TRY(extra_copy(file->path, to, &bytes, NULL));
    }
    return 0;
}
