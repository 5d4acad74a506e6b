// Biases of routers in checkpoints. See expert_bias.h.
#include "train/expert_bias.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

size_t expert_bias_count(const struct step *step, const struct config *config) {
    return step_expert_bias(step, 0).data ? (size_t)config_routed_layers(config) : 0;
}

void expert_bias_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list) {
    int64_t at = 0, count = (int64_t)expert_bias_count(step, config);
    bool *has_experts = config_list_expert_layers(config);
    for (int64_t layer = 0; at < count && layer < config->num_layers; layer++)
        if (has_experts[layer]) {
            list[at] = (struct checkpoint_tensor){
                .name = memory_printf("decoder.layers.%" PRId64 ".mlp.router.expert_bias", layer),
                .tensor = step_expert_bias(step, at)};
            at++;
        }
    free(has_experts);
    for (int64_t depth = 0; at < count; depth++, at++)
        list[at] = (struct checkpoint_tensor){
            .name = memory_printf("mtp.layers.%" PRId64 ".transformer_layer.mlp.router.expert_bias", depth),
            .tensor = step_expert_bias(step, at)};
}

int expert_bias_load(const struct run_state *run, const char *path) {
    size_t count = expert_bias_count(run->step, run->config);
    if (count == 0)
        return 0;
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * count);
    expert_bias_list(run->step, run->config, list);
    bool is_other = run->config->finetune && !checkpoint_has_tensor(path, CHECKPOINT_MODEL, list[0].name);
    int status = is_other ? 0
                          : checkpoint_load_tensors(&(struct checkpoint_load){.path = path,
                                                                              .part = CHECKPOINT_MODEL,
                                                                              .device = step_device(run->step),
                                                                              .tensors = list,
                                                                              .count = count,
                                                                              .is_partial = true});
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)list[i].name);
    free(list);
    return status;
}
