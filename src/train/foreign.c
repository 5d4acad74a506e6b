// Weights of other programs for a run of ours. Shapes alone do not tell a model: with other heads, norms or rotary
// positions the same matrices compute something else, so what the folder says of them is compared with the flags.
#include "train/initial_weights.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/likeness.h"
#include "train/expert_bias.h"
#include "train/norm_gains.h"
#include <stdlib.h>

int foreign_open(struct model_source *source, const struct config *config, const char *path, int64_t step) {
    bool has_heads = flag_is_given(&config->given, "--num-attention-heads");
    return model_source_open(
        source, &(struct model_source_options){
                    .path = path, .step = step, .attention_heads = has_heads ? config->model.num_attention_heads : 0});
}

// A run may have biases where the model has none: they are 0 then.
static int load_biases(const struct run_state *run, struct model_source *source) {
    size_t count = source->biases > 0 ? expert_bias_count(run->step, run->config) : 0;
    if (count == 0)
        return 0;
    OWNED struct checkpoint_tensor *list = memory_alloc(count * sizeof *list);
    expert_bias_list(run->step, run->config, list);
    int status = model_source_load(source, step_device(run->step), list, count, true);
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)list[i].name);
    return status;
}

int foreign_load(const struct run_state *run, const char *path, struct checkpoint_tensor *list) {
    const struct step *step = run->step;
    struct model_source source;
    TRY(foreign_open(&source, run->config, path, run->config->run.ckpt_step));
    // A stage has some of the layers, and text is generated without multi-token prediction.
    bool is_part = step_mesh(step)->length[AXIS_PIPELINE] > 1 || source.config.model.mtp_num_layers > 0;
    int status = likeness_check_weights(&source.config, run->config, path);
    gains_convert(list, step_params(step), source.config.model.apply_layernorm_1p);
    if (status == 0)
        status = model_source_load(&source, step_device(step), list, (size_t)step_params(step)->count,
                                   is_part || source.biases > 0);
    if (status == 0)
        status = load_biases(run, &source);
    if (status == 0 && run->progress)
        *run->progress = (struct progress_state){.iteration = source.state.iteration,
                                                 .consumed_train_samples = source.state.consumed_train_samples,
                                                 .consumed_valid_samples = source.state.consumed_valid_samples};
    model_source_close(&source);
    return status;
}
