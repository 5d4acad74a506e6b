// Finds the files: those of the flags, and those of the run's latest checkpoint or else the one that it began with. See
// identity.h.
#include "train/identity.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/hf_surroundings.h"
#include "store/extra.h"
#include "train/found_checkpoint.h"
#include <stdlib.h>
#include <string.h>

// ---- files that came with a model of Hugging Face ----

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

static void list_latest(struct checkpoint_file_list *list, const char *save) {
    OWNED char *path = NULL;
    int64_t iteration = 0;
    struct checkpoint_find find = {.folder = save, .step = -1, .skip_checksums = true};
    if (checkpoint_find(&find, &path, &iteration) < 0 || checkpoint_file_list_read(list, path) < 0)
        error_clear();
}

// The run's own checkpoints come before the one that it began with, which may have been moved.
static void list_origin(const struct config *config, struct checkpoint_file_list *list) {
    if (checkpoint_exists(config->run.save)) {
        list_latest(list, config->run.save);
        return;
    }
    struct found_checkpoint found;
    if (find_checkpoint_here(&found, config, true) < 0) {
        error_clear();
    } else if (found.kind == CONTENTS_HUGGINGFACE) {
        OWNED_BY(buffer_free) struct buffer left = {0};
        hf_surroundings_list(found.path, list, &left);
    } else if (found.path && checkpoint_file_list_read(list, found.path) < 0) {
        error_clear();
    }
    found_checkpoint_free(&found);
}

// Whether both would be called the same in a folder of Hugging Face.
static bool is_same_file(const struct checkpoint_file *a, const struct checkpoint_file *b) {
    bool is_template = strcmp(a->role, HF_ROLE_TEMPLATE) == 0;
    return strcmp(extra_name(a), extra_name(b)) == 0 && is_template == (strcmp(b->role, HF_ROLE_TEMPLATE) == 0);
}

// The files that came with a model of Hugging Face. Those of the tokenizer are left out if the run has another one now.
static void add_companions(struct checkpoint_file_list *files, const struct config *config) {
    OWNED_BY(checkpoint_file_list_free) struct checkpoint_file_list origin = {0};
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
}

// ---- all files ----

// Adds the file of the latest checkpoint that has the role.
static bool add_from_latest(struct checkpoint_file_list *files, const char *save, const char *role) {
    OWNED_BY(checkpoint_file_list_free) struct checkpoint_file_list kept = {0};
    if (checkpoint_exists(save))
        list_latest(&kept, save);
    const char *path = checkpoint_file_find(&kept, role);
    if (path)
        checkpoint_file_list_add(files, role, path);
    return path != NULL;
}

static void add_file(struct checkpoint_file_list *files, const struct config *config, const char *role,
                     const char *path) {
    if (!path)
        return;
    if (file_exists(path))
        hf_surroundings_add_tokenizer(files, role, path);
    else if (!add_from_latest(files, config->run.save, role))
        log_warn("%s does not exist; checkpoints are saved without it", path);
}

// Vocabularies and templates have some megabytes. What is larger than all of these together is read when it is saved.
enum { MOST_BYTES = 256 << 20 };

static void hold(struct kept_files *kept) {
    size_t room = MOST_BYTES;
    kept->held_count = kept->files.count;
    kept->bytes = memory_alloc((kept->held_count + 1) * sizeof kept->bytes[0]);
    for (size_t i = 0; i < kept->files.count; i++) {
        struct checkpoint_file *file = &kept->files.items[i];
        // One that cannot be read is reported by the rehearsal of a save.
        if (file_is_regular(file->path) && file_read_all(file->path, room, &kept->bytes[i]) == 0) {
            file->held = &kept->bytes[i];
            room -= kept->bytes[i].length;
        } else {
            buffer_free(&kept->bytes[i]);
            error_clear();
        }
    }
}

void kept_files_open(struct kept_files *kept, const struct config *config, const struct identity *identity) {
    struct checkpoint_file_list *files = &kept->files;
    add_file(files, config, "vocab-file", config->data.vocab_file);
    add_file(files, config, "merge-file", config->data.merge_file);
    add_file(files, config, "tokenizer-model", config->data.tokenizer_model);
    add_companions(files, config);
    hold(kept);
    if (identity->json.length > 0) {
        checkpoint_file_list_add(files, CHECKPOINT_ROLE_DATA, IDENTITY_NAME);
        files->items[files->count - 1].held = &identity->json;
    }
}

void kept_files_close(struct kept_files *kept) {
    for (size_t i = 0; i < kept->held_count; i++)
        buffer_free(&kept->bytes[i]);
    free(kept->bytes);
    checkpoint_file_list_free(&kept->files);
    *kept = (struct kept_files){0};
}
