// Checked entry points of mixtures of experts. Each verifies the contract written beside its struct in ops_experts.h,
// then calls the device's table.
#include "ops/check.h"

static void check_score(const char *op, enum router_score score) {
    check_rule(op, score >= 0 && score < ROUTER_SCORE_COUNT, "unknown score");
}

static void check_sizes(const char *op, int64_t experts, int64_t chosen) {
    check_rule(op, experts >= 1 && experts <= ROUTER_MOST_EXPERTS, "there must be 1 to 1024 experts");
    check_rule(op, chosen >= 1 && chosen <= experts && chosen <= ROUTER_MOST_CHOSEN,
               "a row must choose 1 to 32 experts, and no more than there are");
}

static void check_router_rule(const char *op, const struct router_rule *rule, int64_t experts, int64_t chosen) {
    check_score(op, rule->score);
    check_sizes(op, experts, chosen);
    if (rule->groups == 0)
        return;
    int64_t groups = rule->groups, best = rule->chosen_groups;
    check_rule(op, groups > 0 && experts % groups == 0, "the experts must be a multiple of the groups");
    check_rule(op, best >= 1 && best <= groups, "at least one group and at most all must be chosen");
    int64_t judged = router_group_best(rule, chosen);
    check_rule(op, judged >= 1 && judged <= experts / groups && chosen <= best * (experts / groups),
               "the chosen groups must have enough experts, and each must be able to give one");
}

static void check_matrix(const char *op, const char *name, struct tensor t) {
    check_rule(op, t.data && t.rank == 2, name);
}

// Logits (N, E), and experts (N, K) that the rows chose by them.
static void check_choice(const char *op, struct tensor logits, struct tensor experts, const struct router_rule *rule) {
    check_matrix(op, "logits must be a matrix", logits);
    check_matrix(op, "experts must be a matrix", experts);
    check_router_rule(op, rule, logits.shape[1], experts.shape[1]);
    check_tensor(op, "logits", logits, check_2d(DTYPE_F32, logits.shape[0], logits.shape[1]));
    check_tensor(op, "experts", experts, check_2d(DTYPE_I32, logits.shape[0], experts.shape[1]));
}

void op_route_forward(struct device *device, const struct op_route_forward *op) {
    const char *name = "op_route_forward";
    check_choice(name, op->logits, op->experts, &op->rule);
    int64_t rows = op->logits.shape[0], experts = op->logits.shape[1], chosen = op->experts.shape[1];
    check_tensor(name, "weights", op->weights, check_2d(DTYPE_F32, rows, chosen));
    check_optional(name, "counts", op->counts, check_1d(DTYPE_F32, experts));
    check_optional(name, "bias", op->bias, check_1d(DTYPE_F32, experts));
    check_rule(name,
               !op->bias.data || op->biases_logits || op->rule.score == ROUTER_SIGMOID ||
                   op->rule.score == ROUTER_SQRT_SOFTPLUS,
               "a softmax has no bias");
    check_rule(name, !op->biases_logits || op->rule.groups == 0, "a bias of logits goes with no groups");
    check_apart(name, "weights", op->weights, "logits", op->logits);
    device->ops->route_forward(device, op);
}

void op_route_backward(struct device *device, const struct op_route_backward *op) {
    const char *name = "op_route_backward";
    check_choice(name, op->logits, op->experts, &op->rule);
    check_tensor(name, "dlogits", op->dlogits, check_2d(DTYPE_F32, op->logits.shape[0], op->logits.shape[1]));
    check_tensor(name, "dweights", op->dweights, check_2d(DTYPE_F32, op->experts.shape[0], op->experts.shape[1]));
    check_apart(name, "dlogits", op->dlogits, "logits", op->logits);
    device->ops->route_backward(device, op);
}

static void check_sequences(const char *op, struct tensor sums, int64_t rows) {
    check_rule(op, sums.rank == 2 && sums.shape[0] >= 1 && rows % sums.shape[0] == 0,
               "the rows must be a multiple of the sequences");
}

void op_balance_forward(struct device *device, const struct op_balance_forward *op) {
    const char *name = "op_balance_forward";
    check_matrix(name, "logits must be a matrix", op->logits);
    int64_t rows = op->logits.shape[0], experts = op->logits.shape[1];
    check_tensor(name, "logits", op->logits, check_2d(DTYPE_F32, rows, experts));
    check_score(name, op->score);
    check_sizes(name, experts, op->counts.data ? op->chosen : 1);
    if (op->sums.data) {
        check_sequences(name, op->sums, rows);
        check_tensor(name, "sums", op->sums, check_2d(DTYPE_F32, op->sums.shape[0], experts));
        check_optional(name, "counts", op->counts, check_2d(DTYPE_F32, op->sums.shape[0], experts));
    }
    check_rule(name, op->sums.data || !op->counts.data, "counts need sums");
    check_optional(name, "z", op->z, check_1d(DTYPE_F32, 1));
    device->ops->balance_forward(device, op);
}

void op_balance_backward(struct device *device, const struct op_balance_backward *op) {
    const char *name = "op_balance_backward";
    check_matrix(name, "logits must be a matrix", op->logits);
    int64_t rows = op->logits.shape[0], experts = op->logits.shape[1];
    check_tensor(name, "logits", op->logits, check_2d(DTYPE_F32, rows, experts));
    check_tensor(name, "dlogits", op->dlogits, check_2d(DTYPE_F32, rows, experts));
    check_score(name, op->score);
    check_sizes(name, experts, 1);
    if (op->slopes.data) {
        check_sequences(name, op->slopes, rows);
        check_tensor(name, "slopes", op->slopes, check_2d(DTYPE_F32, op->slopes.shape[0], experts));
    }
    check_optional(name, "by", op->by, check_1d(DTYPE_F32, 1));
    check_apart(name, "dlogits", op->dlogits, "logits", op->logits);
    device->ops->balance_backward(device, op);
}

void op_balance_bias(struct device *device, const struct op_balance_bias *op) {
    const char *name = "op_balance_bias";
    check_matrix(name, "bias must be a matrix", op->bias);
    struct tensor matrix = check_2d(DTYPE_F32, op->bias.shape[0], op->bias.shape[1]);
    check_tensor(name, "bias", op->bias, matrix);
    check_tensor(name, "counts", op->counts, matrix);
    device->ops->balance_bias(device, op);
}

void op_balance_load(struct device *device, const struct op_balance_load *op) {
    const char *name = "op_balance_load";
    check_matrix(name, "load must be a matrix", op->load);
    struct tensor matrix = check_2d(DTYPE_F32, op->load.shape[0], op->load.shape[1]);
    check_tensor(name, "load", op->load, matrix);
    check_tensor(name, "counts", op->counts, matrix);
    check_apart(name, "load", op->load, "counts", op->counts);
    device->ops->balance_load(device, op);
}

void op_sinkhorn(struct device *device, const struct op_sinkhorn *op) {
    const char *name = "op_sinkhorn";
    check_matrix(name, "logits must be a matrix", op->logits);
    int64_t rows = op->logits.shape[0], experts = op->logits.shape[1];
    check_rule(name, rows > 0, "there must be rows");
    check_sizes(name, experts, 1);
    check_tensor(name, "logits", op->logits, check_2d(DTYPE_F32, rows, experts));
    check_tensor(name, "bias", op->bias, check_1d(DTYPE_F32, experts));
    check_apart(name, "bias", op->bias, "logits", op->logits);
    device->ops->sinkhorn(device, op);
}

// The experts, by the offsets of their places.
static int64_t check_offsets(const char *op, struct tensor offsets) {
    check_rule(op, offsets.data && offsets.rank == 1 && offsets.shape[0] >= 2, "offsets must be a vector of E + 1");
    check_tensor(op, "offsets", offsets, check_1d(DTYPE_I32, offsets.shape[0]));
    check_rule(op, offsets.shape[0] - 1 <= ROUTER_MOST_EXPERTS, "there must be 1 to 1024 experts");
    return offsets.shape[0] - 1;
}

void op_sort_slots(struct device *device, const struct op_sort_slots *op) {
    const char *name = "op_sort_slots";
    int64_t experts = check_offsets(name, op->offsets);
    check_matrix(name, "experts must be a matrix", op->experts);
    struct tensor slots = check_2d(DTYPE_I32, op->experts.shape[0], op->experts.shape[1]);
    int64_t count = tensor_count(slots);
    check_tensor(name, "experts", op->experts, slots);
    check_tensor(name, "places", op->places, slots);
    check_rule(name, op->sources.data && op->sources.rank == 1, "sources must be a vector");
    int64_t places = op->sources.shape[0];
    check_tensor(name, "sources", op->sources, check_1d(DTYPE_I32, places));
    check_optional(name, "weights", op->weights, check_2d(DTYPE_F32, slots.shape[0], slots.shape[1]));
    check_optional(name, "kept", op->kept, slots);
    check_rule(name, op->capacity >= 0 && (op->capacity > 0 || (!op->weights.data && !op->is_padded)),
               "weights and padding need a capacity");
    check_rule(name, op->aligned >= 0, "places cannot be aligned so");
    check_rule(name, places >= slots_room(op, count, experts),
               "sources must have room for all slots, or for the capacity of all experts");
    check_rule(name, places <= INT32_MAX && count <= INT32_MAX, "there must be fewer than 2^31 slots and places");
    check_apart(name, "places", op->places, "experts", op->experts);
    check_apart(name, "places", op->places, "kept", op->kept);
    device->ops->sort_slots(device, op);
}

// A contiguous activation of two dimensions; its columns.
static int64_t check_rows(struct device *device, const char *op, const char *name, struct tensor t) {
    check_activation(device, op, name, t, 2);
    check_tensor(op, name, t, check_2d(t.dtype, t.shape[0], t.shape[1]));
    return t.shape[1];
}

void op_gather_slots(struct device *device, const struct op_gather_slots *op) {
    const char *name = "op_gather_slots";
    int64_t columns = check_rows(device, name, "y", op->y);
    (void)check_rows(device, name, "x", op->x);
    check_tensor(name, "x", op->x, check_2d(op->y.dtype, op->x.shape[0], columns));
    check_tensor(name, "sources", op->sources, check_1d(DTYPE_I32, op->y.shape[0]));
    check_rule(name, op->per_row >= 1, "a row must have at least one slot");
    check_apart(name, "y", op->y, "x", op->x);
    device->ops->gather_slots(device, op);
}

// Row-wise biases (E, C) in the dtype of the rows.
static void check_biases(const char *op, struct tensor bias, struct tensor rows) {
    check_rule(op, bias.rank == 2, "bias must be a matrix");
    check_tensor(op, "bias", bias, check_2d(rows.dtype, bias.shape[0], rows.shape[1]));
}

void op_sum_slots(struct device *device, const struct op_sum_slots *op) {
    const char *name = "op_sum_slots";
    int64_t columns = check_rows(device, name, "out", op->out), rows = op->out.shape[0];
    (void)check_rows(device, name, "y", op->y);
    check_tensor(name, "y", op->y, check_2d(op->out.dtype, op->y.shape[0], columns));
    check_matrix(name, "places must be a matrix", op->places);
    int64_t chosen = op->places.shape[1];
    check_tensor(name, "places", op->places, check_2d(DTYPE_I32, rows, chosen));
    check_optional(name, "addend", op->addend, check_2d(op->out.dtype, rows, columns));
    if (op->bias.data) {
        check_biases(name, op->bias, op->out);
        check_tensor(name, "experts", op->experts, check_2d(DTYPE_I32, rows, chosen));
        check_tensor(name, "weights", op->weights, check_2d(DTYPE_F32, rows, chosen));
    }
    check_apart(name, "out", op->out, "y", op->y);
    check_apart_or_same(name, "out", op->out, "addend", op->addend);
    device->ops->sum_slots(device, op);
}

void op_slot_bias_backward(struct device *device, const struct op_slot_bias_backward *op) {
    const char *name = "op_slot_bias_backward";
    int64_t columns = check_rows(device, name, "dout", op->dout), experts = check_offsets(name, op->offsets);
    check_biases(name, op->bias, op->dout);
    check_rule(name, op->bias.shape[0] == experts, "there must be a bias for each expert");
    check_tensor(name, "dbias", op->dbias, check_2d(DTYPE_F32, experts, columns));
    check_matrix(name, "weights must be a matrix", op->weights);
    struct tensor slots = check_2d(DTYPE_F32, op->dout.shape[0], op->weights.shape[1]);
    check_tensor(name, "weights", op->weights, slots);
    check_tensor(name, "dweights", op->dweights, slots);
    check_tensor(name, "sources", op->sources, check_1d(DTYPE_I32, op->sources.shape[0]));
    check_apart(name, "dweights", op->dweights, "weights", op->weights);
    device->ops->slot_bias_backward(device, op);
}

// What the two halves of an expert's activation share: the place of a row and its weight.
static void check_expert_rows(const char *op, struct tensor x, struct tensor weights, struct tensor sources) {
    check_matrix(op, "weights must be a matrix", weights);
    check_tensor(op, "weights", weights, check_2d(DTYPE_F32, weights.shape[0], weights.shape[1]));
    check_tensor(op, "sources", sources, check_1d(DTYPE_I32, x.shape[0]));
}

void op_expert_activation_forward(struct device *device, const struct op_expert_activation_forward *op) {
    const char *name = "op_expert_activation_forward";
    int64_t width = check_rows(device, name, "y", op->y) * (op->is_gated ? 2 : 1);
    check_tensor(name, "x", op->x, check_2d(op->y.dtype, op->y.shape[0], width));
    int64_t experts = check_offsets(name, op->offsets);
    check_optional(name, "bias", op->bias, check_2d(op->y.dtype, experts, width));
    check_expert_rows(name, op->x, op->weights, op->sources);
    check_apart(name, "y", op->y, "x", op->x);
    check_rule(name, op->activation >= 0 && op->activation < ACTIVATION_COUNT, "unknown activation");
    device->ops->expert_activation_forward(device, op);
}

void op_expert_activation_backward(struct device *device, const struct op_expert_activation_backward *op) {
    const char *name = "op_expert_activation_backward";
    int64_t columns = check_rows(device, name, "dy", op->dy), width = columns * (op->is_gated ? 2 : 1);
    struct tensor wide = check_2d(op->dy.dtype, op->dy.shape[0], width);
    check_tensor(name, "x", op->x, wide);
    check_tensor(name, "dx", op->dx, wide);
    check_optional(name, "y", op->y, check_2d(op->dy.dtype, op->dy.shape[0], columns));
    int64_t experts = check_offsets(name, op->offsets);
    check_optional(name, "bias", op->bias, check_2d(op->dy.dtype, experts, width));
    check_optional(name, "dbias", op->dbias, check_2d(DTYPE_F32, experts, width));
    check_rule(name, !op->dbias.data || op->bias.data, "dbias needs a bias");
    check_expert_rows(name, op->x, op->weights, op->sources);
    check_tensor(name, "dweights", op->dweights, check_2d(DTYPE_F32, op->weights.shape[0], op->weights.shape[1]));
    check_apart_or_same(name, "dx", op->dx, "x", op->x);
    check_apart(name, "dx", op->dx, "dy", op->dy);
    check_apart_or_same(name, "y", op->y, "dy", op->dy);
    check_apart(name, "y", op->y, "x", op->x);
    check_apart(name, "y", op->y, "dx", op->dx);
    check_apart(name, "dweights", op->dweights, "weights", op->weights);
    check_rule(name, op->activation >= 0 && op->activation < ACTIVATION_COUNT, "unknown activation");
    device->ops->expert_activation_backward(device, op);
}

// What is stored of (rows, columns) in fp8, of one type.
static void check_stored_as(struct device *device, const char *op, const struct operand *y, enum dtype dtype,
                            struct tensor shape) {
    check_stored(device, op, y, shape.shape[0], shape.shape[1]);
    enum dtype stored = y->value.data ? y->value.dtype : y->transposed.dtype;
    bool is_any = y->scaling != SCALING_TENSOR && dtype == DTYPE_E5M2;
    check_rule(op, (!y->value.data && !y->transposed.data) || stored == dtype || (is_any && stored == DTYPE_E4M3),
               "activations are stored as E4M3, gradients as E5M2");
}

static void check_steps(const char *op, int64_t rows, int64_t columns) {
    enum { ROW_STEP = 4, COLUMN_STEP = 16 };
    check_rule(op, rows % ROW_STEP == 0 && columns % COLUMN_STEP == 0,
               "the columns must be a multiple of 16, the rows of 4");
}

void op_quantize_slots(struct device *device, const struct op_quantize_slots *op) {
    const char *name = "op_quantize_slots";
    int64_t columns = check_rows(device, name, "x", op->x), rows = op->sources.shape[0];
    check_tensor(name, "sources", op->sources, check_1d(DTYPE_I32, rows));
    check_stored(device, name, &op->y, rows, columns);
    check_steps(name, rows, columns);
    check_rule(name, op->per_row >= 1, "a row must have at least one slot");
    device->ops->quantize_slots(device, op);
}

void op_quantize_expert_forward(struct device *device, const struct op_quantize_expert_forward *op) {
    const char *name = "op_quantize_expert_forward";
    int64_t width = check_rows(device, name, "x", op->x), rows = op->x.shape[0];
    int64_t columns = op->is_gated ? width / 2 : width;
    check_steps(name, rows, columns);
    check_rule(name, !op->is_gated || width % 2 == 0, "a gated row must have two halves");
    check_stored_as(device, name, &op->y, DTYPE_E4M3, check_2d(DTYPE_E4M3, rows, columns));
    (void)check_offsets(name, op->offsets);
    check_expert_rows(name, op->x, op->weights, op->sources);
    check_rule(name, op->activation >= 0 && op->activation < ACTIVATION_COUNT, "unknown activation");
    device->ops->quantize_expert_forward(device, op);
}

void op_quantize_expert_backward(struct device *device, const struct op_quantize_expert_backward *op) {
    const char *name = "op_quantize_expert_backward";
    int64_t columns = check_rows(device, name, "dy", op->dy), rows = op->dy.shape[0];
    int64_t width = columns * (op->is_gated ? 2 : 1);
    check_steps(name, rows, columns);
    check_tensor(name, "x", op->x, check_2d(op->dy.dtype, rows, width));
    check_stored_as(device, name, &op->dx, DTYPE_E5M2, check_2d(DTYPE_E5M2, rows, width));
    check_stored_as(device, name, &op->y, DTYPE_E4M3, check_2d(DTYPE_E4M3, rows, columns));
    (void)check_offsets(name, op->offsets);
    check_expert_rows(name, op->x, op->weights, op->sources);
    check_tensor(name, "dweights", op->dweights, check_2d(DTYPE_F32, op->weights.shape[0], op->weights.shape[1]));
    check_apart(name, "dweights", op->dweights, "weights", op->weights);
    check_rule(name, op->activation >= 0 && op->activation < ACTIVATION_COUNT, "unknown activation");
    device->ops->quantize_expert_backward(device, op);
}

static void check_grouped_scalings(const char *name, const struct op_grouped_matmul *op, int64_t rows) {
    enum scaling a = op->a_scaling, b = op->b_scaling, weights = SCALING_BLOCK128;
    if (op->kind == GROUPED_WEIGHT)
        weights = SCALING_VECTOR128;
    check_rule(name,
               (a == SCALING_TENSOR && b == SCALING_TENSOR) || (a == SCALING_VECTOR32 && b == SCALING_VECTOR32) ||
                   (a == SCALING_VECTOR128 && b == weights),
               "these scalings do not go together");
    check_rule(name,
               rows % (a == SCALING_VECTOR128  ? 128
                       : a == SCALING_VECTOR32 ? 32
                                               : 1) ==
                   0,
               "the rows must be a multiple of a block");
}

// See struct op_grouped_matmul for the order of fp8 operands.
static void check_grouped_float8(struct device *device, const char *name, const struct op_grouped_matmul *op,
                                 int64_t experts) {
    enum { SIZE_STEP = 16 };
    bool is_weight = op->kind == GROUPED_WEIGHT, is_forward = op->kind == GROUPED_FORWARD;
    struct tensor a = op->a, b = op->b;
    bool has_blocks = op->a_scaling != SCALING_TENSOR;
    check_rule(name, (a.dtype == (is_forward ? DTYPE_E4M3 : DTYPE_E5M2) || has_blocks) && b.dtype == DTYPE_E4M3,
               "inputs and weights are E4M3, gradients E5M2");
    check_rule(name, device->ops->supports(device, a.dtype), "this device has no fp8 matmul");
    check_matrix(name, "a must be a matrix", a);
    check_tensor(name, "a", a, check_2d(a.dtype, a.shape[0], a.shape[1]));
    int64_t rows = a.shape[is_weight ? 1 : 0], inner = a.shape[is_weight ? 0 : 1], others;
    if (is_weight) {
        check_matrix(name, "b must be a matrix", b);
        others = b.shape[0];
        check_tensor(name, "b", b, check_2d(b.dtype, others, rows));
        check_tensor(name, "d", op->d, check_3d(DTYPE_F32, experts, inner, others));
    } else {
        others = check_rows(device, name, "d", op->d);
        check_tensor(name, "d", op->d, check_2d(op->d.dtype, rows, others));
        check_tensor(name, "b", b,
                     is_forward ? check_3d(b.dtype, experts, others, inner)
                                : check_2d(b.dtype, others, experts * inner));
    }
    check_rule(name, rows % SIZE_STEP == 0 && inner % SIZE_STEP == 0 && others % SIZE_STEP == 0,
               "the sizes of an fp8 matmul must be multiples of 16");
    struct tensor matrix = is_weight ? b : check_2d(b.dtype, others, inner);
    check_scaling(name, op->a_scaling, op->a_range, a, 1);
    check_scaling(name, op->b_scaling, op->b_range, matrix, is_weight ? 1 : experts);
    check_grouped_scalings(name, op, rows);
}

void op_grouped_matmul(struct device *device, const struct op_grouped_matmul *op) {
    const char *name = "op_grouped_matmul";
    int64_t experts = check_offsets(name, op->offsets);
    bool is_weight = op->kind == GROUPED_WEIGHT;
    check_rule(name, op->kind >= GROUPED_FORWARD && op->kind <= GROUPED_WEIGHT, "unknown kind");
    check_rule(name, op->beta == 0 || (is_weight && op->beta == 1), "beta must be 0, or 1 for gradients of weights");
    check_apart(name, "d", op->d, "a", op->a);
    check_apart(name, "d", op->d, "b", op->b);
    if (dtype_is_float8(op->a.dtype)) {
        check_grouped_float8(device, name, op, experts);
        device->ops->grouped_matmul(device, op);
        return;
    }
    int64_t inner = check_rows(device, name, "a", op->a), rows = op->a.shape[0];
    enum dtype dtype = op->a.dtype;
    if (is_weight) {
        int64_t inputs = check_rows(device, name, "b", op->b);
        check_tensor(name, "b", op->b, check_2d(dtype, rows, inputs));
        check_tensor(name, "d", op->d, check_3d(DTYPE_F32, experts, inner, inputs));
    } else {
        int64_t columns = check_rows(device, name, "d", op->d);
        check_tensor(name, "d", op->d, check_2d(dtype, rows, columns));
        check_tensor(name, "b", op->b,
                     op->kind == GROUPED_FORWARD ? check_3d(dtype, experts, columns, inner)
                                                 : check_3d(dtype, experts, inner, columns));
    }
    device->ops->grouped_matmul(device, op);
}
