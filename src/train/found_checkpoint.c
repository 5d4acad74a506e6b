// See found_checkpoint.h.
#include "train/found_checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/checkpoint.h"
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

void found_checkpoint_free(struct found_checkpoint *found) {
    free(found->path);
    if (found->hold >= 0)
        close(found->hold);
    *found = (struct found_checkpoint){.hold = -1};
}

bool found_checkpoint_is_foreign(const struct found_checkpoint *found) {
    return found->kind > CONTENTS_OURS;
}

bool found_checkpoint_is_release(const struct found_checkpoint *found) {
    if (found_checkpoint_is_foreign(found))
        return true;
    struct checkpoint_state state;
    if (checkpoint_load_state(found->path, &state) < 0)
        return false;
    bool is_release = state.iteration == 0 && !checkpoint_has_part(found->path, CHECKPOINT_OPTIMIZER);
    checkpoint_state_free(&state);
    return is_release;
}

// ---- which folder ----

// What lies at --load, and whether a run that resumes from --save has written its latest checkpoint to --save-fallback.
struct place {
    const char *folder;  // NULL if there is nothing
    struct contents contents;
    int64_t in_fallback;  // iteration of that one, -1 if there is none
};

static int look_at_load(struct place *place, const struct config *config) {
    struct contents fallback;
    *place = (struct place){.contents.iteration = -1, .in_fallback = -1};
    if (!config->run.load)
        return 0;
    TRY(contents_look(&place->contents, config->run.load, config->run.ckpt_step));
    if (place->contents.is_claimed)
        place->folder = config->run.load;
    if (contents_is_foreign(&place->contents) || !config->run.save_fallback || !config->run.save ||
        config->run.ckpt_step >= 0 || !file_is_same(config->run.load, config->run.save))
        return 0;
    TRY(contents_look(&fallback, config->run.save_fallback, -1));
    if (fallback.owner != OWNER_OURS || fallback.iteration <= place->contents.iteration)
        return 0;
    place->folder = config->run.save_fallback;
    place->in_fallback = fallback.iteration;
    return 0;
}

int64_t find_checkpoint_latest(const struct config *config) {
    struct config any = *config;
    struct place place;
    any.run.ckpt_step = -1;
    if (look_at_load(&place, &any) < 0)
        error_clear();
    if (place.in_fallback >= 0)
        return place.in_fallback;
    return place.contents.owner == OWNER_OURS ? place.contents.iteration : -1;
}

// ---- one process ----

int find_checkpoint_here(struct found_checkpoint *found, const struct config *config, bool may_lack) {
    struct place place;
    int64_t step = config->run.ckpt_step;
    *found = (struct found_checkpoint){.hold = -1, .iteration = -1};
    TRY(look_at_load(&place, config));
    if (!place.folder && config->run.pretrained_checkpoint) {
        step = -1;
        found->is_pretrained = true;
        place.folder = config->run.pretrained_checkpoint;
        TRY(contents_look(&place.contents, place.folder, step));
    }
    if (!place.folder && (may_lack || !config->run.load))
        return 0;
    found->folder = place.folder ? place.folder : config->run.load;
    if (contents_is_foreign(&place.contents)) {
        found->kind = place.contents.kind;
        found->path = memory_string(found->folder);
        found->iteration = place.contents.iteration;
        return 0;
    }
    found->kind = CONTENTS_OURS;
    struct checkpoint_find find = {.folder = found->folder, .step = step, .skip_checksums = true, .hold = &found->hold};
    return checkpoint_find(&find, &found->path, &found->iteration);
}

int found_checkpoint_verify(struct found_checkpoint *found, const struct mesh *mesh) {
    if (found_checkpoint_is_foreign(found))
        return 0;
    char *path = NULL;
    struct checkpoint_find find = {.folder = found->folder, .step = found->iteration, .all = mesh->all};
    TRY(checkpoint_find(&find, &path, &found->iteration));
    free(found->path);
    found->path = path;
    return 0;
}

// ---- all ranks ----

// The checkpoint in --save-fallback, if it is whole; found->path stays NULL otherwise.
static int find_in_fallback(struct found_checkpoint *found, const struct config *config, const struct mesh *mesh) {
    struct checkpoint_find find = {
        .folder = config->run.save_fallback, .flag = "--save-fallback", .step = -1, .all = mesh->all};
    int result = checkpoint_find(&find, &found->path, &found->iteration);
    if (result == 0) {
        log_info("the latest checkpoint of the run, of iteration %" PRId64 ", is in %s (--save-fallback)",
                 found->iteration, config->run.save_fallback);
        found->folder = config->run.save_fallback;
        return 0;
    }
    if (error_exit_code() == EXIT_CODE_STOPPED || result == CHECKPOINT_UNREAD)
        return -1;
    log_warn_once("%s; resuming from %s instead", error_message(), config->run.load);
    error_clear();
    return 0;
}

// Rank 0 looks, and all take what it has seen.
static int look_together(struct place *place, const struct config *config, const struct mesh *mesh) {
    int result = mesh->rank == 0 ? look_at_load(place, config) : 0;
    TRY(comm_agree(mesh->all, result, "what is in the folder to load from"));
    int64_t seen[] = {place->contents.kind, place->contents.iteration, place->contents.is_claimed, place->in_fallback};
    comm_broadcast_i64(mesh->all, seen, sizeof seen / sizeof seen[0], 0, "what is in the folder to load from");
    *place = (struct place){
        .folder = config->run.load,
        .contents = {.kind = (enum contents_kind)seen[0], .iteration = seen[1], .is_claimed = seen[2] != 0},
        .in_fallback = seen[3]};
    return 0;
}

// Finds the checkpoint of --load.
static int find_loaded(struct found_checkpoint *found, const struct config *config, const struct mesh *mesh) {
    struct place place = {0};
    TRY(look_together(&place, config, mesh));
    found->kind = CONTENTS_OURS;
    found->folder = config->run.load;
    if (contents_is_foreign(&place.contents)) {
        found->kind = place.contents.kind;
        found->path = memory_string(config->run.load);
        found->iteration = place.contents.iteration;
        return 0;
    }
    if (place.in_fallback >= 0)
        TRY(find_in_fallback(found, config, mesh));
    if (found->path)
        return 0;
    if (place.contents.is_claimed) {
        struct checkpoint_find find = {.folder = config->run.load,
                                       .step = config->run.ckpt_step,
                                       .allow_fallback = config->run.ckpt_step < 0,
                                       .all = mesh->all};
        return checkpoint_find(&find, &found->path, &found->iteration);
    }
    if (!config->run.exit_on_missing_checkpoint && config->run.ckpt_step < 0)
        return 0;
    error_set_code(EXIT_CODE_NO_CHECKPOINT,
                   "there is no checkpoint in %s; check the path, or leave out the flag to start from random weights",
                   config->run.load);
    error_mark_shared();
    return -1;
}

int find_checkpoint_together(struct found_checkpoint *found, const struct config *config, const struct mesh *mesh) {
    *found = (struct found_checkpoint){.hold = -1, .iteration = -1};
    if (config->run.load)
        TRY(find_loaded(found, config, mesh));
    if (found->path || !config->run.pretrained_checkpoint)
        return 0;
    struct config first = *config;
    first.run.load = config->run.pretrained_checkpoint;
    first.run.ckpt_step = -1;
    first.run.exit_on_missing_checkpoint = true;
    found->is_pretrained = true;
    return find_loaded(found, &first, mesh);
}
