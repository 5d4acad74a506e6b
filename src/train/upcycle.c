// Dense weights into experts. See state.h.
#include "train/state.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/choices.h"
#include "model/likeness.h"
#include "store/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char experts_part[] = ".mlp.experts.";

// The loaded tensors: an entry per parameter, and for experts one per expert of this rank.
struct upcycle_list {
    struct checkpoint_tensor *tensors;
    struct shard *shards;  // of the dense matrices
    size_t count;
};

// One matrix, or vector, of those that experts have. Ranks that hold other experts load the same.
static struct shard without_experts(const struct shard *shard) {
    int parts = shard->outer > 1 ? shard->parts / shard->outer : shard->parts;
    struct shard one = shard_whole(shard->rank - 1, shard->global[1], shard->rank == 3 ? shard->global[2] : 1);
    if (parts == 1)
        return one;
    one.segment_count = shard->segment_count;
    memcpy(one.segments, shard->segments, sizeof one.segments);
    one.dimension = shard->dimension - 1;
    one.parts = parts;
    one.part = shard->part % parts;
    return one;
}

static struct tensor expert_of(struct tensor all, int64_t e) {
    struct tensor rows = tensor_rows(all, e, 1);
    return all.rank == 2 ? tensor_flat(rows) : tensor_reshape_2d(rows, all.shape[1], all.shape[2]);
}

static void add_experts(struct upcycle_list *list, const struct param *param, struct tensor target) {
    const char *at = strstr(param->name, experts_part);
    int before = (int)(at - param->name);
    for (int64_t e = 0; e < target.shape[0]; e++) {
        list->shards[list->count] = without_experts(&param->shard);
        list->tensors[list->count] = (struct checkpoint_tensor){
            .name = memory_printf("%.*s.mlp.%s", before, param->name, at + strlen(experts_part)),
            .tensor = expert_of(target, e),
            .shard = &list->shards[list->count]};
        list->count++;
    }
}

static void make_list(struct upcycle_list *list, struct step *step, int64_t experts) {
    const struct param_list *params = step_params(step);
    struct tensor target = step_weights_target(step);
    size_t most = (size_t)params->count * (size_t)experts;
    *list = (struct upcycle_list){.tensors = memory_alloc(sizeof *list->tensors * most),
                                  .shards = memory_alloc(sizeof *list->shards * most)};
    for (int i = 0; i < params->count; i++) {
        const struct param *param = params->items[i];
        if (strstr(param->name, ".mlp.router."))
            continue;
        if (strstr(param->name, experts_part))
            add_experts(list, param, param_in(param, target));
        else
            list->tensors[list->count++] = (struct checkpoint_tensor){
                .name = memory_string(param->name), .tensor = param_in(param, target), .shard = &param->shard};
    }
}

static void free_list(struct upcycle_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free((char *)(uintptr_t)list->tensors[i].name);
    free(list->tensors);
    free(list->shards);
}

// Factor of the weights of both matmuls. A gated MLP, and one with squares, multiplies three numbers.
static double weight_scale(const struct config *config) {
    bool is_softmax = config->model.moe_router_score_function == ROUTER_SOFTMAX;
    if (!is_softmax || !config->model.moe_router_pre_softmax)
        return 1;
    bool is_cube = config_is_gated(&config->model) || config_activation(&config->model) == ACTIVATION_SQUARED_RELU;
    double ratio = (double)config->model.num_experts / (double)config->model.moe_router_topk;
    return pow(ratio, is_cube ? 1.0 / 3 : 1.0 / 2);
}

// Not the bias of the second matmul: the weights of routers multiply it alone.
static void scale_experts(struct step *step, double scale) {
    const struct param_list *params = step_params(step);
    for (int i = 0; scale != 1 && i < params->count; i++) {
        const struct param *param = params->items[i];
        if (strstr(param->name, experts_part) && !strstr(param->name, "linear_fc2.bias"))
            op_scale(step_device(step), &(struct op_scale){.x = tensor_flat(param_in(param, step_weights_target(step))),
                                                           .factor = (float)scale});
    }
}

static int check_dense(const struct config *config, const struct checkpoint_state *state, const char *path,
                       bool *is_centered) {
    struct json *object = NULL;
    *is_centered = config->model.apply_layernorm_1p;
    if (!state->config_json)
        return 0;
    struct config dense = *config;
    dense.model.num_experts = 0;
    TRY(json_parse(&object, state->config_json, strlen(state->config_json), path));
    int status = likeness_check_json(object, &dense, false, path);
    *is_centered = config_json_is_centered(object);
    json_free(object);
    return status;
}

int upcycle_load(const struct run_state *run, const char *path) {
    struct checkpoint_state state;
    struct upcycle_list list;
    bool is_centered;
    TRY(checkpoint_load_state(path, &state));
    int status = check_dense(run->config, &state, path, &is_centered);
    checkpoint_state_free(&state);
    TRY(status);
    if (is_centered != run->config->model.apply_layernorm_1p)
        return error_set("%s stores the gains of norms in another way; --moe-use-upcycling needs the same "
                         "--apply-layernorm-1p",
                         path);
    step_draw_weights(run->step);
    make_list(&list, run->step, run->config->model.num_experts);
    status = checkpoint_load_tensors(&(struct checkpoint_load){.path = path,
                                                               .part = CHECKPOINT_MODEL,
                                                               .device = step_device(run->step),
                                                               .tensors = list.tensors,
                                                               .count = list.count,
                                                               .is_partial = true});
    free_list(&list);
    TRY(status);
    scale_experts(run->step, weight_scale(run->config));
    step_accept_weights(run->step);
    return 0;
}
