// What a training run begins with. See beginning.h.
#include "train/beginning.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/phase.h"
#include "checkpoint/model_source.h"

#include <inttypes.h>
#include <stdlib.h>

// A run that starts again with the same flags would begin again too.
static void warn_of_beginning(const struct config *config) {
    if (config->save && !file_is_same_path(config->load, config->save) && checkpoint_exists(config->save))
        log_warn("%s has checkpoints of a run already, and this run begins anew from %s; to go on there, give "
                 "--pretrained-checkpoint %s --load %s",
                 config->save, config->load, config->load, config->save);
}

// What is loaded: a checkpoint to go on from, or weights to begin with.
struct beginning {
    const char *folder;
    char *path;  // in the folder; NULL if there is none
    int64_t iteration;
    bool is_pretrained;  // of --pretrained-checkpoint
};

static int find_beginning(const struct config *config, const struct mesh *mesh, struct beginning *beginning) {
    *beginning = (struct beginning){.folder = config->load, .iteration = -1};
    if (config->load)
        TRY(state_find(config, mesh, &beginning->path, &beginning->iteration));
    if (!beginning->path && config->pretrained_checkpoint) {
        beginning->folder = config->pretrained_checkpoint;
        beginning->is_pretrained = true;
        return state_find_pretrained(config, mesh, &beginning->path, &beginning->iteration);
    }
    if (!beginning->path && config->load && mesh->rank == 0)
        log_warn("no checkpoint in %s: the run starts from random weights", config->load);
    return 0;
}

static int load_weights(struct step *step, struct config *config, const struct beginning *from,
                        struct progress_state *at) {
    const struct mesh *mesh = &step->mesh;
    log_info(" loading checkpoint from %s at iteration %" PRId64, from->folder, from->iteration);
    bool is_foreign = model_source_is_foreign(from->path), is_release = state_is_release(from->path);
    bool begins = config->finetune || from->is_pretrained || (is_release && !(is_foreign && config->no_load_optim));
    if (is_release && begins && !config->finetune && !from->is_pretrained) {
        log_info("note: only its weights are read, so the run begins at iteration 0, as with --finetune%s",
                 is_foreign ? "; a run of Megatron-LM goes on at its own iteration with --no-load-optim" : "");
        if (is_foreign && mesh->rank == 0)
            warn_of_beginning(config);
    }
    bool with_optimizer = !begins && !config->no_load_optim;
    int status = with_optimizer ? state_match_schedule(config, from->path) : 0;
    if (status == 0)
        status = state_load(step, from->path, with_optimizer, begins ? NULL : at);
    if (status == 0)
        log_info("  successfully loaded checkpoint from %s [ t 1/%d, p 1/%d ] at iteration %" PRId64, from->folder,
                 mesh->length[AXIS_TENSOR], mesh->length[AXIS_PIPELINE], begins ? from->iteration : at->iteration);
    return status;
}

int beginning_set_weights(struct step *step, struct config *config, struct progress_state *at) {
    struct beginning from;
    TRY(find_beginning(config, &step->mesh, &from));
    struct phase *phase = phase_begin("drawing the initial weights");
    step_initialize(step);
    phase_end(phase);
    int status = from.path ? load_weights(step, config, &from, at) : 0;
    free(from.path);
    return status;
}
