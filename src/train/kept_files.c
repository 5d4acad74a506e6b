// See kept_files.h.
#include "train/kept_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/hf_surroundings.h"
#include "train/companion_files.h"
#include <stdlib.h>

// Adds the file of the latest checkpoint that has the role.
static bool add_from_latest(struct checkpoint_file_list *files, const char *save, const char *role) {
    char *latest = NULL;
    int64_t iteration = 0;
    struct checkpoint_file_list kept = {0};
    struct checkpoint_find find = {.folder = save, .step = -1, .skip_checksums = true};
    bool is_found = checkpoint_exists(save) && checkpoint_find(&find, &latest, &iteration) == 0 &&
                    checkpoint_file_list_read(&kept, latest) == 0 && checkpoint_file_find(&kept, role);
    if (is_found)
        checkpoint_file_list_add(files, role, checkpoint_file_find(&kept, role));
    error_clear();
    checkpoint_file_list_free(&kept);
    free(latest);
    return is_found;
}

static void add_file(struct checkpoint_file_list *files, const struct config *config, const char *role,
                     const char *path) {
    if (!path)
        return;
    if (file_exists(path))
        hf_surroundings_add_tokenizer(files, role, path);
    else if (!add_from_latest(files, config->save, role))
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
    add_file(files, config, "vocab-file", config->vocab_file);
    add_file(files, config, "merge-file", config->merge_file);
    add_file(files, config, "tokenizer-model", config->tokenizer_model);
    surroundings_add(files, config);
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

void kept_files_list(const struct kept_files *kept, struct checkpoint_file_list *files) {
    for (size_t i = 0; kept && i < kept->files.count; i++) {
        const struct checkpoint_file *file = &kept->files.items[i];
        if (!file->held && !file_exists(file->path)) {
            log_warn("%s no longer exists; the checkpoint is saved without it", file->path);
            continue;
        }
        checkpoint_file_list_add(files, file->role, file->path);
        files->items[files->count - 1].held = file->held;
    }
}
