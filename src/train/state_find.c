// Finds the checkpoint from which a run starts or resumes: of --load or --pretrained-checkpoint, ours or another
// program's, for one process or for all ranks together. See state.h.
#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "formats/owner.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdlib.h>

// The iteration of the latest checkpoint of ours in a folder; -1 if there is none.
static int64_t latest_iteration(const char *folder) {
    struct owner owner;
    if (owner_find(&owner, folder) == 0 && owner.kind == OWNER_OURS)
        return owner.iteration;
    error_clear();
    return -1;
}

// Whether a run that resumes from --save has written its latest checkpoint to --save-fallback.
static bool is_in_fallback(const struct config *config) {
    return config->save_fallback && config->save && config->load && config->ckpt_step < 0 &&
           file_is_same(config->load, config->save) &&
           latest_iteration(config->save_fallback) > latest_iteration(config->save);
}

int64_t state_latest(const struct config *config) {
    return !config->load ? -1 : latest_iteration(is_in_fallback(config) ? config->save_fallback : config->load);
}

int state_is_begun(const struct config *config, bool *is_begun) {
    struct file_patience patience = {0};
    file_patience_begin(&patience);
    *is_begun = config->load &&
                (model_source_is_foreign(config->load) || checkpoint_exists(config->load) || is_in_fallback(config));
    int result = file_doubt();
    file_patience_end(&patience);
    return result;
}

static int look_alone(const struct config *config, bool skip_checksums, char **path, int64_t *iteration, int *hold) {
    bool is_begun = true;
    if (config->pretrained_checkpoint)
        TRY(state_is_begun(config, &is_begun));
    bool is_pretrained = !is_begun;
    const char *folder = is_pretrained            ? config->pretrained_checkpoint
                         : is_in_fallback(config) ? config->save_fallback
                                                  : config->load;
    if (model_source_is_foreign(folder)) {
        *path = memory_string(folder);
        *iteration = model_source_iteration(folder, is_pretrained ? -1 : config->ckpt_step);
        return 0;
    }
    struct checkpoint_find find = {.folder = folder,
                                   .step = is_pretrained ? -1 : config->ckpt_step,
                                   .skip_checksums = skip_checksums,
                                   .hold = hold};
    TRY(file_doubt());
    return checkpoint_find(&find, path, iteration);
}

static int find_alone(const struct config *config, bool skip_checksums, char **path, int64_t *iteration, int *hold) {
    struct file_patience patience = {0};
    file_patience_begin(&patience);
    int result = look_alone(config, skip_checksums, path, iteration, hold);
    file_patience_end(&patience);
    return result;
}

int state_find_here(const struct config *config, bool skip_checksums, char **path, int64_t *iteration) {
    return find_alone(config, skip_checksums, path, iteration, NULL);
}

int state_find_held(const struct config *config, char **path, int64_t *iteration, int *hold) {
    *hold = -1;
    return find_alone(config, true, path, iteration, hold);
}

int state_verify(const struct config *config, const struct mesh *mesh, int64_t iteration, char **path) {
    if (model_source_is_foreign(config->load))
        return 0;
    char *found = NULL;
    struct checkpoint_find find = {.folder = config->load, .step = iteration, .all = mesh->all};
    TRY(checkpoint_find(&find, &found, &iteration));
    free(*path);
    *path = found;
    return 0;
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

// The checkpoint in --save-fallback, if it is to be resumed and whole; *path stays NULL otherwise.
static int find_in_fallback(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration) {
    int64_t is_newer = mesh->rank == 0 && is_in_fallback(config);
    TRY(comm_agree(mesh->all, file_doubt(), "checkpoint in the fallback"));
    comm_broadcast_i64(mesh->all, &is_newer, 1, 0, "checkpoint in the fallback");
    if (!is_newer)
        return 0;
    struct checkpoint_find find = {
        .folder = config->save_fallback, .flag = "--save-fallback", .step = -1, .all = mesh->all};
    int result = checkpoint_find(&find, path, iteration);
    if (result == 0) {
        log_info("the latest checkpoint of the run, of iteration %" PRId64 ", is in %s (--save-fallback)", *iteration,
                 config->save_fallback);
        return 0;
    }
    if (error_exit_code() == EXIT_CODE_STOPPED || result == CHECKPOINT_UNREAD)
        return -1;
    log_warn_once("%s; resuming from %s instead", error_message(), config->load);
    error_clear();
    return 0;
}

static int look_together(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration) {
    bool is_foreign = model_source_is_foreign(config->load);
    // A rank that could not look would go another way than the others.
    TRY(comm_agree(mesh->all, file_doubt(), "kind of checkpoint"));
    if (is_foreign) {
        *path = memory_string(config->load);
        *iteration = model_source_iteration(config->load, config->ckpt_step);
        return 0;
    }
    TRY(find_in_fallback(config, mesh, path, iteration));
    if (*path)
        return 0;
    int64_t exists = mesh->rank == 0 && checkpoint_exists(config->load);
    TRY(comm_agree(mesh->all, file_doubt(), "checkpoint exists"));
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
                   "there is no checkpoint in %s; check the path, or leave out the flag to start from random weights",
                   config->load);
    error_mark_shared();
    return -1;
}

int state_find(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration) {
    struct file_patience patience = {0};
    *path = NULL;
    *iteration = -1;
    file_patience_begin(&patience);
    int result = look_together(config, mesh, path, iteration);
    file_patience_end(&patience);
    return result;
}
