// Biases and loads of experts, and ranges of fp8 tensors, in checkpoints. See state.h.
#include "train/state.h"

#include "base/log.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// One for each layer with experts: the parts of its name before and after "…mlp.router", and its tensor.
struct router_tensors {
    const char *before, *behind;
    struct tensor (*of)(const struct step *step, int64_t layer);
};
static const struct router_tensors biases = {"", ".expert_bias", step_expert_bias};
static const struct router_tensors loads = {"expert_load.", "", step_expert_load};

static size_t count_tensors(const struct router_tensors *kind, const struct step *step, const struct config *config) {
    return kind->of(step, 0).data ? (size_t)config_routed_layers(&config->model) : 0;
}

static void list_tensors(const struct router_tensors *kind, const struct step *step, const struct config *config,
                         struct checkpoint_tensor *list) {
    int64_t at = 0, count = (int64_t)count_tensors(kind, step, config);
    bool *has_experts = config_list_expert_layers(&config->model);
    for (int64_t layer = 0; at < count && layer < config->model.num_layers; layer++)
        if (has_experts[layer]) {
            list[at] = (struct checkpoint_tensor){
                .name = memory_printf("%sdecoder.layers.%" PRId64 ".mlp.router%s", kind->before, layer, kind->behind),
                .tensor = kind->of(step, at)};
            at++;
        }
    free(has_experts);
    for (int64_t depth = 0; at < count; depth++, at++)
        list[at] =
            (struct checkpoint_tensor){.name = memory_printf("%smtp.layers.%" PRId64 ".transformer_layer.mlp.router%s",
                                                             kind->before, depth, kind->behind),
                                       .tensor = kind->of(step, at)};
}

void tensors_free(struct checkpoint_tensor *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)list[i].name);
    free(list);
}

// Tensors that the checkpoint lacks stay as they are, if may_lack.
static int load_tensors(const struct router_tensors *kind, const struct step *step, const struct config *config,
                        struct checkpoint_load load, bool may_lack) {
    size_t count = count_tensors(kind, step, config);
    if (count == 0)
        return 0;
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * count);
    list_tensors(kind, step, config, list);
    load.device = step_device(step);
    load.tensors = list;
    load.count = count;
    load.is_partial = true;
    int status =
        may_lack && !checkpoint_has_tensor(load.path, load.part, list[0].name) ? 0 : checkpoint_load_tensors(&load);
    tensors_free(list, count);
    return status;
}

size_t expert_bias_count(const struct step *step, const struct config *config) {
    return count_tensors(&biases, step, config);
}

void expert_bias_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list) {
    list_tensors(&biases, step, config, list);
}

int expert_bias_load(const struct step *step, const struct config *config, const char *path) {
    struct checkpoint_load load = {.path = path, .part = CHECKPOINT_MODEL};
    return load_tensors(&biases, step, config, load, config->run.finetune);
}

size_t expert_load_count(const struct step *step, const struct config *config) {
    bool is_first = step_mesh(step)->place[AXIS_PIPELINE] == 0;
    return is_first ? count_tensors(&loads, step, config) : 0;
}

void expert_load_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list) {
    if (expert_load_count(step, config) > 0)
        list_tensors(&loads, step, config, list);
}

int expert_load_read(const struct step *step, const struct config *config, const char *path) {
    struct checkpoint_load load = {.path = path, .part = CHECKPOINT_OPTIMIZER};
    return load_tensors(&loads, step, config, load, true);
}

// ---- ranges of fp8 tensors ----

void ranges_list(const struct step *step, struct checkpoint_tensor *list) {
    for (int i = 0; i < step_range_count(step); i++) {
        struct step_range range = step_range(step, i);
        list[i] = (struct checkpoint_tensor){.name = memory_printf("%s.%s", range.name, range.weight->name),
                                             .tensor = range.tensor};
    }
}

int ranges_load(struct step *step, const struct config *config, const char *path, int64_t steps, bool *are_loaded) {
    size_t count = (size_t)step_range_count(step);
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * (count + 1));
    ranges_list(step, list);
    const struct checkpoint_load load = {.path = path,
                                         .part = CHECKPOINT_OPTIMIZER,
                                         .device = step_device(step),
                                         .tensors = list,
                                         .count = count,
                                         .is_partial = true};
    // A rank that cannot read must not continue without ranges: it would measure where others of its stage do not.
    int fits = steps > 0 ? checkpoint_fits(&load) : 0;
    // All stages of a pipeline measure if one must, as a rank that has all layers does.
    int64_t lacks[1] = {fits <= 0};
    comm_max_i64(step_mesh(step)->all, lacks, 1, "fp8 scales of the checkpoint");
    fits = fits > 0 && lacks[0] ? 0 : fits;
    int status = fits > 0 ? checkpoint_load_tensors(&load) : fits;
    if (fits == 0 && strcmp(config->run.fp8_recipe, "delayed") == 0)
        log_info("note: %s, so the first step measures them, as in a new run",
                 steps > 0 ? "the checkpoint's fp8 scales are of other layers or another --fp8-amax-history-len"
                           : "the checkpoint has no fp8 scales");
    *are_loaded = fits > 0;
    tensors_free(list, count);
    return status;
}

// ---- gains of norms ----

void gains_convert(struct checkpoint_tensor *list, const struct param_list *params, bool is_centered) {
    for (int i = 0; i < params->count; i++) {
        const struct param *param = params->items[i];
        if (param->is_gain && param->is_centered != is_centered)
            list[i].added = is_centered ? 1.0f : -1.0f;
    }
}
