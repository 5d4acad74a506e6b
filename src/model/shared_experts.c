// Shared experts, forward and backward. See experts.h.
#include "model/experts.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

static const struct router_rule gate_rule = {.score = ROUTER_SIGMOID, .factor = 1};

// Each rank that shares the layer has a partial gradient of the gate's weight, as with a router.
static void build_gate(struct shared_experts *shared, struct param_list *params, const char *name) {
    const struct choices *choices = shared->choices;
    char *full = memory_printf("%s.shared_experts.gate_weight", name);
    struct param *weight =
        param_add(params, full, shard_whole(2, 1, choices->C), INIT_NORMAL, choices->standard_deviation);
    weight->sums_gradient = choices->parts > 1;
    shared->gate = (struct linear){.weight = weight,
                                   .in = choices->C,
                                   .out = 1,
                                   .sums_input = choices->parts > 1,
                                   .scale = 1,
                                   .strategy = &linear_plain};
    free(full);
}

void shared_experts_build(struct shared_experts *shared, struct param_list *params, const char *name,
                          const struct sublayer_options *options) {
    const struct choices *choices = options->choices;
    int64_t F = choices->experts.shared;
    const int64_t segments[SHARD_MAX_SEGMENTS] = {F, choices->is_gated ? F : 0};
    struct linear_options fc1 = {.weight = choices_split(choices, linear_segments(choices->C, segments), 0),
                                 .standard_deviation = choices->standard_deviation};
    struct linear_options fc2 = {.weight = choices_split(choices, shard_whole(2, choices->C, F), 1),
                                 .scale = choices->residual_scale,
                                 .standard_deviation = choices_output_deviation(choices, options->layers)};
    char *fc1_name = memory_printf("%s.shared_experts.linear_fc1", name);
    char *fc2_name = memory_printf("%s.shared_experts.linear_fc2", name);
    shared->choices = choices;
    linear_build(&shared->fc1, params, fc1_name, &fc1);
    linear_build(&shared->fc2, params, fc2_name, &fc2);
    if (choices->experts.has_shared_gate)
        build_gate(shared, params, name);
    shared->step = (struct activation_step){.from = &shared->fc1,
                                            .to = &shared->fc2,
                                            .activation = choices->activation,
                                            .is_gated = choices->is_gated,
                                            .rule = choices->glu,
                                            .is_recomputed = choices->recomputes_activation};
    free(fc1_name);
    free(fc2_name);
}

// y (N, out) = x W^T with this rank's part of W.
static void multiply(const struct linear *linear, const struct pass *pass, struct tensor y, struct tensor x) {
    op_matmul(
        pass->device,
        &(struct op_matmul){.a = x, .b = linear->weight->value, .d = y, .transpose_b = true, .alpha = linear->scale});
}

// dx (N, in) = dy W, or += with `beta` 1.
static void multiply_back(const struct linear *linear, const struct pass *pass, struct tensor dx, struct tensor dy,
                          float beta) {
    op_matmul(pass->device,
              &(struct op_matmul){.a = dy, .b = linear->weight->value, .d = dx, .alpha = linear->scale, .beta = beta});
}

// Computes the weights of all rows, and places, sources and offsets that map each row to itself.
static void open_gate(const struct shared_experts *shared, const struct pass *pass, struct shared_experts_saved *saved,
                      struct tensor x) {
    int64_t N = x.shape[0];
    saved->logits = arena_2d(pass->activations, DTYPE_F32, N, 1);
    saved->weights = arena_2d(pass->activations, DTYPE_F32, N, 1);
    saved->experts = arena_2d(pass->activations, DTYPE_I32, N, 1);
    saved->places = arena_2d(pass->activations, DTYPE_I32, N, 1);
    saved->offsets = arena_1d(pass->activations, DTYPE_I32, 2);
    saved->sources = arena_1d(pass->activations, DTYPE_I32, N);
    multiply(&shared->gate, pass, saved->logits, x);
    op_route_forward(pass->device, &(struct op_route_forward){.experts = saved->experts,
                                                              .weights = saved->weights,
                                                              .logits = saved->logits,
                                                              .rule = gate_rule});
    op_sort_slots(pass->device, &(struct op_sort_slots){.offsets = saved->offsets,
                                                        .sources = saved->sources,
                                                        .places = saved->places,
                                                        .experts = saved->experts});
}

// Returns the input of fc2, and saves activations for backward.
static struct tensor activate_gated(const struct shared_experts *shared, const struct pass *pass,
                                    struct shared_experts_saved *saved, struct tensor x) {
    int64_t N = x.shape[0];
    open_gate(shared, pass, saved, x);
    saved->before = arena_2d(pass->activations, pass->dtype, N, shared->fc1.out);
    struct tensor after = arena_2d(pass->scratch, pass->dtype, N, shared->fc2.in);
    multiply(&shared->fc1, pass, saved->before, x);
    op_expert_activation_forward(pass->device,
                                 &(struct op_expert_activation_forward){.y = after,
                                                                        .x = saved->before,
                                                                        .weights = saved->weights,
                                                                        .offsets = saved->offsets,
                                                                        .sources = saved->sources,
                                                                        .activation = shared->step.activation,
                                                                        .is_gated = shared->step.is_gated,
                                                                        .rule = shared->step.rule});
    return after;
}

static struct tensor activate(const struct shared_experts *shared, const struct pass *pass,
                              struct shared_experts_saved *saved, struct tensor x) {
    if (shared->gate.weight)
        return activate_gated(shared, pass, saved, x);
    struct pass whole = *pass;
    whole.splits_rows = false;
    linear_activate(&shared->step, &whole, &saved->activation, operand_of(x));
    return saved->activation.after.value;
}

void shared_experts_again(const struct shared_experts *shared, const struct pass *pass,
                          struct shared_experts_saved *saved, struct tensor x) {
    if (!shared->choices->recomputes_shared_experts)
        (void)activate(shared, pass, saved, x);
}

void shared_experts_forward(const struct shared_experts *shared, const struct pass *pass,
                            struct shared_experts_saved *saved, struct tensor out, struct tensor x) {
    struct pass inner = shared->choices->recomputes_shared_experts ? pass_in_scratch(pass, false) : *pass;
    multiply(&shared->fc2, pass, out, activate(shared, &inner, saved, x));
}

// Returns the gradient of fc1's output, and sets `after` to the input of fc2.
static struct operand backward_gated(const struct shared_experts *shared, const struct pass *pass,
                                     const struct shared_experts_saved *saved, struct tensor dx, struct tensor dy,
                                     struct operand *after) {
    int64_t N = dy.shape[0];
    struct tensor dafter = arena_2d(pass->scratch, pass->dtype, N, shared->fc2.in);
    struct tensor dweights = arena_2d(pass->scratch, DTYPE_F32, N, 1);
    struct tensor exact = arena_2d(pass->scratch, DTYPE_F32, N, 1);
    struct tensor dlogits = arena_2d(pass->scratch, pass->dtype, N, 1);
    multiply_back(&shared->fc2, pass, dafter, dy, 0);
    op_expert_activation_backward(pass->device,
                                  &(struct op_expert_activation_backward){.dx = saved->before,
                                                                          .y = dafter,
                                                                          .dweights = dweights,
                                                                          .dy = dafter,
                                                                          .x = saved->before,
                                                                          .weights = saved->weights,
                                                                          .offsets = saved->offsets,
                                                                          .sources = saved->sources,
                                                                          .activation = shared->step.activation,
                                                                          .is_gated = shared->step.is_gated,
                                                                          .rule = shared->step.rule});
    op_route_backward(pass->device, &(struct op_route_backward){.dlogits = exact,
                                                                .dweights = dweights,
                                                                .logits = saved->logits,
                                                                .experts = saved->experts,
                                                                .rule = gate_rule});
    op_copy(pass->device, &(struct op_copy){.dst = dlogits, .src = exact});
    linear_backward_weight(&shared->gate, pass, operand_of(dlogits), operand_of(saved->x));
    multiply_back(&shared->gate, pass, dx, dlogits, 1);
    *after = operand_of(dafter);
    return operand_of(saved->before);
}

void shared_experts_backward(const struct shared_experts *shared, const struct pass *pass,
                             const struct shared_experts_saved *saved, struct tensor dx, struct tensor dy) {
    struct operand after, dbefore;
    struct shared_experts_saved again = *saved;
    if (shared->choices->recomputes_shared_experts) {
        struct pass inner = pass_in_scratch(pass, true);
        (void)activate(shared, &inner, &again, pass_gather(pass, pass->scratch, saved->x, "input of shared experts"));
    }
    if (shared->gate.weight)
        dbefore = backward_gated(shared, pass, &again, dx, dy, &after);
    else
        dbefore = linear_activate_backward(&shared->step, pass, &again.activation, operand_of(dy), &after);
    linear_backward_weight(&shared->fc2, pass, operand_of(dy), after);
    linear_backward_weight(&shared->fc1, pass, dbefore, operand_of(saved->x));
    multiply_back(&shared->fc1, pass, dx, dbefore.value, 1);
}
