// Sets the initial weights of a training run. See state.h.
#include "train/state.h"

#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/watchdog.h"
#include "formats/model_source.h"
#include "model/likeness.h"
#include "net/hub.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- a BERT for both towers ----

static const char *const scopes[] = {"query_model.", "context_model.", "shared_model."};
enum { QUERY, CONTEXT, SCOPES = sizeof scopes / sizeof scopes[0] };
static const char projection[] = "projection_enc.";

// The name of a parameter in its tower, NULL if the tower is another one.
static const char *name_in(const char *name, const char *scope) {
    size_t length = strlen(scope);
    return strncmp(name, scope, length) == 0 ? name + length : NULL;
}

static int check_source(const struct config *config, const struct model_source *source) {
    if (source->config.model.form != CONFIG_BERT)
        return error_set("--bert-load %s: it is not a BERT but a model of --model %s; give a BERT", source->path,
                         CONFIG_NAME(model.form, source->config.model.form));
    return likeness_check_weights(&source->config, config, source->path);
}

// Fills the parameters of a tower; `all` has every parameter of the step.
static int load_tower(struct model_source *source, struct step *step, const struct checkpoint_tensor *all,
                      const char *scope) {
    const struct param_list *params = step_params(step);
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * (size_t)params->count);
    size_t count = 0;
    for (int i = 0; i < params->count; i++) {
        const char *name = name_in(params->items[i]->name, scope);
        if (!name || strncmp(name, projection, strlen(projection)) == 0)
            continue;
        list[count] = all[i];
        list[count++].name = name;
    }
    int status = count > 0 ? model_source_load(source, step_device(step), list, count, true) : 0;
    free(list);
    return status;
}

// The contexts' projection begins as that of the queries.
static void share_projection(struct step *step, struct tensor target) {
    const struct param_list *params = step_params(step);
    for (int i = 0; i < params->count; i++) {
        const char *name = name_in(params->items[i]->name, scopes[QUERY]);
        if (!name || strncmp(name, projection, strlen(projection)) != 0)
            continue;
        OWNED char *other = memory_printf("%s%s", scopes[CONTEXT], name);
        op_copy(step_device(step), &(struct op_copy){.dst = param_in(param_find(params, other), target),
                                                     .src = param_in(params->items[i], target)});
    }
}

static int load_towers(struct model_source *source, struct step *step) {
    const struct param_list *params = step_params(step);
    struct tensor target = step_weights_target(step);
    OWNED struct checkpoint_tensor *all = memory_alloc(sizeof *all * (size_t)params->count);
    for (int i = 0; i < params->count; i++)
        all[i] =
            (struct checkpoint_tensor){.tensor = param_in(params->items[i], target), .shard = &params->items[i]->shard};
    gains_convert(all, params, source->config.model.apply_layernorm_1p);
    step_draw_weights(step);
    int status = 0;
    for (int i = 0; i < SCOPES && status == 0; i++)
        status = load_tower(source, step, all, scopes[i]);
    if (status < 0)
        return -1;
    share_projection(step, target);
    step_accept_weights(step);
    return 0;
}

int bert_load(struct step *step, const struct config *config) {
    struct model_source source;
    log_info(" loading BERT checkpoint from %s", config->run.bert_load);
    TRY(foreign_open(&source, config, config->run.bert_load, -1));
    int status = check_source(config, &source);
    if (status == 0)
        status = load_towers(&source, step);
    if (status == 0)
        log_info("  successfully loaded the BERT of %s into %s", config->run.bert_load,
                 config->model.biencoder_shared_query_context_model ? "the shared tower" : "both towers");
    model_source_close(&source);
    return status;
}

// ---- a training run ----

// A first run has nothing in its own folder. The name of a model of Hugging Face is a mistake.
static int refuse_model_elsewhere(const struct config *config) {
    bool is_own = config->run.save && file_is_same_path(config->run.load, config->run.save);
    char *command = is_own ? NULL : hub_command(config->run.load, HUB_MODEL);
    free(command);
    if (command) {
        error_set_code(EXIT_CODE_NO_CHECKPOINT, "there is no folder %s to load from; check --load", config->run.load);
        return hub_suggest(config->run.load, HUB_MODEL);
    }
    log_warn("no checkpoint in %s: the run starts from random weights", config->run.load);
    return 0;
}

static int find_beginning(struct found_checkpoint *from, const struct config *config, const struct mesh *mesh) {
    int status = 0;
    TRY(find_checkpoint_together(from, config, mesh));
    if (!from->path && config_upcycles_load(config))
        return error_set("no checkpoint in %s, the dense one that --moe-use-upcycling starts from; check --load",
                         config->run.load);
    if (!from->path && config->run.load && !config->run.resume && mesh->rank == 0)
        status = refuse_model_elsewhere(config);
    return comm_agree(mesh->all, status, "checkpoint to start from");
}

// A checkpoint without a training state starts a new run, which a user of --load alone may not expect.
static void say_weights_only(const struct found_checkpoint *from, bool is_foreign) {
    if (!is_foreign)
        log_info("note: only its weights are read, so the run starts at iteration 0, as with --finetune");
    else if (from->iteration > 0)
        log_warn("only its weights are read: the run starts at iteration 0 with a fresh optimizer; give "
                 "--no-load-optim to continue at iteration %" PRId64
                 ", or --finetune if this is intended; to resume with "
                 "its optimizer, convert it first (bevatron checkpoint convert)",
                 from->iteration);
    else
        log_warn("only its weights are read: the run starts at iteration 0 with a fresh optimizer; give --finetune if "
                 "this is intended");
}

static int load_weights(struct step *step, struct config *config, const struct found_checkpoint *from,
                        struct progress_state *at, const struct identity *identity) {
    const struct mesh *mesh = step_mesh(step);
    if (from->iteration >= 0)
        log_info(" loading checkpoint from %s at iteration %" PRId64, from->folder, from->iteration);
    else
        log_info(" loading weights from %s", from->folder);
    (void)fault_at(FAULT_AT_LOAD);
    bool is_foreign = found_checkpoint_is_foreign(from), is_release = found_checkpoint_is_release(from);
    bool upcycles = from->is_pretrained ? config->run.moe_use_upcycling : config_upcycles_load(config);
    bool begins = config->run.finetune || upcycles || from->is_pretrained ||
                  (is_release && !(is_foreign && config->run.no_load_optim));
    bool is_meant = config->run.finetune || upcycles || from->is_pretrained;
    if (mesh->rank == 0 && is_release && begins && !is_meant)
        say_weights_only(from, is_foreign);
    bool with_optimizer = !begins && !config->run.no_load_optim;
    int status = with_optimizer ? state_match_schedule(config, from->path) : 0;
    if (status == 0 && !begins && !is_foreign)
        status = comm_agree(mesh->all, identity_check(identity, config, from->path), "what the run trains on");
    const struct run_state run = {.step = step, .config = config, .progress = begins ? NULL : at};
    if (status == 0 && upcycles && is_foreign)
        status = error_set("--moe-use-upcycling reads checkpoints of this program; convert %s first: bevatron "
                           "checkpoint convert --to bevatron",
                           from->path);
    else if (status == 0 && upcycles)
        status = upcycle_load(&run, from->path);
    else if (status == 0)
        status = state_load_found(&run, from, with_optimizer);
    int64_t iteration = begins ? from->iteration : at->iteration;
    if (status == 0 && iteration >= 0)
        log_info("  successfully loaded checkpoint from %s [ t 1/%d, p 1/%d ] at iteration %" PRId64, from->folder,
                 mesh->length[AXIS_TENSOR], mesh->length[AXIS_PIPELINE], iteration);
    else if (status == 0)
        log_info("  successfully loaded the weights of %s [ t 1/%d, p 1/%d ]", from->folder, mesh->length[AXIS_TENSOR],
                 mesh->length[AXIS_PIPELINE]);
    return status;
}

int beginning_set_weights(const struct beginning_options *options, struct progress_state *at) {
    struct step *step = options->step;
    struct config *config = options->config;
    struct found_checkpoint from;
    struct watchdog_work work;
    int64_t in_memory = memory_checkpoint_find(options->memory);
    if (in_memory >= 0)
        return memory_checkpoint_load(options->memory, in_memory, config, at);
    memory_checkpoint_forget(options->memory);
    watchdog_begin(&work, WATCHDOG_LOAD, "loading the checkpoint");
    int status = find_beginning(&from, config, step_mesh(step));
    watchdog_end(&work);
    TRY(status);
    struct phase *phase = phase_begin("drawing the initial weights");
    step_initialize(step);
    phase_end(phase);
    watchdog_begin(&work, WATCHDOG_LOAD, "loading the checkpoint");
    status = from.path               ? load_weights(step, config, &from, at, options->identity)
             : config->run.bert_load ? bert_load(step, config)
                                     : 0;
    watchdog_end(&work);
    found_checkpoint_free(&from);
    return status;
}

int beginning_load_earlier(const struct beginning_options *options, struct progress_state *at, const char *path) {
    struct config start = *options->config;
    if (path)
        return state_load(&(struct run_state){.step = options->step, .config = &start, .progress = at}, path, true);
    // The folder had no checkpoint then, and has some by now.
    if (start.run.load && file_is_same(start.run.load, start.run.save))
        start.run.load = NULL;
    *at->past = (struct checkpoint_past){0};
    *at = (struct progress_state){.past = at->past};
    struct memory_checkpoint none = {0};
    return beginning_set_weights(&(struct beginning_options){options->step, &start, options->identity, &none}, at);
}
