// Biases and loads of experts in checkpoints. See expert_bias.h.
#include "train/expert_bias.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

// One for each layer with experts: the parts of its name before and after "…mlp.router", and its tensor.
struct router_tensors {
    const char *before, *behind;
    struct tensor (*of)(const struct step *step, int64_t layer);
};
static const struct router_tensors biases = {"", ".expert_bias", step_expert_bias};
static const struct router_tensors loads = {"expert_load.", "", step_expert_load};

static size_t count_tensors(const struct router_tensors *kind, const struct step *step, const struct config *config) {
    return kind->of(step, 0).data ? (size_t)config_routed_layers(config) : 0;
}

static void list_tensors(const struct router_tensors *kind, const struct step *step, const struct config *config,
                         struct checkpoint_tensor *list) {
    int64_t at = 0, count = (int64_t)count_tensors(kind, step, config);
    bool *has_experts = config_list_expert_layers(config);
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

// Tensors that the checkpoint lacks stay as they are, if may_lack.
static int load_tensors(const struct router_tensors *kind, const struct run_state *run, const char *path,
                        enum checkpoint_part part, bool may_lack) {
    size_t count = count_tensors(kind, run->step, run->config);
    if (count == 0)
        return 0;
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * count);
    list_tensors(kind, run->step, run->config, list);
    int status = may_lack && !checkpoint_has_tensor(path, part, list[0].name)
                     ? 0
                     : checkpoint_load_tensors(&(struct checkpoint_load){.path = path,
                                                                         .part = part,
                                                                         .device = step_device(run->step),
                                                                         .tensors = list,
                                                                         .count = count,
                                                                         .is_partial = true});
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)list[i].name);
    free(list);
    return status;
}

size_t expert_bias_count(const struct step *step, const struct config *config) {
    return count_tensors(&biases, step, config);
}

void expert_bias_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list) {
    list_tensors(&biases, step, config, list);
}

int expert_bias_load(const struct run_state *run, const char *path) {
    return load_tensors(&biases, run, path, CHECKPOINT_MODEL, run->config->run.finetune);
}

size_t expert_load_count(const struct step *step, const struct config *config) {
    bool is_first = step_mesh(step)->place[AXIS_PIPELINE] == 0;
    return is_first ? count_tensors(&loads, step, config) : 0;
}

void expert_load_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list) {
    if (expert_load_count(step, config) > 0)
        list_tensors(&loads, step, config, list);
}

int expert_load_read(const struct run_state *run, const char *path) {
    return load_tensors(&loads, run, path, CHECKPOINT_OPTIMIZER, true);
}
