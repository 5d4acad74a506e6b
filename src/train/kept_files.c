// See kept_files.h.
#include "train/kept_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/hf_surroundings.h"
#include "train/surroundings.h"
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
        log_warn("%s is gone, so the checkpoint is saved without it", path);
}

void kept_files_list(struct checkpoint_file_list *files, const struct config *config) {
    add_file(files, config, "vocab-file", config->vocab_file);
    add_file(files, config, "merge-file", config->merge_file);
    add_file(files, config, "tokenizer-model", config->tokenizer_model);
    surroundings_add(files, config);
}
