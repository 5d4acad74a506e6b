// A BERT for both towers. See initial_weights.h.
#include "train/initial_weights.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "model/likeness.h"
#include "train/norm_gains.h"

#include <stdlib.h>
#include <string.h>

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
