// A mixture of experts in place of an MLP. A router sends each row to K of E experts, and the weight it gives each of
// them multiplies the expert's result:
//   delta = sum over the K chosen e of weight_e * (fc2_e(activation(fc1_e(x))) + bias_e)
// The weight multiplies the activation instead, which is equivalent but needs no separate pass over wider rows. Shared
// experts are an additional MLP that every row goes through.
//
// Rows are copied to R places, sorted by expert; only the device knows how many each expert has. If ranks split the
// experts, each has a part of every expert's inner width, sends the same rows to the same places, and the results are
// summed (dispatch.c). If ranks share out the experts, rows go to the ranks that hold theirs and come back
// (dispatch.c); a rank multiplies the rows that arrived and adds its experts' biases.
#include "model/experts.h"
#include "base/memory.h"
#include "model/context.h"
#include "ops/device.h"

#include <math.h>
#include <stdlib.h>

struct experts {
    struct sublayer sublayer;
    struct router router;
    struct grouped fc1, fc2;            // (E, F, C), gated (E, 2F, C), the gate first; (E, C, F)
    struct param *fc1_bias, *fc2_bias;  // (E, F) or (E, 2F); (E, C); or NULL
    struct shared_experts shared;
    struct linear last;  // fc2's weight, for the block
    const struct choices *choices;
    int64_t F;  // of each expert, as held by this rank
};

// E and R refer to this rank's own rows, except that with expert parallelism R of the last two refers to arrived rows.
struct experts_saved {
    struct router_saved router;
    struct tensor experts, weights;          // (N, K): from the router, for all rows that this rank brings to experts
    struct tensor offsets, sources, places;  // (E + 1), (R), (N, K) i32: see op_sort_slots
    struct dispatch dispatch;                // if ranks share out the experts
    struct operand x;                        // (R, C)
    struct tensor before;                    // (R, F) or (R, 2F): input of the activation; backward overwrites it
    struct shared_experts_saved shared;      // if there are any
};

// Gradients of experts held apart are summed over the ranks that hold the same experts. Last biases are not split:
// among ranks that split experts only the first has their gradient, so the sum is complete.
enum own_group { OWN_WEIGHTS, OWN_BIASES, OWN_GROUPS };
static const struct param_group own_groups[OWN_GROUPS] = {[OWN_WEIGHTS] = {.name = "experts",
                                                                           .replicas = MESH_SAME_EXPERTS,
                                                                           .slices = MESH_STAGE & ~MESH_SAME_EXPERTS,
                                                                           .lr_multiplier = 1,
                                                                           .rest = "first biases of experts"},
                                                          [OWN_BIASES] = {.name = "biases of experts",
                                                                          .replicas = MESH_STAGE & ~MESH_EXPERTS,
                                                                          .slices = MESH_EXPERTS,
                                                                          .lr_multiplier = 1,
                                                                          .rest = "biases of experts"}};

void experts_declare_groups(struct param_list *params, const struct choices *choices) {
    for (int i = 0; choices->experts.is_apart && i < (choices->has_mlp_bias ? OWN_GROUPS : OWN_BIASES); i++) {
        struct param_group own = own_groups[i];
        own.rest = choices->has_mlp_bias ? own.rest : NULL;
        (void)param_list_group(params, &own);
    }
}

// Adds a tensor with a part for each expert. Biases, one row per expert, are initialised to zero.
static struct param *add_param(struct param_list *params, const char *name, const char *part,
                               const struct choices *choices, struct shard shard, double standard_deviation) {
    const struct expert_choices *experts = &choices->experts;
    char *full = memory_printf("%s.experts.%s", name, part);
    if (experts->ranks > 1)
        shard = shard_split_outer(shard, experts->ranks, experts->rank);
    struct param *param =
        param_add(params, full, shard, standard_deviation > 0 ? INIT_NORMAL : INIT_ZERO, standard_deviation);
    param->has_decay = shard.rank == 3;
    if (experts->is_apart)
        param->group = param_list_group(params, &own_groups[OWN_WEIGHTS]);
    free(full);
    return param;
}

static struct shard split(const struct expert_choices *experts, struct shard whole, int dimension) {
    return experts->slices > 1 ? shard_split(whole, dimension, experts->slices, experts->slice) : whole;
}

// Rows of a gated MLP's first matmul are two segments, each split on its own.
static struct shard split_inner(const struct choices *choices, struct shard whole, int64_t F) {
    if (choices->is_gated) {
        whole.dimension = 1;
        whole.segment_count = 2;
        whole.segments[0] = whole.segments[1] = F;
    }
    return split(&choices->experts, whole, 1);
}

static void add_last_biases(struct experts *experts, struct param_list *params, const char *name) {
    const struct choices *choices = experts->choices;
    experts->fc2_bias =
        add_param(params, name, "linear_fc2.bias", choices, shard_whole(2, choices->experts.E, choices->C), 0);
    if (choices->experts.is_apart)
        experts->fc2_bias->group = param_list_group(params, &own_groups[OWN_BIASES]);
    else
        experts->fc2_bias->sums_gradient = choices->parts > 1;
}

// Fills in the members that the block reads, see struct sublayer.
static void set_sublayer(struct experts *experts, const struct sublayer_options *options) {
    const struct linear *router = &experts->router.linear, *shared = &experts->shared.fc2;
    struct sublayer *sublayer = &experts->sublayer;
    bool is_apart = experts->choices->experts.is_apart;
    experts->last = (struct linear){.weight = experts->fc2.weight, .in = experts->F, .out = experts->choices->C};
    if (is_apart) {
        experts->last.weight = experts->choices->experts.shared > 0 ? shared->weight : router->weight;
        sublayer->apart = (struct sublayer_apart){
            .first = experts->fc1.weight, .last = experts->fc2.weight, .biases = experts->fc2_bias};
    }
    sublayer->first = router;
    sublayer->last = &experts->last;
    sublayer->dropout_layer = options->dropout_layer;
}

// The matrices of all experts.
static struct grouped add_matrices(struct param_list *params, const char *name, const char *part,
                                   const struct sublayer_options *options, struct shard shard,
                                   double standard_deviation) {
    struct fp8 *fp8 = options->layer->expert_fp8;
    struct grouped grouped = {.weight = add_param(params, name, part, options->choices, shard, standard_deviation),
                              .fp8 = fp8};
    grouped.fp8_layer = fp8 ? fp8_add(fp8, grouped.weight) : 0;
    return grouped;
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
    experts->fc1 = add_matrices(params, name, "linear_fc1.weight", options,
                                split_inner(choices, shard_matrices(E, inner, C), F), deviation);
    if (choices->has_mlp_bias)
        experts->fc1_bias =
            add_param(params, name, "linear_fc1.bias", choices, split_inner(choices, shard_whole(2, E, inner), F), 0);
    experts->fc2 =
        add_matrices(params, name, "linear_fc2.weight", options, split(&choices->experts, shard_matrices(E, C, F), 2),
                     choices_output_deviation(choices, options->layers));
    if (choices->has_mlp_bias)
        add_last_biases(experts, params, name);
    experts->F = F / choices->experts.slices;
    set_sublayer(experts, options);
}

// Most rows that one rank's experts get from one rank: a row goes to an expert once.
static int64_t most_sent(const struct expert_choices *choices, int64_t N, int64_t capacity) {
    int64_t own = choices->E / choices->ranks, each = own < choices->K ? own : choices->K;
    return capacity > 0 && own * capacity < N * each ? own * capacity : N * each;
}

// Places, of `room`, filled by this rank's rows when all experts are full. Ranks share a capacity in equal parts.
static int64_t usual_places(const struct expert_choices *choices, const struct pass *pass, int64_t room,
                            int64_t capacity) {
    int64_t sharers = pass_whole_length(pass, pass_rows(pass)) / expert_rows_count(pass);
    int64_t part = (choices->E * capacity + sharers - 1) / sharers;
    return capacity > 0 && part < room ? part : room;
}

static bool is_shared_out(const struct experts *experts) {
    return experts->choices->experts.ranks > 1;
}

// Sends rows to places. Padding changes no number, so it is left out where ranks share a capacity.
static void sort(const struct experts *experts, const struct pass *pass, struct experts_saved *saved) {
    const struct expert_choices *choices = &experts->choices->experts;
    int64_t capacity = expert_rows_capacity(pass, choices), N = expert_rows_count(pass);
    int64_t step = expert_rows_step(&experts->fc1), aligned = expert_rows_aligned(&experts->fc1, pass);
    bool is_shared = capacity > 0 && expert_rows_share_capacity(pass), is_padded = choices->is_padded && capacity > 0;
    struct op_sort_slots op = {.capacity = is_shared ? 0 : capacity, .is_padded = is_padded && !is_shared};
    if (!is_shared_out(experts))  // otherwise rows are sorted once more where they arrive
        op.aligned = aligned;
    if (is_shared)
        op.kept =
            expert_rows_gather(pass, pass->scratch,
                               expert_rows_keep(pass, choices, saved->router.experts, saved->router.weights), "places");
    int64_t R = (slots_room(&op, N * choices->K, choices->E) + step - 1) / step * step;
    saved->experts = expert_rows_gather(pass, pass->activations, saved->router.experts, "chosen experts");
    saved->weights = expert_rows_gather(pass, pass->activations, saved->router.weights, "weights of experts");
    saved->offsets = op.offsets = arena_1d(pass->activations, DTYPE_I32, choices->E + 1);
    saved->sources = op.sources = arena_1d(pass->activations, DTYPE_I32, R);
    saved->places = op.places = arena_2d(pass->activations, DTYPE_I32, N, choices->K);
    op.experts = saved->experts;
    if (op.capacity > 0 && !choices->keeps_first)
        op.weights = saved->weights;
    op_sort_slots(pass->device, &op);
    if (is_shared_out(experts))
        dispatch_open(&saved->dispatch, pass, choices,
                      &(struct dispatch_slots){.offsets = saved->offsets,
                                               .sources = saved->sources,
                                               .weights = saved->weights,
                                               .usual = usual_places(choices, pass, R, capacity),
                                               .step = step,
                                               .aligned = aligned,
                                               .most = op.is_padded ? choices->E / choices->ranks * capacity
                                                                    : most_sent(choices, N, capacity)});
}

static struct experts_work work_of(const struct experts *experts, const struct experts_saved *saved) {
    const struct dispatch *dispatch = &saved->dispatch;
    int64_t R = saved->sources.shape[0];
    if (is_shared_out(experts))
        return (struct experts_work){dispatch->offsets, dispatch->sources, dispatch->weights,
                                     dispatch->sources.shape[0], dispatch->places_room};
    return (struct experts_work){saved->offsets, saved->sources, saved->weights, R, R};
}

// Copies rows (N, C) to the places of their experts: inputs of the first matmul, or gradients of the second's output.
// Returns the rows that the work's slots refer to: the arrived ones, in scratch, or the rows themselves.
static struct tensor bring_rows(const struct experts *experts, const struct pass *pass,
                                const struct experts_saved *saved, enum fp8_role role, struct operand to,
                                struct tensor rows) {
    struct tensor arrived = rows;
    struct op_gather_slots op = {.sources = saved->sources, .per_row = experts->choices->experts.K};
    if (is_shared_out(experts)) {
        arrived = dispatch_take(&saved->dispatch, pass->scratch, pass->dtype, rows.shape[1]);
        size_t mark = arena_mark(pass->scratch);
        op.x = rows;
        op.y = arena_2d(pass->scratch, pass->dtype, saved->sources.shape[0], rows.shape[1]);
        op_gather_slots(pass->device, &op);
        dispatch_send(&saved->dispatch, pass, arrived, op.y, "rows to experts");
        arena_release(pass->scratch, mark);
        op = (struct op_gather_slots){.sources = saved->dispatch.sources, .per_row = 1};
    }
    op.x = arrived;
    struct experts_work work = work_of(experts, saved);
    work_gather(&work, role == FP8_INPUT ? &experts->fc1 : &experts->fc2, pass, role, to, &op);
    return arrived;
}

static struct expert_stage unit_of(const struct experts *experts) {
    return (struct expert_stage){&experts->fc1, &experts->fc2, experts->fc1_bias, experts->choices};
}

// The input of the activation from x (N, C).
static void forward_before(const struct experts *experts, const struct pass *pass, struct experts_saved *saved,
                           struct tensor x) {
    struct experts_work work = work_of(experts, saved);
    saved->x = work_take_input(&work, &experts->fc1, pass);
    saved->before = work_take(&work, pass->activations, pass->dtype, experts->fc1.weight->value.shape[1]);
    size_t mark = arena_mark(pass->scratch);
    struct operand places = work_take_value(&work, &experts->fc1, pass, saved->x);
    (void)bring_rows(experts, pass, saved, FP8_INPUT, places, x);
    if (is_shared_out(experts))
        dispatch_await_weights(&saved->dispatch);
    grouped_forward(&experts->fc1, pass, saved->before, places, work.offsets);
    arena_release(pass->scratch, mark);
}

// The operation that sums the experts' output y (R, C) into the rows of the work's slots, with the experts' biases.
static struct op_sum_slots sum_of(const struct experts *experts, const struct pass *pass,
                                  const struct experts_saved *saved, struct tensor y) {
    bool is_apart = is_shared_out(experts);
    struct op_sum_slots op = {.y = y, .places = is_apart ? saved->dispatch.places : saved->places};
    if (experts->fc2_bias && expert_rows_is_first(pass)) {
        op.bias = experts->fc2_bias->value;
        op.experts = is_apart ? saved->dispatch.experts : saved->experts;
        op.weights = is_apart ? saved->dispatch.weights : saved->weights;
    }
    return op;
}

static bool has_shared(const struct experts *experts) {
    return experts->choices->experts.shared > 0;
}

// Rows of the layer's input, or of the gradient of its output, and the resulting sums.
struct expert_flow {
    struct tensor own, rows;  // (n, C), (N, C): this rank's rows, and the rows that it brings to experts
    struct tensor sum;        // (N, C)
    // (n, C): the output of shared experts, summed over all tensor-parallel ranks. None if these have the same rows:
    // then it is a part of `sum`.
    struct tensor part;
};

static struct expert_flow open_flow(const struct experts *experts, const struct pass *pass, struct tensor own,
                                    struct tensor out, const char *name) {
    int64_t N = expert_rows_count(pass), n = own.shape[0], C = experts->choices->C;
    struct expert_flow flow = {.own = own, .rows = expert_rows_gather(pass, pass->scratch, own, name)};
    flow.sum = N == n ? out : arena_2d(pass->scratch, pass->dtype, N, C);
    if (has_shared(experts) && !expert_rows_are_whole(pass))
        flow.part = arena_2d(pass->scratch, pass->dtype, n, C);
    return flow;
}

static void close_flow(const struct pass *pass, const struct expert_flow *flow, struct tensor out, const char *name) {
    expert_rows_sum(pass, out, flow->sum, name);
    if (flow->part.data)
        op_dropout_add(pass->device, &(struct op_dropout_add){.out = out, .x = flow->part, .residual = out});
}

// Input of the shared experts: all rows of the tensor-parallel ranks.
static struct tensor shared_input(const struct pass *pass, const struct expert_flow *flow) {
    return flow->part.data ? pass_gather(pass, pass->scratch, flow->own, "input of shared experts") : flow->rows;
}

static void forward_shared(const struct experts *experts, const struct pass *pass, struct experts_saved *saved,
                           const struct expert_flow *flow) {
    if (!flow->part.data) {
        shared_experts_forward(&experts->shared, pass, &saved->shared, flow->sum, flow->rows);
        return;
    }
    struct tensor all = shared_input(pass, flow);
    struct tensor out = arena_2d(pass->scratch, pass->dtype, all.shape[0], all.shape[1]);
    shared_experts_forward(&experts->shared, pass, &saved->shared, out, all);
    pass_sum(pass, flow->part, out, "output of shared experts");
}

// The sum of y (R, C) of all slots, and the output of shared experts, computed while y is on its way back.
static void forward_sum(const struct experts *experts, const struct pass *pass, struct experts_saved *saved,
                        const struct expert_flow *flow, struct tensor y) {
    struct op_sum_slots op = sum_of(experts, pass, saved, y);
    struct comm_request request = {0};
    if (is_shared_out(experts)) {
        op.out = dispatch_take(&saved->dispatch, pass->scratch, pass->dtype, y.shape[1]);
        op_sum_slots(pass->device, &op);
        y = arena_2d(pass->scratch, pass->dtype, saved->sources.shape[0], y.shape[1]);
        request = dispatch_return_start(&saved->dispatch, pass, y, op.out, "rows from experts");
        if (has_shared(experts) && !pass->coroutine)
            comm_overlap(&request);
        op = (struct op_sum_slots){.y = y, .places = saved->places};
    }
    if (has_shared(experts))
        forward_shared(experts, pass, saved, flow);
    if (is_shared_out(experts))
        dispatch_await(pass, &request, 1);
    op.out = flow->sum;
    op.addend = has_shared(experts) && !flow->part.data ? flow->sum : (struct tensor){0};
    op_sum_slots(pass->device, &op);
}

// delta (n, C) from x (n, C). Activations for backward, except x, are kept in the pass's arena of activations.
static void forward_all(const struct experts *experts, const struct pass *pass, struct experts_saved *saved,
                        struct tensor delta, struct tensor x) {
    router_forward(&experts->router, pass, &saved->router, x);
    struct expert_flow flow = open_flow(experts, pass, x, delta, "layer input");
    sort(experts, pass, saved);
    struct experts_work work = work_of(experts, saved);
    struct expert_stage unit = unit_of(experts);
    struct tensor y = work_take(&work, pass->scratch, pass->dtype, experts->choices->C);
    forward_before(experts, pass, saved, flow.rows);
    size_t mark = arena_mark(pass->scratch);
    grouped_forward(&experts->fc2, pass, y, expert_activate(&unit, pass, &work, saved->before), work.offsets);
    arena_release(pass->scratch, mark);
    forward_sum(experts, pass, saved, &flow, y);
    close_flow(pass, &flow, delta, "layer output");
}

// Recomputes the activations for backward: omits the second matmuls, the return of rows from experts, and sums.
static void forward_again(const struct experts *experts, const struct pass *pass, struct experts_saved *saved,
                          struct tensor x) {
    router_forward(&experts->router, pass, &saved->router, x);
    struct tensor unused = arena_2d(pass->scratch, pass->dtype, x.shape[0], x.shape[1]);
    struct expert_flow flow = open_flow(experts, pass, x, unused, "layer input");
    sort(experts, pass, saved);
    forward_before(experts, pass, saved, flow.rows);
    if (has_shared(experts))
        shared_experts_again(&experts->shared, pass, &saved->shared, shared_input(pass, &flow));
}

// With recompute only x is kept.
static void forward(const struct sublayer *sublayer, const struct pass *pass, void *own, struct tensor delta,
                    struct operand x) {
    const struct experts *experts = (const struct experts *)sublayer;
    struct experts_saved *saved = own;
    struct pass inner = *pass;
    if ((has_shared(experts) || experts->choices->recomputes_experts) && pass->is_training) {
        saved->shared.x = arena_2d(pass->activations, pass->dtype, x.value.shape[0], x.value.shape[1]);
        op_copy(pass->device, &(struct op_copy){.dst = saved->shared.x, .src = x.value});
    }
    size_t mark = arena_mark(pass->scratch);
    if (experts->choices->recomputes_experts)
        inner = pass_in_scratch(pass, false);
    forward_all(experts, &inner, saved, delta, x.value);
    arena_release(pass->scratch, mark);
}

// Computes from dy (N, C) the gradients of the rows at their places, dplaces (R, C), of the work's weights, dweights,
// and of all experts.
static void backward_inner(const struct experts *experts, const struct pass *pass, const struct experts_saved *saved,
                           struct tensor dy, struct tensor dplaces, struct tensor dweights) {
    struct experts_work work = work_of(experts, saved);
    struct expert_stage unit = unit_of(experts);
    struct operand after = operand_of(work_take(&work, pass->scratch, pass->dtype, experts->F));
    struct operand ddown = work_take_gradient(&work, &experts->fc2, pass, dplaces);
    struct tensor dout = bring_rows(experts, pass, saved, FP8_GRADIENT, ddown, dy);
    grouped_backward_input(&experts->fc2, pass, after.value, ddown, work.offsets);
    struct operand dbefore = expert_activate_backward(&unit, pass, &work, saved->before, &after, dweights);
    if (experts->fc2_bias && expert_rows_is_first(pass))
        op_slot_bias_backward(pass->device, &(struct op_slot_bias_backward){.dbias = experts->fc2_bias->grad,
                                                                            .dweights = dweights,
                                                                            .dout = dout,
                                                                            .bias = experts->fc2_bias->value,
                                                                            .weights = work.weights,
                                                                            .offsets = work.offsets,
                                                                            .sources = work.sources});
    grouped_backward_weight(&experts->fc2, pass, ddown, after, work.offsets, work.room);
    grouped_backward_weight(&experts->fc1, pass, dbefore, saved->x, work.offsets, work.room);
    grouped_backward_input(&experts->fc1, pass, dplaces, dbefore, work.offsets);
}

// Sends the gradients of arrived rows (R, C) and of their weights back to the ranks they came from. Returns the
// gradients of this rank's rows, at the places of its slots; sets `dweights` (N, K).
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
    dispatch_await(pass, requests, 2);
    op_gather_slots(pass->device, &(struct op_gather_slots){.y = tensor_2d(dweights.data, DTYPE_F32, slots, 1),
                                                            .x = weights,
                                                            .sources = tensor_flat(saved->places),
                                                            .per_row = 1});
    return rows;
}

// Computes from dy (N, C) the gradients of the rows brought to experts, sum (N, C), and of weights, dweights (N, K).
static void backward_experts(const struct experts *experts, const struct pass *pass, const struct experts_saved *saved,
                             struct tensor dy, struct tensor sum, struct tensor dweights) {
    struct experts_work work = work_of(experts, saved);
    struct tensor dplaces = work_take(&work, pass->scratch, pass->dtype, experts->choices->C);
    if (is_shared_out(experts)) {
        struct tensor darrived = dispatch_take(&saved->dispatch, pass->scratch, DTYPE_F32, 1);
        backward_inner(experts, pass, saved, dy, dplaces, darrived);
        dplaces = return_gradients(pass, saved, dplaces, darrived, dweights);
    } else {
        backward_inner(experts, pass, saved, dy, dplaces, dweights);
    }
    op_sum_slots(pass->device, &(struct op_sum_slots){.out = sum, .y = dplaces, .places = saved->places});
}

static void backward_shared(const struct experts *experts, const struct pass *pass, const struct experts_saved *saved,
                            const struct expert_flow *flow) {
    if (!flow->part.data) {
        shared_experts_backward(&experts->shared, pass, &saved->shared, flow->sum, flow->rows);
        return;
    }
    struct tensor dy = pass_gather(pass, pass->scratch, flow->own, "output gradient of shared experts");
    struct tensor dx = arena_2d(pass->scratch, pass->dtype, dy.shape[0], dy.shape[1]);
    device_zero(pass->device, dx);
    shared_experts_backward(&experts->shared, pass, &saved->shared, dx, dy);
    pass_sum(pass, flow->part, dx, "input gradient of shared experts");
}

// If the stream is split, the gradient of the rows' weights is first summed over the ranks that split experts; if not,
// the router's contribution to dx is summed with the rest.
static struct first_gradients backward_all(const struct experts *experts, const struct pass *pass,
                                           const struct experts_saved *saved, struct tensor dx, struct tensor ddelta) {
    int64_t N = expert_rows_count(pass), n = dx.shape[0], K = experts->choices->experts.K;
    struct expert_flow flow = open_flow(experts, pass, ddelta, dx, "layer output gradient");
    struct tensor dweights = arena_2d(pass->scratch, DTYPE_F32, N, K), own_dweights = dweights;
    struct first_gradients gradients = {0};
    backward_experts(experts, pass, saved, flow.rows, flow.sum, dweights);
    if (!pass->splits_rows)
        gradients = router_backward(&experts->router, pass, &saved->router, flow.sum, dweights);
    if (has_shared(experts))
        backward_shared(experts, pass, saved, &flow);
    close_flow(pass, &flow, dx, "layer input gradient");
    if (!pass->splits_rows)
        return gradients;
    if (N != n)
        own_dweights = arena_2d(pass->scratch, DTYPE_F32, n, K);
    expert_rows_sum(pass, own_dweights, dweights, "gradients of weights of experts");
    return router_backward(&experts->router, pass, &saved->router, dx, own_dweights);
}

static struct first_gradients backward(const struct sublayer *sublayer, const struct pass *pass, const void *own,
                                       struct tensor dx, struct tensor ddelta) {
    const struct experts *experts = (const struct experts *)sublayer;
    struct experts_saved saved = *(const struct experts_saved *)own;
    if (experts->choices->recomputes_experts) {
        struct pass again = pass_in_scratch(pass, true);
        forward_again(experts, &again, &saved, saved.shared.x);
    }
    return backward_all(experts, pass, &saved, dx, ddelta);
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
