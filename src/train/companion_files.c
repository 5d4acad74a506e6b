// Finds the source of the files: the run's latest checkpoint, else the one that the run began with. See
// companion_files.h.
#include "train/companion_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/hf_surroundings.h"
#include "store/extra.h"
#include "train/state.h"
#include <stdlib.h>
#include <string.h>

static bool has_same_bytes(const char *a, const char *b) {
    struct file_map x, y;
    if (file_map_open(&x, a) < 0) {
        error_clear();
        return false;
    }
    bool is_same = file_map_open(&y, b) == 0;
    if (is_same) {
        is_same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
        file_map_close(&y);
    } else {
        error_clear();
    }
    file_map_close(&x);
    return is_same;
}

static bool has_bytes_of_one(const struct checkpoint_file_list *list, const char *path) {
    for (size_t i = 0; i < list->count; i++)
        if (has_same_bytes(list->items[i].path, path))
            return true;
    return false;
}

static void list_checkpoint(const char *folder, int64_t step, struct checkpoint_file_list *list) {
    char *path = NULL;
    int64_t iteration = 0;
    struct checkpoint_find find = {.folder = folder, .step = step, .skip_checksums = true};
    if (checkpoint_find(&find, &path, &iteration) < 0 || checkpoint_file_list_read(list, path) < 0)
        error_clear();
    free(path);
}

// The run's own checkpoints come before the one that it began with, which may have been moved.
static void list_origin(const struct config *config, struct checkpoint_file_list *list) {
    char *path = NULL;
    int64_t iteration = 0;
    if (checkpoint_exists(config->save)) {
        list_checkpoint(config->save, -1, list);
    } else if (!config->load && !config->pretrained_checkpoint) {
        return;
    } else if (state_find_here(config, true, &path, &iteration) < 0) {
        error_clear();
    } else if (hf_surroundings_is_folder(path)) {
        struct buffer left = {0};
        hf_surroundings_list(path, list, &left);
        buffer_free(&left);
    } else if (checkpoint_file_list_read(list, path) < 0) {
        error_clear();
    }
    free(path);
}

// Whether both would be called the same in a folder of Hugging Face.
static bool is_same_file(const struct checkpoint_file *a, const struct checkpoint_file *b) {
    bool is_template = strcmp(a->role, HF_ROLE_TEMPLATE) == 0;
    return strcmp(extra_name(a), extra_name(b)) == 0 && is_template == (strcmp(b->role, HF_ROLE_TEMPLATE) == 0);
}

void surroundings_add(struct checkpoint_file_list *files, const struct config *config) {
    struct checkpoint_file_list origin = {0};
    list_origin(config, &origin);
    const char *own[] = {"tokenizer-model", "vocab-file"};
    bool has_other = false;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const char *path = checkpoint_file_find(files, own[i]);
        has_other = has_other || (path && !has_bytes_of_one(&origin, path));
    }
    const char *configuration = hf_surroundings_config(&origin);
    for (size_t i = 0; i < origin.count; i++) {
        const struct checkpoint_file *file = &origin.items[i];
        bool is_there = false;
        for (size_t k = 0; k < files->count; k++)
            is_there = is_there || is_same_file(&files->items[k], file);
        if (!hf_surroundings_is_role(file->role) || is_there ||
            (has_other && hf_surroundings_is_of_tokenizer(file->path)))
            continue;
        checkpoint_file_list_add(files, has_other && file->path == configuration ? HF_ROLE_WEIGHTS : file->role,
                                 file->path);
    }
    checkpoint_file_list_free(&origin);
}
