// A mixture of experts in the place of an MLP. A router sends each row to K of E experts, and the weight it gives each
// of them multiplies the expert's result:
//   delta = sum over the K chosen e of weight_e * (fc2_e(activation(fc1_e(x))) + bias_e)
// The weight multiplies the activation instead, which is the same but needs no pass of its own over wider rows.
// Shared experts are an MLP beside them, which every row goes through.
//
// Rows are copied to R places, sorted by expert; how many each expert has, only the device knows. If ranks share
// layers, each has a part of every expert's inner width, sends all rows to the same places, and the results are summed.
// If ranks share out the experts, rows go to the ranks that hold theirs and come back (dispatch.h); they multiply what
// has arrived, and add the biases of their experts.
#include "base/memory.h"
#include "model/dispatch.h"
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

// E and R are those of this rank's rows but, where ranks share out the experts, in the last two R is that of what has
// arrived.
struct experts_saved {
    struct router_saved router;
    struct tensor offsets, sources, places;  // (E + 1), (R), (N, K) i32: see op_sort_slots
    struct dispatch dispatch;                // if ranks share out the experts
    struct tensor x;                         // (R, C)
    struct tensor before;                    // (R, F) or (R, 2F): input of the activation; backward overwrites it
    struct shared_experts_saved shared;      // if there are any
};

// Gradients of experts that ranks share out are summed over the ranks that hold the same ones. Ranks that share layers
// split experts too, but not their last biases: the first of them has the gradient of those, and the sum is it.
enum own_group { OWN_WEIGHTS, OWN_BIASES, OWN_GROUPS };
static const struct param_group own_groups[OWN_GROUPS] = {[OWN_WEIGHTS] = {.name = "experts",
                                                                           .replicas = MESH_SAME_EXPERTS,
                                                                           .slices = MESH_STAGE & ~MESH_SAME_EXPERTS,
                                                                           .lr_multiplier = 1},
                                                          [OWN_BIASES] = {.name = "biases of experts",
                                                                          .replicas = MESH_STAGE & ~AXES(AXIS_EXPERT),
                                                                          .slices = AXES(AXIS_EXPERT),
                                                                          .lr_multiplier = 1}};

void experts_declare_groups(struct param_list *params, const struct choices *choices) {
    for (int i = 0; choices->experts.ranks > 1 && i < (choices->has_mlp_bias ? OWN_GROUPS : OWN_BIASES); i++)
        (void)param_list_group(params, &own_groups[i]);
}

// A tensor with a part for each expert. One that begins with zeros has biases, a row for each.
static struct param *add_param(struct param_list *params, const char *name, const char *part,
                               const struct choices *choices, struct shard shard, double standard_deviation) {
    const struct expert_choices *experts = &choices->experts;
    char *full = memory_printf("%s.experts.%s", name, part);
    if (experts->ranks > 1)
        shard = shard_split_outer(shard, experts->ranks, experts->rank);
    struct param *param =
        param_add(params, full, shard, standard_deviation > 0 ? INIT_NORMAL : INIT_ZERO, standard_deviation);
    param->has_decay = shard.rank == 3;
    if (experts->ranks > 1)
        param->group = param_list_group(params, &own_groups[OWN_WEIGHTS]);
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

static void add_last_biases(struct experts *experts, struct param_list *params, const char *name) {
    const struct choices *choices = experts->choices;
    experts->fc2_bias =
        add_param(params, name, "linear_fc2.bias", choices, shard_whole(2, choices->experts.E, choices->C), 0);
    if (choices->experts.ranks > 1)
        experts->fc2_bias->group = param_list_group(params, &own_groups[OWN_BIASES]);
    else
        experts->fc2_bias->sums_gradient = choices->parts > 1;
}

// What the block waits for, and tells: see struct sublayer.
static void set_sublayer(struct experts *experts, const struct sublayer_options *options) {
    const struct linear *router = &experts->router.linear, *shared = &experts->shared.fc2;
    struct sublayer *sublayer = &experts->sublayer;
    bool is_apart = experts->choices->experts.ranks > 1;
    experts->last = (struct linear){.weight = experts->fc2, .in = experts->F, .out = experts->choices->C};
    if (is_apart) {
        experts->last.weight = experts->choices->experts.shared > 0 ? shared->weight : router->weight;
        sublayer->apart =
            (struct sublayer_apart){.first = experts->fc1, .last = experts->fc2, .biases = experts->fc2_bias};
    }
    sublayer->first = router;
    sublayer->last = &experts->last;
    sublayer->dropout_layer = options->dropout_layer;
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
    experts->fc1 = add_param(params, name, "linear_fc1.weight", choices,
                             split_inner(choices, shard_matrices(E, inner, C), F), deviation);
    if (choices->has_mlp_bias)
        experts->fc1_bias =
            add_param(params, name, "linear_fc1.bias", choices, split_inner(choices, shard_whole(2, E, inner), F), 0);
    experts->fc2 =
        add_param(params, name, "linear_fc2.weight", choices, choices_split(choices, shard_matrices(E, C, F), 2),
                  deviation / sqrt(2.0 * (double)options->layers));
    if (choices->has_mlp_bias)
        add_last_biases(experts, params, name);
    experts->F = F / choices->parts;
    set_sublayer(experts, options);
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

// How many rows the experts of one rank get from one rank at most: a row goes to an expert once.
static int64_t most_sent(const struct expert_choices *choices, int64_t N, int64_t capacity) {
    int64_t own = choices->E / choices->ranks, each = own < choices->K ? own : choices->K;
    return capacity > 0 && own * capacity < N * each ? own * capacity : N * each;
}

static bool is_shared_out(const struct experts *experts) {
    return experts->choices->experts.ranks > 1;
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
    if (is_shared_out(experts))
        dispatch_open(&saved->dispatch, pass, choices,
                      &(struct dispatch_slots){.offsets = saved->offsets,
                                               .sources = saved->sources,
                                               .weights = saved->router.weights,
                                               .most = is_padded ? choices->E / choices->ranks * capacity
                                                                 : most_sent(choices, N, capacity)});
}

// What the experts of this rank work on: R rows, all of this rank's or those that have arrived.
struct experts_work {
    struct tensor offsets, sources, weights;  // see op_sort_slots; the weights of the slots
    int64_t rows, room;                       // R, and how many there may be
};

static struct experts_work work_of(const struct experts *experts, const struct experts_saved *saved) {
    const struct dispatch *dispatch = &saved->dispatch;
    int64_t R = saved->sources.shape[0];
    if (is_shared_out(experts))
        return (struct experts_work){dispatch->offsets, dispatch->sources, dispatch->weights, dispatch->rows,
                                     dispatch->room};
    return (struct experts_work){saved->offsets, saved->sources, saved->router.weights, R, R};
}

static struct tensor take_work(const struct experts_work *work, struct arena *arena, enum dtype dtype,
                               int64_t columns) {
    return tensor_rows(arena_2d(arena, dtype, work->room, columns), 0, work->rows);
}

// Copies rows (N, C) to the places of the experts that work on them. Returns the rows that the slots of the work belong
// to: those that have arrived, in scratch, or the rows themselves.
static struct tensor bring_rows(const struct experts *experts, const struct pass *pass,
                                const struct experts_saved *saved, struct tensor to, struct tensor rows) {
    struct tensor arrived = rows;
    struct op_gather_slots op = {.y = to, .sources = saved->sources, .per_row = experts->choices->experts.K};
    if (is_shared_out(experts)) {
        arrived = dispatch_take(&saved->dispatch, pass->scratch, pass->dtype, rows.shape[1]);
        size_t mark = arena_mark(pass->scratch);
        op.x = rows;
        op.y = arena_2d(pass->scratch, pass->dtype, saved->sources.shape[0], rows.shape[1]);
        op_gather_slots(pass->device, &op);
        dispatch_send(&saved->dispatch, pass, arrived, op.y, "rows to experts");
        arena_release(pass->scratch, mark);
        op = (struct op_gather_slots){.y = to, .sources = saved->dispatch.sources, .per_row = 1};
    }
    op.x = arrived;
    op_gather_slots(pass->device, &op);
    return arrived;
}

// after (R, F) from x (N, C).
static void forward_inner(const struct experts *experts, const struct pass *pass, struct experts_saved *saved,
                          struct tensor x, struct tensor after) {
    const struct choices *choices = experts->choices;
    struct experts_work work = work_of(experts, saved);
    saved->x = take_work(&work, pass->activations, pass->dtype, choices->C);
    saved->before = take_work(&work, pass->activations, pass->dtype, choices->is_gated ? 2 * experts->F : experts->F);
    size_t mark = arena_mark(pass->scratch);
    (void)bring_rows(experts, pass, saved, saved->x, x);
    arena_release(pass->scratch, mark);
    grouped_forward(experts->fc1, pass, saved->before, saved->x, work.offsets);
    op_expert_activation_forward(pass->device,
                                 &(struct op_expert_activation_forward){.y = after,
                                                                        .x = saved->before,
                                                                        .bias = value_of(experts->fc1_bias),
                                                                        .weights = work.weights,
                                                                        .offsets = work.offsets,
                                                                        .sources = work.sources,
                                                                        .activation = choices->activation,
                                                                        .is_gated = choices->is_gated,
                                                                        .rule = choices->glu});
}

// What experts give, y (R, C), as rows of the slots of the work, with the biases of the experts.
static struct op_sum_slots sum_of(const struct experts *experts, const struct pass *pass,
                                  const struct experts_saved *saved, struct tensor y) {
    bool is_apart = is_shared_out(experts);
    struct op_sum_slots op = {.y = y, .places = is_apart ? saved->dispatch.places : saved->places};
    if (experts->fc2_bias && adds_whole(pass)) {
        op.bias = experts->fc2_bias->value;
        op.experts = is_apart ? saved->dispatch.experts : saved->router.experts;
        op.weights = is_apart ? saved->dispatch.weights : saved->router.weights;
    }
    return op;
}

// sum (N, C) = what shared experts make of x (N, C), computed while y (R, C) is on its way back, and y of all slots.
static void forward_sum(const struct experts *experts, const struct pass *pass, struct experts_saved *saved,
                        struct tensor sum, struct tensor x, struct tensor y) {
    bool has_shared = experts->choices->experts.shared > 0;
    struct op_sum_slots op = sum_of(experts, pass, saved, y);
    struct comm_request request = {0};
    if (is_shared_out(experts)) {
        op.out = dispatch_take(&saved->dispatch, pass->scratch, pass->dtype, y.shape[1]);
        op_sum_slots(pass->device, &op);
        y = arena_2d(pass->scratch, pass->dtype, saved->sources.shape[0], y.shape[1]);
        request = dispatch_return_start(&saved->dispatch, pass, y, op.out, "rows from experts");
        if (has_shared)
            comm_overlap(&request);
        op = (struct op_sum_slots){.y = y, .places = saved->places};
    }
    if (has_shared)
        shared_experts_forward(&experts->shared, pass, &saved->shared, sum, x);
    if (is_shared_out(experts))
        comm_wait(&request);
    op.out = sum;
    op.addend = has_shared ? sum : (struct tensor){0};
    op_sum_slots(pass->device, &op);
}

static void forward(const struct sublayer *sublayer, const struct pass *pass, void *own, struct tensor delta,
                    struct operand x) {
    const struct experts *experts = (const struct experts *)sublayer;
    struct experts_saved *saved = own;
    int64_t N = pass_rows(pass), C = experts->choices->C;
    if (experts->choices->experts.shared > 0 && pass->is_training)
        shared_experts_keep(&experts->shared, pass, &saved->shared, x.value);
    size_t mark = arena_mark(pass->scratch);
    struct tensor all = pass_gather(pass, pass->scratch, x.value, "layer input");
    struct tensor sum = pass->splits_rows ? arena_2d(pass->scratch, pass->dtype, N, C) : delta;
    router_forward(&experts->router, pass, &saved->router, all);
    sort(experts, pass, saved, N);
    struct experts_work work = work_of(experts, saved);
    struct tensor after = take_work(&work, pass->scratch, pass->dtype, experts->F);
    struct tensor y = take_work(&work, pass->scratch, pass->dtype, C);
    forward_inner(experts, pass, saved, all, after);
    grouped_forward(experts->fc2, pass, y, after, work.offsets);
    forward_sum(experts, pass, saved, sum, all, y);
    pass_sum(pass, delta, sum, "layer output");
    arena_release(pass->scratch, mark);
}

// From dy (N, C) to dplaces (R, C), the gradient of what the rows were at their places, and dweights, that of the
// weights of the work; with the gradients of all experts.
static void backward_inner(const struct experts *experts, const struct pass *pass, const struct experts_saved *saved,
                           struct tensor dy, struct tensor dplaces, struct tensor dweights) {
    const struct choices *choices = experts->choices;
    struct experts_work work = work_of(experts, saved);
    struct tensor dafter = take_work(&work, pass->scratch, pass->dtype, experts->F);
    struct tensor dout = bring_rows(experts, pass, saved, dplaces, dy);
    grouped_backward_input(experts->fc2, pass, dafter, dplaces, work.offsets);
    op_expert_activation_backward(pass->device,
                                  &(struct op_expert_activation_backward){.dx = saved->before,
                                                                          .y = dafter,
                                                                          .dweights = dweights,
                                                                          .dbias = grad_of(experts->fc1_bias),
                                                                          .dy = dafter,
                                                                          .x = saved->before,
                                                                          .bias = value_of(experts->fc1_bias),
                                                                          .weights = work.weights,
                                                                          .offsets = work.offsets,
                                                                          .sources = work.sources,
                                                                          .activation = choices->activation,
                                                                          .is_gated = choices->is_gated,
                                                                          .rule = choices->glu});
    if (experts->fc2_bias && adds_whole(pass))
        op_slot_bias_backward(pass->device, &(struct op_slot_bias_backward){.dbias = experts->fc2_bias->grad,
                                                                            .dweights = dweights,
                                                                            .dout = dout,
                                                                            .bias = experts->fc2_bias->value,
                                                                            .weights = work.weights,
                                                                            .offsets = work.offsets,
                                                                            .sources = work.sources});
    grouped_backward_weight(experts->fc2, pass, dplaces, dafter, work.offsets, work.room);
    grouped_backward_weight(experts->fc1, pass, saved->before, saved->x, work.offsets, work.room);
    grouped_backward_input(experts->fc1, pass, dplaces, saved->before, work.offsets);
}

// The gradients of rows that have arrived go back to where they came from: those of the rows (R, C) and of their
// weights. Returns the former, at the places of this rank's slots; sets `dweights` (N, K).
static struct tensor return_gradients(const struct pass *pass, const struct experts_saved *saved, struct tensor dplaces,
                                      struct tensor darrived, struct tensor dweights) {
    int64_t R = saved->sources.shape[0], C = dplaces.shape[1], slots = tensor_count(dweights);
    struct tensor arrived = dispatch_take(&saved->dispatch, pass->scratch, pass->dtype, C);
    struct tensor rows = arena_2d(pass->scratch, pass->dtype, R, C);
    struct tensor weights = arena_2d(pass->scratch, DTYPE_F32, R, 1);
    op_sum_slots(pass->device, &(struct op_sum_slots){.out = arrived, .y = dplaces, .places = saved->dispatch.places});
    struct comm_request requests[] = {
        dispatch_return_start(&saved->dispatch, pass, rows, arrived, "gradients of rows from experts"),
        dispatch_return_start(&saved->dispatch, pass, weights, darrived, "gradients of weights from experts")};
    comm_wait(&requests[0]);
    comm_wait(&requests[1]);
    op_gather_slots(pass->device, &(struct op_gather_slots){.y = tensor_2d(dweights.data, DTYPE_F32, slots, 1),
                                                            .x = weights,
                                                            .sources = tensor_flat(saved->places),
                                                            .per_row = 1});
    return rows;
}

static struct first_gradients backward(const struct sublayer *sublayer, const struct pass *pass, const void *own,
                                       struct tensor dx, struct tensor ddelta) {
    const struct experts *experts = (const struct experts *)sublayer;
    const struct experts_saved *saved = own;
    int64_t N = pass_rows(pass), C = experts->choices->C;
    struct experts_work work = work_of(experts, saved);
    struct tensor dy = pass_gather(pass, pass->scratch, ddelta, "layer output gradient");
    struct tensor sum = pass->splits_rows ? arena_2d(pass->scratch, pass->dtype, N, C) : dx;
    struct tensor dplaces = take_work(&work, pass->scratch, pass->dtype, C);
    struct tensor dweights = arena_2d(pass->scratch, DTYPE_F32, N, experts->choices->experts.K);
    if (is_shared_out(experts)) {
        struct tensor darrived = dispatch_take(&saved->dispatch, pass->scratch, DTYPE_F32, 1);
        backward_inner(experts, pass, saved, dy, dplaces, darrived);
        dplaces = return_gradients(pass, saved, dplaces, darrived, dweights);
    } else {
        backward_inner(experts, pass, saved, dy, dplaces, dweights);
    }
    op_sum_slots(pass->device, &(struct op_sum_slots){.out = sum, .y = dplaces, .places = saved->places});
    struct tensor dlogits = router_backward(&experts->router, pass, &saved->router, sum, dweights);
    if (experts->choices->experts.shared > 0)
        shared_experts_backward(&experts->shared, pass, &saved->shared, sum, dy);
    pass_sum(pass, dx, sum, "layer input gradient");
    return (struct first_gradients){.first = operand_of(dlogits)};
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
