// A mixture of experts in the place of an MLP. A router sends each row to K of E experts, and the weight it gives each
// of them multiplies the expert's result:
//   delta = sum over the K chosen e of weight_e * (fc2_e(activation(fc1_e(x))) + bias_e)
// The weight multiplies the activation instead, which is the same but needs no pass of its own over wider rows.
// Shared experts are an MLP beside them, which every row goes through.
//
// Rows are copied to R places, sorted by expert; how many each expert has, only the device knows. If ranks share
// layers, each has a part of every expert's inner width, sends all rows to the same places, and the results are summed.
#include "base/memory.h"
#include "model/grouped.h"
#include "model/router.h"
#include "model/shared_experts.h"

#include <math.h>
#include <stdlib.h>

struct experts {
    struct sublayer sublayer;
    struct router router;
    struct param *fc1, *fc2;            // (E, F, C), gated (E, 2F, C), the gate first; (E, C, F)
    struct param *fc1_bias, *fc2_bias;  // (E, F) or (E, 2F); (E, C); or NULL
    struct shared_experts shared;
    struct linear last;  // fc2's weight, for the block
    const struct choices *choices;
    int64_t F;  // of each expert, as held by this rank
};

struct experts_saved {
    struct router_saved router;
    struct tensor offsets, sources, places;  // (E + 1), (R), (N, K) i32: see op_sort_slots
    struct tensor x;                         // (R, C)
    struct tensor before;                    // (R, F) or (R, 2F): input of the activation; backward overwrites it
    struct shared_experts_saved shared;      // if there are any
};

static struct param *add_weight(struct param_list *params, const char *name, const char *part, struct shard shard,
                                double standard_deviation) {
    char *full = memory_printf("%s.experts.%s", name, part);
    struct param *param = param_add(params, full, shard, INIT_NORMAL, standard_deviation);
    free(full);
    return param;
}

// A matrix with a row for each expert, but of biases.
static struct param *add_bias(struct param_list *params, const char *name, const char *part, struct shard shard) {
    char *full = memory_printf("%s.experts.%s", name, part);
    struct param *param = param_add(params, full, shard, INIT_ZERO, 0);
    param->has_decay = false;
    free(full);
    return param;
}

// Rows of a gated MLP's first matmul are two segments, each split on its own.
static struct shard split_inner(const struct choices *choices, struct shard whole, int64_t F) {
    if (choices->is_gated) {
        whole.dimension = 1;
        whole.segment_count = 2;
        whole.segments[0] = whole.segments[1] = F;
    }
    return choices_split(choices, whole, 1);
}

static void build(struct sublayer *sublayer, struct param_list *params, const char *name,
                  const struct sublayer_options *options) {
    struct experts *experts = (struct experts *)sublayer;
    const struct choices *choices = options->choices;
    int64_t E = choices->experts.E, F = choices->experts.F, C = choices->C, inner = choices->is_gated ? 2 * F : F;
    double deviation = choices->standard_deviation;
    experts->choices = choices;
    router_build(&experts->router, params, name, options);
    if (choices->experts.shared > 0)
        shared_experts_build(&experts->shared, params, name, options);
    experts->fc1 =
        add_weight(params, name, "linear_fc1.weight", split_inner(choices, shard_matrices(E, inner, C), F), deviation);
    if (choices->has_mlp_bias)
        experts->fc1_bias =
            add_bias(params, name, "linear_fc1.bias", split_inner(choices, shard_whole(2, E, inner), F));
    experts->fc2 = add_weight(params, name, "linear_fc2.weight", choices_split(choices, shard_matrices(E, C, F), 2),
                              deviation / sqrt(2.0 * (double)options->layers));
    if (choices->has_mlp_bias) {
        experts->fc2_bias = add_bias(params, name, "linear_fc2.bias", shard_whole(2, E, C));
        experts->fc2_bias->sums_gradient = choices->parts > 1;
    }
    experts->F = F / choices->parts;
    experts->last = (struct linear){.weight = experts->fc2, .in = experts->F, .out = C};
    sublayer->first = &experts->router.linear;
    sublayer->last = &experts->last;
    sublayer->dropout_layer = options->dropout_layer;
}

// The first of the ranks that share the layer adds what is not split.
static bool adds_whole(const struct pass *pass) {
    return pass->mesh->place[AXIS_TENSOR] == 0;
}

static struct tensor value_of(const struct param *param) {
    return param ? param->value : (struct tensor){0};
}

static struct tensor grad_of(const struct param *param) {
    return param ? param->grad : (struct tensor){0};
}

// How many rows an expert takes at most, as Megatron counts; 0: all. Evaluation and generation drop nothing: results
// would depend on padding and on which sequences share a batch.
static int64_t capacity_of(const struct expert_choices *choices, const struct pass *pass, int64_t N) {
    if (choices->capacity_factor == 0 || !pass->is_training)
        return 0;
    double mean = (double)(N * choices->K) / (double)choices->E;
    int64_t capacity = (int64_t)ceil(mean * choices->capacity_factor);
    return capacity < N ? capacity : N;
}

// Sends rows to places.
static void sort(const struct experts *experts, const struct pass *pass, struct experts_saved *saved, int64_t N) {
    const struct expert_choices *choices = &experts->choices->experts;
    int64_t capacity = capacity_of(choices, pass, N);
    bool is_padded = choices->is_padded && capacity > 0;
    int64_t R = N * choices->K;
    if (is_padded || (capacity > 0 && choices->E * capacity < R))
        R = choices->E * capacity;
    saved->offsets = arena_1d(pass->activations, DTYPE_I32, choices->E + 1);
    saved->sources = arena_1d(pass->activations, DTYPE_I32, R);
    saved->places = arena_2d(pass->activations, DTYPE_I32, N, choices->K);
    op_sort_slots(pass->device,
                  &(struct op_sort_slots){.offsets = saved->offsets,
                                          .sources = saved->sources,
                                          .places = saved->places,
                                          .experts = saved->router.experts,
                                          .weights = capacity > 0 && !choices->keeps_first ? saved->router.weights
                                                                                           : (struct tensor){0},
                                          .capacity = capacity,
                                          .is_padded = is_padded});
}

// after (R, F) from x (N, C).
static void forward_inner(const struct experts *experts, const struct pass *pass, struct experts_saved *saved,
                          struct tensor x, struct tensor after) {
    const struct choices *choices = experts->choices;
    int64_t R = saved->sources.shape[0];
    saved->x = arena_2d(pass->activations, pass->dtype, R, choices->C);
    saved->before = arena_2d(pass->activations, pass->dtype, R, choices->is_gated ? 2 * experts->F : experts->F);
    op_gather_slots(pass->device, &(struct op_gather_slots){
                                      .y = saved->x, .x = x, .sources = saved->sources, .per_row = choices->experts.K});
    grouped_forward(experts->fc1, pass, saved->before, saved->x, saved->offsets);
    op_expert_activation_forward(pass->device,
                                 &(struct op_expert_activation_forward){.y = after,
                                                                        .x = saved->before,
                                                                        .bias = value_of(experts->fc1_bias),
                                                                        .weights = saved->router.weights,
                                                                        .offsets = saved->offsets,
                                                                        .sources = saved->sources,
                                                                        .activation = choices->activation,
                                                                        .is_gated = choices->is_gated});
}

static void forward(const struct sublayer *sublayer, const struct pass *pass, void *own, struct tensor delta,
                    struct operand x) {
    const struct experts *experts = (const struct experts *)sublayer;
    struct experts_saved *saved = own;
    bool has_shared = experts->choices->experts.shared > 0;
    int64_t N = pass_rows(pass), C = experts->choices->C;
    if (has_shared && pass->is_training)
        shared_experts_keep(&experts->shared, pass, &saved->shared, x.value);
    size_t mark = arena_mark(pass->scratch);
    struct tensor all = pass_gather(pass, pass->scratch, x.value, "layer input");
    struct tensor sum = pass->splits_rows ? arena_2d(pass->scratch, pass->dtype, N, C) : delta;
    router_forward(&experts->router, pass, &saved->router, all);
    sort(experts, pass, saved, N);
    struct tensor after = arena_2d(pass->scratch, pass->dtype, saved->sources.shape[0], experts->F);
    struct tensor y = arena_2d(pass->scratch, pass->dtype, saved->sources.shape[0], C);
    forward_inner(experts, pass, saved, all, after);
    grouped_forward(experts->fc2, pass, y, after, saved->offsets);
    if (has_shared)
        shared_experts_forward(&experts->shared, pass, &saved->shared, sum, all);
    struct op_sum_slots op = {
        .out = sum, .y = y, .places = saved->places, .addend = has_shared ? sum : (struct tensor){0}};
    if (experts->fc2_bias && adds_whole(pass)) {
        op.bias = experts->fc2_bias->value;
        op.experts = saved->router.experts;
        op.weights = saved->router.weights;
    }
    op_sum_slots(pass->device, &op);
    pass_sum(pass, delta, sum, "layer output");
    arena_release(pass->scratch, mark);
}

// From dy (N, C) to dplaces (R, C), the gradient of what the rows were at their places, and dweights (N, K) fp32; with
// the gradients of all experts.
static void backward_inner(const struct experts *experts, const struct pass *pass, const struct experts_saved *saved,
                           struct tensor dy, struct tensor dplaces, struct tensor dweights) {
    const struct choices *choices = experts->choices;
    struct tensor dafter = arena_2d(pass->scratch, pass->dtype, saved->sources.shape[0], experts->F);
    op_gather_slots(pass->device, &(struct op_gather_slots){
                                      .y = dplaces, .x = dy, .sources = saved->sources, .per_row = choices->experts.K});
    grouped_backward_input(experts->fc2, pass, dafter, dplaces, saved->offsets);
    op_expert_activation_backward(pass->device,
                                  &(struct op_expert_activation_backward){.dx = saved->before,
                                                                          .y = dafter,
                                                                          .dweights = dweights,
                                                                          .dbias = grad_of(experts->fc1_bias),
                                                                          .dy = dafter,
                                                                          .x = saved->before,
                                                                          .bias = value_of(experts->fc1_bias),
                                                                          .weights = saved->router.weights,
                                                                          .offsets = saved->offsets,
                                                                          .sources = saved->sources,
                                                                          .activation = choices->activation,
                                                                          .is_gated = choices->is_gated});
    if (experts->fc2_bias && adds_whole(pass))
        op_slot_bias_backward(pass->device, &(struct op_slot_bias_backward){.dbias = experts->fc2_bias->grad,
                                                                            .dweights = dweights,
                                                                            .dout = dy,
                                                                            .bias = experts->fc2_bias->value,
                                                                            .weights = saved->router.weights,
                                                                            .offsets = saved->offsets,
                                                                            .sources = saved->sources});
    grouped_backward_weight(experts->fc2, pass, dplaces, dafter, saved->offsets);
    grouped_backward_weight(experts->fc1, pass, saved->before, saved->x, saved->offsets);
    grouped_backward_input(experts->fc1, pass, dplaces, saved->before, saved->offsets);
}

static struct operand backward(const struct sublayer *sublayer, const struct pass *pass, const void *own,
                               struct tensor dx, struct tensor ddelta) {
    const struct experts *experts = (const struct experts *)sublayer;
    const struct experts_saved *saved = own;
    int64_t N = pass_rows(pass), C = experts->choices->C;
    struct tensor dy = pass_gather(pass, pass->scratch, ddelta, "layer output gradient");
    struct tensor sum = pass->splits_rows ? arena_2d(pass->scratch, pass->dtype, N, C) : dx;
    struct tensor dplaces = arena_2d(pass->scratch, pass->dtype, saved->sources.shape[0], C);
    struct tensor dweights = arena_2d(pass->scratch, DTYPE_F32, N, experts->choices->experts.K);
    backward_inner(experts, pass, saved, dy, dplaces, dweights);
    op_sum_slots(pass->device, &(struct op_sum_slots){.out = sum, .y = dplaces, .places = saved->places});
    struct tensor dlogits = router_backward(&experts->router, pass, &saved->router, sum, dweights);
    if (experts->choices->experts.shared > 0)
        shared_experts_backward(&experts->shared, pass, &saved->shared, sum, dy);
    pass_sum(pass, dx, sum, "layer input gradient");
    return operand_of(dlogits);
}

const struct sublayer_kind sublayer_experts = {.name = "mlp",
                                               .pre_norm = "pre_mlp_layernorm",
                                               .post_norm = "post_mlp_layernorm",
                                               .dropout_place = DROPOUT_AFTER_MLP,
                                               .bytes = sizeof(struct experts),
                                               .saved_bytes = sizeof(struct experts_saved),
                                               .build = build,
                                               .forward = forward,
                                               .backward = backward};
