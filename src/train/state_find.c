// Which checkpoint a run begins with or goes on from: of --load or --pretrained-checkpoint, ours or one of another
// program, for one process or for all ranks together. See state.h.
#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/model_source.h"
#include "train/state.h"

#include <stdlib.h>

bool state_is_begun(const struct config *config) {
    return config->load && (model_source_is_foreign(config->load) || checkpoint_exists(config->load));
}

int state_find_here(const struct config *config, bool skip_checksums, char **path, int64_t *iteration) {
    bool is_pretrained = config->pretrained_checkpoint && !state_is_begun(config);
    const char *folder = is_pretrained ? config->pretrained_checkpoint : config->load;
    if (model_source_is_foreign(folder)) {
        *path = memory_string(folder);
        *iteration = model_source_iteration(folder, is_pretrained ? -1 : config->ckpt_step);
        return 0;
    }
    struct checkpoint_find find = {
        .folder = folder, .step = is_pretrained ? -1 : config->ckpt_step, .skip_checksums = skip_checksums};
    return checkpoint_find(&find, path, iteration);
}

int state_verify(const struct config *config, const struct mesh *mesh) {
    if (model_source_is_foreign(config->load))
        return 0;
    char *path = NULL;
    int64_t iteration = -1;
    struct checkpoint_find find = {.folder = config->load, .step = config->ckpt_step, .all = mesh->all};
    int status = checkpoint_find(&find, &path, &iteration);
    free(path);
    return status;
}

bool state_is_release(const char *path) {
    if (model_source_is_foreign(path))
        return true;
    struct checkpoint_state state;
    if (checkpoint_load_state(path, &state) < 0)
        return false;
    bool is_release = state.iteration == 0 && !checkpoint_has_part(path, CHECKPOINT_OPTIMIZER);
    checkpoint_state_free(&state);
    return is_release;
}

int state_find_pretrained(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration) {
    struct config of = *config;
    of.load = config->pretrained_checkpoint;
    of.ckpt_step = -1;
    of.exit_on_missing_checkpoint = true;
    return state_find(&of, mesh, path, iteration);
}

int state_find(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration) {
    *path = NULL;
    *iteration = -1;
    if (model_source_is_foreign(config->load)) {
        *path = memory_string(config->load);
        *iteration = model_source_iteration(config->load, config->ckpt_step);
        return 0;
    }
    int64_t exists = mesh->rank == 0 && checkpoint_exists(config->load);
    comm_broadcast_i64(mesh->all, &exists, 1, 0, "checkpoint exists");
    if (exists) {
        struct checkpoint_find find = {.folder = config->load,
                                       .step = config->ckpt_step,
                                       .allow_fallback = config->ckpt_step < 0,
                                       .all = mesh->all};
        return checkpoint_find(&find, path, iteration);
    }
    if (!config->exit_on_missing_checkpoint && config->ckpt_step < 0)
        return 0;
    error_set_code(EXIT_CODE_NO_CHECKPOINT,
                   "there is no checkpoint in %s; check the path, or leave the flag out to start from random weights",
                   config->load);
    error_mark_shared();
    return -1;
}
