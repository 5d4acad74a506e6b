// What a training run begins with. See beginning.h.
#include "train/beginning.h"
#include "base/error.h"
#include "base/log.h"
#include "base/phase.h"
#include "checkpoint/model_source.h"

#include <inttypes.h>
#include <stdlib.h>

// What is loaded: a checkpoint to go on from, or weights to begin with.
struct beginning {
    const char *folder;
    char *path;          // in the folder; NULL if there is none
    int64_t iteration;   // -1 if the folder does not say
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

static void say_loading(const struct beginning *from) {
    if (from->iteration >= 0)
        log_info(" loading checkpoint from %s at iteration %" PRId64, from->folder, from->iteration);
    else
        log_info(" loading weights from %s", from->folder);
}

// A checkpoint without a state to continue from starts a new run, which whoever gave --load alone may not expect.
static void say_weights_only(const struct beginning *from, bool is_foreign) {
    if (!is_foreign)
        log_info("note: only its weights are read, so the run starts at iteration 0, as with --finetune");
    else if (from->iteration > 0)
        log_warn("only its weights are read: the run starts at iteration 0 with a fresh optimizer; give "
                 "--no-load-optim to continue at iteration %" PRId64 ", or --finetune if this is intended",
                 from->iteration);
    else
        log_warn("only its weights are read: the run starts at iteration 0 with a fresh optimizer; give --finetune if "
                 "this is intended");
}

static int load_weights(struct step *step, struct config *config, const struct beginning *from,
                        struct progress_state *at) {
    const struct mesh *mesh = &step->mesh;
    say_loading(from);
    bool is_foreign = model_source_is_foreign(from->path), is_release = state_is_release(from->path);
    bool begins = config->finetune || from->is_pretrained || (is_release && !(is_foreign && config->no_load_optim));
    if (mesh->rank == 0 && is_release && begins && !config->finetune && !from->is_pretrained)
        say_weights_only(from, is_foreign);
    bool with_optimizer = !begins && !config->no_load_optim;
    int status = with_optimizer ? state_match_schedule(config, from->path) : 0;
    if (status == 0)
        status = state_load(step, from->path, with_optimizer, begins ? NULL : at);
    int64_t iteration = begins ? from->iteration : at->iteration;
    if (status == 0 && iteration >= 0)
        log_info("  successfully loaded checkpoint from %s [ t 1/%d, p 1/%d ] at iteration %" PRId64, from->folder,
                 mesh->length[AXIS_TENSOR], mesh->length[AXIS_PIPELINE], iteration);
    else if (status == 0)
        log_info("  successfully loaded the weights of %s [ t 1/%d, p 1/%d ]", from->folder, mesh->length[AXIS_TENSOR],
                 mesh->length[AXIS_PIPELINE]);
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
