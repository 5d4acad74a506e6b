// Weights of other programs for a run of ours. Shapes alone do not tell a model: with other heads, norms or rotary
// positions the same matrices compute something else, so what the folder says of them is compared with the flags.
#include "train/foreign.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/choices.h"
#include "train/expert_bias.h"
#include "train/gains.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int foreign_open(struct model_source *source, const struct config *config, const char *path) {
    bool has_heads = flag_is_given(&config->given, "--num-attention-heads");
    return model_source_open(
        source, &(struct model_source_options){.path = path,
                                               .step = config->ckpt_step,
                                               .attention_heads = has_heads ? config->num_attention_heads : 0});
}

// Attention over other heads is nonsense.
static int check_heads(const struct choices *theirs, const struct choices *ours, const char *path) {
    if (theirs->H == ours->H && theirs->G == ours->G && theirs->D == ours->D)
        return 0;
    return error_set("%s holds another model: %" PRId64 " attention heads in %" PRId64 " groups of %" PRId64
                     " channels, but the flags say %" PRId64 " in %" PRId64 " of %" PRId64
                     "; give its values, or --use-checkpoint-args instead",
                     path, theirs->H, theirs->G, theirs->D, ours->H, ours->G, ours->D);
}

static void add_if(bool differs, const char *name, struct buffer *names) {
    if (differs)
        buffer_printf(names, "%s%s", names->length > 0 ? ", " : "", name);
}

// Which experts a row goes to, and their weights; no tensor says it.
static void note_routers(const struct config *source, const struct config *config, struct buffer *names) {
    const char *score = config->moe_router_score_function;
    bool has_same_score = strcmp(source->moe_router_score_function, score) == 0;
    int64_t groups = config->moe_router_num_groups;
    add_if(source->moe_router_topk != config->moe_router_topk, "--moe-router-topk", names);
    add_if(!has_same_score, "--moe-router-score-function", names);
    add_if(has_same_score && strcmp(score, "softmax") == 0 &&
               source->moe_router_pre_softmax != config->moe_router_pre_softmax,
           "--moe-router-pre-softmax", names);
    add_if(config_router_factor(source) != config_router_factor(config), "--moe-router-topk-scaling-factor", names);
    add_if(source->moe_router_num_groups != groups ||
               (groups > 0 && (source->moe_router_group_topk != config->moe_router_group_topk ||
                               config_group_best(source) != config_group_best(config))),
           "--moe-router-num-groups and others", names);
}

// The rest may be meant: a resumed run with longer samples changes its rotary positions.
static void note_choices(const struct choices *theirs, const struct choices *ours, const struct config *source,
                         const struct config *config, const char *path) {
    struct buffer names = {0};
    size_t pairs = (size_t)theirs->rope.pairs;
    add_if(source->embedding_multiplier != config->embedding_multiplier, "--embedding-multiplier", &names);
    add_if(source->residual_multiplier != config->residual_multiplier, "--residual-multiplier", &names);
    add_if(source->logits_scaling != config->logits_scaling, "--logits-scaling", &names);
    add_if(config_no_rope_freq(source) != config_no_rope_freq(config), "--no-rope-freq", &names);
    add_if(theirs->norm.kind != ours->norm.kind, "--normalization", &names);
    add_if(theirs->epsilon != ours->epsilon, "--norm-epsilon", &names);
    add_if(theirs->latent.epsilon != ours->latent.epsilon, "--latent-norm-epsilon", &names);
    add_if(theirs->is_post_norm != ours->is_post_norm || theirs->is_output_norm != ours->is_output_norm ||
               theirs->has_input_norm != ours->has_input_norm,
           "--norm-placement", &names);
    add_if(theirs->norms_rotated != ours->norms_rotated, "--qk-layernorm-after-rope", &names);
    add_if(theirs->is_parallel != ours->is_parallel, "--parallel-residual", &names);
    add_if(theirs->activation != ours->activation, "the activation", &names);
    add_if(theirs->scale != ours->scale, "--softmax-scale", &names);
    add_if(!config_same_windows(source, config), "--sliding-window or --window-attn-skip-freq", &names);
    add_if(source->attn_logit_softcapping != config->attn_logit_softcapping, "--attn-logit-softcapping", &names);
    add_if(source->final_logit_softcapping != config->final_logit_softcapping, "--final-logit-softcapping", &names);
    add_if(source->rotary_base_local != config->rotary_base_local, "--rotary-base-local", &names);
    add_if(theirs->rope.pairs != ours->rope.pairs || theirs->rope.is_interleaved != ours->rope.is_interleaved ||
               theirs->rope.short_length != ours->rope.short_length || theirs->rope.factor != ours->rope.factor ||
               memcmp(theirs->rope.long_frequencies, ours->rope.long_frequencies, pairs * sizeof(double)) != 0 ||
               memcmp(theirs->rope.frequencies, ours->rope.frequencies, pairs * sizeof(double)) != 0,
           "rotary positions (--rotary-base and others)", &names);
    if (theirs->experts.E > 0 && ours->experts.E > 0)
        note_routers(source, config, &names);
    if (names.length > 0)
        log_warn("flags differ from the model in %s: %s; ignore this if intended, else give --use-checkpoint-args "
                 "instead of them",
                 path, buffer_string(&names));
    buffer_free(&names);
}

int foreign_check_model(const struct run_state *run, const struct model_source *source) {
    const struct mesh *mesh = step_mesh(run->step);
    struct choices ours, theirs;
    choices_set(&ours, run->config, mesh);
    choices_set(&theirs, &source->config, mesh);
    TRY(check_heads(&theirs, &ours, source->path));
    if (mesh->rank == 0)
        note_choices(&theirs, &ours, &source->config, run->config, source->path);
    return 0;
}

// A run may have biases where the model has none: they are 0 then.
static int load_biases(const struct run_state *run, struct model_source *source) {
    size_t count = source->biases > 0 ? expert_bias_count(run->step, run->config) : 0;
    if (count == 0)
        return 0;
    struct checkpoint_tensor *list = memory_alloc(count * sizeof *list);
    expert_bias_list(run->step, run->config, list);
    int status = model_source_load(source, step_device(run->step), list, count, true);
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)list[i].name);
    free(list);
    return status;
}

int foreign_load(const struct run_state *run, const char *path, struct checkpoint_tensor *list) {
    const struct step *step = run->step;
    struct model_source source;
    TRY(foreign_open(&source, run->config, path));
    // A stage has some of the layers, and text is generated without multi-token prediction.
    bool is_part = step_mesh(step)->length[AXIS_PIPELINE] > 1 || source.config.mtp_num_layers > 0;
    int status = foreign_check_model(run, &source);
    gains_convert(list, step_params(step), source.config.apply_layernorm_1p);
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
