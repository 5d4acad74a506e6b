// Formulas in place of a step on paper. They are not exact, but rank layouts much like plans do. See search.h; the
// counts are those of Narayanan et al. 2021 and Korthikanti et al. 2022.
#include "plan/search.h"
#include "optim/optimizer.h"
#include "config/config.h"

#include <math.h>

void estimator_open(struct estimator *estimator, const struct layout_space *space) {
    estimator->space = space;
    estimator->census = census_take(space->model);
    estimator->parameters = (double)estimator->census.parameters;
    const struct config *model = space->model;
    double spared = estimator->parameters - (double)estimator->census.active;
    estimator->of_experts =
        spared > 0 ? spared / (1 - (double)model->model.moe_router_topk / (double)model->model.num_experts) : 0;
}

// One collective over `ranks` ranks that are `stride` apart; a rank holds or gets `bytes`.
static double ring_seconds(const struct comm_fabric *fabric, double ranks, double stride, double bytes) {
    if (ranks <= 1)
        return 0;
    bool is_inside = ranks * stride <= fabric->node;
    const struct comm_path *path = is_inside ? &fabric->inside : &fabric->across;
    double speed = path->bytes_per_second;
    if (!is_inside)  // ranks of a machine share its network links
        speed = fmin(speed * fmax(1, fabric->node / stride), fabric->inside.bytes_per_second);
    double moved = bytes * (ranks - 1) / ranks;
    return path->seconds * log2(ranks) + (moved + path->half_bytes) / speed;
}

// Rows sent to experts of other ranks: equal parts to all ranks, between machines over each rank's own network link.
static double exchange_seconds(const struct layout_space *space, const struct plan_layout *layout, double bytes) {
    const struct comm_fabric *fabric = &space->fabric;
    double ranks = layout->expert, near = fmin(ranks, fmax(1, fabric->node / layout->tensor));
    if (ranks <= 1)
        return 0;
    double inside = bytes * (near - 1) / ranks / (0.89 * fabric->inside.bytes_per_second);
    double across = fabric->across.bytes_per_second;
    if (fabric->exchange > 0)
        across = fmin(across, fabric->exchange);
    return fmax(inside, bytes * (ranks - near) / ranks / across);
}

// Seconds of parts of a micro-batch on a rank of a middle stage.
struct pass_estimate {
    double matmul, attention, bytes, tensor, expert;
    double heads, keys;  // context parallelism: exchange of heads, gathering of keys
};

// Elements of a token's rows inside an MLP; and at its experts' places, which tensor parallelism does not split.
static double inner_elements(const struct config *model, const struct plan_layout *layout) {
    double chosen = (double)model->model.moe_router_topk, ranks = layout->tensor;
    return model->model.num_experts > 0
               ? chosen * ((double)model->model.moe_ffn_hidden_size / ranks + (double)model->model.hidden_size)
               : (double)model->model.ffn_hidden_size / ranks;
}

// Slowdown of matmuls due to few rows per expert.
static double expert_slowdown(const struct estimator *estimator, const struct plan_layout *layout, double tokens) {
    const struct config *model = estimator->space->model;
    if (estimator->of_experts <= 0)
        return 1;
    double part = (double)model->model.moe_router_topk / (double)model->model.num_experts;
    double share = part * estimator->of_experts / (estimator->census.encoder + estimator->census.decoder);
    return 1 + fmin(1, share) * estimator->space->hardware->rates.expert_rows / (part * tokens * layout->expert);
}

static double layer_share(const struct plan_layout *layout) {
    return (double)layout->tensor * layout->pipeline;
}

// Half of the columns of all queries and results.
static double channels_of_heads(const struct config *model) {
    return (double)model->model.num_attention_heads *
           (double)(model->model.kv_channels + config_value_channels(&model->model)) / 2;
}

// Heads of keys and values that a rank attends with: at least one, possibly shared with other ranks.
static double heads_of_keys(const struct config *model, const struct plan_layout *layout) {
    return fmax((double)config_query_groups(&model->model) / layout->tensor, 1);
}

// How ranks share the attention of a layer: neighbours exchange heads, then groups of them gather keys and values.
static void share_attention(const struct layout_space *space, const struct plan_layout *layout, double tokens,
                            struct pass_estimate *pass) {
    struct config config = *space->model;
    config.machine.context_parallel_size = layout->context;
    double near = space->is_fixed[CHOICE_HEADS] ? (double)config_head_ranks(&config) : layout->head_ranks;
    double far = layout->context / near;
    double keys =
        heads_of_keys(&config, layout) * (double)(config.model.kv_channels + config_value_channels(&config.model)) / 2;
    double heads = channels_of_heads(&config) / layout->tensor + keys;
    double layers = (double)config_layers(&config.model) / layout->pipeline;
    pass->heads = layers * 0.5 * ring_seconds(&space->fabric, near, layout->tensor, tokens * heads * 4);
    pass->keys = layers * 0.5 * ring_seconds(&space->fabric, far, layout->tensor * near, tokens * keys * 4 * far);
}

static struct pass_estimate forward_pass(const struct estimator *estimator, const struct plan_layout *layout) {
    const struct layout_space *space = estimator->space;
    const struct config *model = space->model;
    const struct device_rates *rates = &space->hardware->rates;
    double length = (double)model->run.seq_length, hidden = (double)model->model.hidden_size;
    double tokens = (double)layout->micro_batch * length / layout->context;
    double layers = (double)config_layers(&model->model) / layout->pipeline;
    double matrices = estimator->census.encoder + estimator->census.decoder;
    double channels =
        estimator->census.encoder_channels + estimator->census.channels + estimator->census.cross_channels;
    int dtype = layout->precision == LAYOUT_FP8 ? 2 : layout->precision == LAYOUT_FP32 ? 0 : 1;
    double inner = hidden / layout->tensor;
    double wide = hidden / (layout->splits_rows ? layout->tensor : 1);
    double row_bytes = tokens * hidden * 2;
    // Small matmuls leave processors idle in their last round.
    double tiles = ceil(tokens / rates->tile) * ceil(inner / rates->tile);
    double filled = tiles / (ceil(tiles / rates->processors) * rates->processors);
    double keys =
        heads_of_keys(model, layout) * (double)(model->model.kv_channels + config_value_channels(&model->model)) / 2;
    double sharers = heads_of_keys(model, layout) * layout->tensor / (double)config_query_groups(&model->model);
    // A causal query sees half of all keys on average.
    double seen = model->model.form == CONFIG_GPT ? length / 2 : length;
    struct pass_estimate pass = {
        .matmul = 2 * matrices / layer_share(layout) * tokens / rates->matmul[dtype] * (1 + rates->half_inner / inner) /
                  (0.5 + 0.5 * filled) * expert_slowdown(estimator, layout, tokens),
        .attention = 4 * tokens * (seen + rates->attention_keys) * channels / layer_share(layout) / rates->attention[0],
        .bytes = layers * (tokens * (20 * wide + 6 * inner_elements(model, layout)) * 2 / rates->bytes_per_second +
                           12 * rates->seconds_per_operation),
        .tensor = layers * (4 * ring_seconds(&space->fabric, layout->tensor, 1, row_bytes) +
                            ring_seconds(&space->fabric, sharers, 1, tokens * keys * 4)),
        .expert = layers * 2 * exchange_seconds(space, layout, row_bytes * (double)model->model.moe_router_topk),
    };
    share_attention(space, layout, tokens, &pass);
    return pass;
}

static double share_again(const struct estimator *estimator, const struct plan_layout *layout) {
    if (layout->recompute != LAYOUT_BLOCK)
        return layout->recompute == LAYOUT_FULL;
    double layers = (double)config_layers(&estimator->space->model->model) / layout->pipeline / layout->chunks;
    return (double)layout->recomputed_layers / layers;
}

// Extra seconds of the head if it does not count as a layer: all stages wait for the last.
static double head_seconds(const struct estimator *estimator, const struct plan_layout *layout, double layer_seconds) {
    const struct layout_space *space = estimator->space;
    double tokens = (double)layout->micro_batch * (double)space->model->run.seq_length / layout->context;
    double head = 6 * estimator->census.head * tokens / layout->tensor / space->hardware->rates.matmul[1];
    return layout->ends & 2 ? fmax(0, head - layer_seconds) : head;
}

// Parameters held by a rank of an average stage.
static double held_parameters(const struct estimator *estimator, const struct plan_layout *layout) {
    return (estimator->parameters - estimator->of_experts * (1 - 1.0 / layout->expert)) / layer_share(layout);
}

static double update_seconds(const struct estimator *estimator, const struct plan_layout *layout) {
    const struct layout_space *space = estimator->space;
    double held = held_parameters(estimator, layout), replicas = (double)layout->data * layout->context;
    bool is_sharded = layout->optimizer != LAYOUT_WHOLE;
    double reduce = ring_seconds(&space->fabric, replicas, layout->tensor, held * (is_sharded ? 6 : 8));
    double adam = 30 * (is_sharded ? estimator->parameters / layer_share(layout) / replicas : held) /
                  space->hardware->rates.bytes_per_second;
    return reduce * (layout->optimizer == LAYOUT_OVERLAPPED ? 0.15 : 1) + adam;
}

double estimate_seconds(const struct estimator *estimator, const struct plan_layout *layout) {
    const struct layout_space *space = estimator->space;
    struct pass_estimate pass = forward_pass(estimator, layout);
    // In plans, a fourth to a third remains of what another micro-batch hides.
    if (space->base->machine.overlap_moe_expert_parallel_comm)
        pass.expert *= 0.3;
    double compute = pass.matmul + pass.attention + pass.bytes, again = share_again(estimator, layout);
    double backward_attention =
        2.5 * pass.attention * space->hardware->rates.attention[0] / space->hardware->rates.attention[1];
    double forward = compute + pass.tensor + pass.heads + pass.keys + pass.expert;
    double repeated = forward - (space->model->machine.recompute_keep_attention ? pass.attention : 0);
    double context = pass.heads + 2 * pass.keys;
    double both = forward + 2 * (pass.matmul + pass.bytes) + context + backward_attention + pass.tensor + pass.expert +
                  again * repeated + (layout->recompute == LAYOUT_SELECTIVE ? pass.attention : 0);
    double layers = (double)config_layers(&space->model->model) / layout->pipeline;
    both += head_seconds(estimator, layout, both / layers);
    double count = (double)space->model->run.global_batch_size / (double)(layout->micro_batch * layout->data);
    double chunks = layout->is_zero_bubble ? 2 : layout->chunks;
    double stages = layout->pipeline, message = 0;
    if (stages > 1) {
        double bytes = (double)layout->micro_batch * (double)space->model->run.seq_length / layout->context *
                       (double)space->model->model.hidden_size * 2 / (layout->splits_rows ? layout->tensor : 1);
        bool is_inside = space->gpus <= space->fabric.node;
        const struct comm_path *path = is_inside ? &space->fabric.inside : &space->fabric.across;
        message = path->seconds + bytes / path->bytes_per_second;
    }
    double bubble = (stages - 1) * (both / chunks + 2 * message);
    return count * (both + 0.3 * layout->chunks * message) + bubble + update_seconds(estimator, layout);
}

double estimate_state_bytes(const struct estimator *estimator, const struct plan_layout *layout) {
    double held = held_parameters(estimator, layout), whole = estimator->parameters / layer_share(layout);
    double replicas = (double)layout->data * layout->context;
    double updated = layout->optimizer == LAYOUT_WHOLE ? held : whole / replicas;
    double weights = layout->precision == LAYOUT_FP32 ? 4 : 2;
    const struct config *model = estimator->space->model;
    double states = optimizer_state_bytes(optimizer_find(model->run.optimizer), model);
    // States that may be in host memory are not counted: only plans know the rest.
    if (model->run.optimizer_cpu_offload)
        return held * (weights + 4);
    return held * (weights + 4) + updated * (states + (layout->precision == LAYOUT_FP32 ? 0 : 2));
}

// Fraction of layers with experts.
static double sparse_share(const struct config *model) {
    return (double)config_expert_layers(&model->model) / (double)config_layers(&model->model);
}

// Bytes per layer and token kept by experts: their inputs, and the inputs of activations. If ranks share out the
// experts, there is room for all rows that may arrive (src/model/experts.c).
static double expert_bytes(const struct config *model, const struct plan_layout *layout) {
    double chosen = (double)model->model.moe_router_topk, own = (double)model->model.num_experts / layout->expert;
    double rows = layout->expert > 1 ? layout->expert * fmin(chosen, own) : chosen;
    if (model->model.moe_expert_capacity_factor > 0)
        rows = fmin(rows, chosen * model->model.moe_expert_capacity_factor);
    double inner = (double)model->model.moe_ffn_hidden_size * (model->model.swiglu ? 2 : 1) / layout->tensor;
    return 2 * rows * ((double)model->model.hidden_size + inner);
}

// Bytes per layer and token in a model with experts: the input of attention, its queries, keys and values, and its
// output; and those of experts. Recomputed ones exist for one layer at a time.
static double sparse_bytes(const struct estimator *estimator, const struct plan_layout *layout) {
    const struct config *model = estimator->space->model;
    double queries = (double)(model->model.num_attention_heads * model->model.kv_channels) / layout->tensor;
    double keys = heads_of_keys(model, layout) * (double)model->model.kv_channels;
    double input = (double)model->model.hidden_size / (layout->splits_rows ? layout->tensor : 1);
    double attention = 2 * (input + queries + 2 * keys + (layout->recompute == LAYOUT_KEEP ? queries : 0));
    double again = share_again(estimator, layout), layers = (double)config_layers(&model->model) / layout->pipeline;
    double all = attention + expert_bytes(model, layout) * sparse_share(model);
    // Zero bubble keeps inputs and gradients of matmuls until weight gradients are computed: 1.5 to 2 in plans.
    const double deferred = layout->is_zero_bubble ? 1.25 : 1;
    double stays =
        2 * ((model->machine.cpu_offloading ? 0 : input) + (model->machine.recompute_keep_attention ? queries : 0));
    return deferred * (all * (1 - again) + stays * again) + (again > 0 ? all / layers : 0);
}

double estimate_least_bytes(const struct estimator *estimator, const struct plan_layout *layout) {
    const struct config *model = estimator->space->model;
    // Per layer and token, in units of the hidden size. Plans have 21 to 24 if everything is kept.
    const double kept = 17.5, without_attention = 14, input = 1.7;
    double inputs = (model->machine.cpu_offloading ? 0 : input) + (model->machine.recompute_keep_attention ? input : 0);
    double all = layout->recompute == LAYOUT_KEEP ? kept : without_attention, again = share_again(estimator, layout);
    double bytes = all * (1 - again) + inputs * again;
    double tokens = (double)layout->micro_batch * (double)model->run.seq_length / layout->context;
    double count = (double)(model->run.global_batch_size / (layout->micro_batch * layout->data)),
           stages = layout->pipeline;
    double flying = fmin(count, layout->chunks > 1 ? stages + (stages - 1) / layout->chunks : stages);
    if (estimator->space->base->machine.overlap_moe_expert_parallel_comm)
        flying = fmin(count, flying + 1.0 / layout->chunks);
    double layers = floor((double)config_layers(&model->model) / stages);
    double kept_bytes = bytes * flying * layers * tokens * (double)model->model.hidden_size / layout->tensor;
    if (model->model.num_experts > 0)
        kept_bytes = sparse_bytes(estimator, layout) * tokens * flying * layers;
    // The fullest rank has at least its share.
    return 0.98 * estimate_state_bytes(estimator, layout) + kept_bytes;
}
