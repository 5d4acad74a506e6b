// Contracts and checked entry points of mixtures of experts. N rows choose K of E experts each; R places.
#include "ops/contract.h"
#include "base/error.h"

static void score_rule(const struct contract_call *call, enum router_score score) {
    RULE(call, score >= 0 && score < ROUTER_SCORE_COUNT, "unknown score");
}

static void experts_rule(const struct contract_call *call) {
    RULE(call, SIZE(call, E) >= 1 && SIZE(call, E) <= ROUTER_MOST_EXPERTS, "there must be 1 to 1024 experts");
}

static void chosen_rule(const struct contract_call *call, int64_t chosen) {
    experts_rule(call);
    RULE(call, chosen >= 1 && chosen <= SIZE(call, E) && chosen <= ROUTER_MOST_CHOSEN,
         "a row must choose 1 to 32 experts, and no more than there are");
}

static void router_rules(const struct contract_call *call, const struct router_rule *rule) {
    int64_t experts = SIZE(call, E), chosen = SIZE(call, K), groups = rule->groups, best = rule->chosen_groups;
    score_rule(call, rule->score);
    chosen_rule(call, chosen);
    if (groups == 0)
        return;
    RULE(call, groups > 0 && experts % groups == 0, "the experts must be a multiple of the groups");
    RULE(call, best >= 1 && best <= groups, "at least one group and at most all must be chosen");
    int64_t judged = router_group_best(rule, chosen);
    RULE(call, judged >= 1 && judged <= experts / groups && chosen <= best * (experts / groups),
         "the chosen groups must have enough experts, and each must be able to give one");
}

RULED(route_forward, IN(logits, F32, "N E"), OUT(experts, I32, "N K"), OUT(weights, F32, "N K"),
      ADDED(counts, F32, "E", MAYBE), IN(bias, F32, "E", MAYBE), APART(weights, logits));

static void route_forward_rules(struct contract_call *call, const struct op_route_forward *op) {
    router_rules(call, &op->rule);
    RULE(call,
         !op->bias.data || op->biases_logits || op->rule.score == ROUTER_SIGMOID ||
             op->rule.score == ROUTER_SQRT_SOFTPLUS,
         "a softmax has no bias");
    RULE(call, !op->biases_logits || op->rule.groups == 0, "a bias of logits goes with no groups");
}

#define ROUTER_RULES(call_, op_) router_rules(call_, &(op_)->rule)
CHECKED(route_backward, NOTHING, ROUTER_RULES, IN(logits, F32, "N E"), IN(experts, I32, "N K"),
        OUT(dlogits, F32, "N E"), IN(dweights, F32, "N K"), APART(dlogits, logits));

static void sequences_rule(const struct contract_call *call) {
    RULE(call, SIZE(call, S) >= 1 && SIZE(call, N) % SIZE(call, S) == 0,
         "the rows must be a multiple of the sequences");
}

RULED(balance_forward, IN(logits, F32, "N E"), ADDED(sums, F32, "S E", MAYBE), ADDED(counts, F32, "S E", MAYBE),
      ADDED(z, F32, "1", MAYBE, FREE));

static void balance_forward_rules(struct contract_call *call, const struct op_balance_forward *op) {
    score_rule(call, op->score);
    chosen_rule(call, op->counts.data ? op->chosen : 1);
    if (op->sums.data)
        sequences_rule(call);
    RULE(call, op->sums.data || !op->counts.data, "counts need sums");
}

RULED(balance_backward, IN(logits, F32, "N E"), ADDED(dlogits, F32, "N E"), IN(slopes, F32, "S E", MAYBE),
      IN(by, F32, "1", MAYBE, FREE), APART(dlogits, logits));

static void balance_backward_rules(struct contract_call *call, const struct op_balance_backward *op) {
    score_rule(call, op->score);
    experts_rule(call);
    if (op->slopes.data)
        sequences_rule(call);
}

OPERATION(balance_bias, CHANGED(bias, F32, "L E"), IN(counts, F32, "L E"));
OPERATION(balance_load, CHANGED(load, F32, "L E"), IN(counts, F32, "L E"), APART(load, counts));

RULED(sinkhorn, IN(logits, F32, "N E"), OUT(bias, F32, "E"), APART(bias, logits));

static void sinkhorn_rules(struct contract_call *call, const struct op_sinkhorn *op) {
    (void)op;
    RULE(call, SIZE(call, N) > 0, "there must be rows");
    experts_rule(call);
}

RULED(sort_slots, OUT(offsets, I32, "E+1"), IN(experts, I32, "N K"), OUT(places, I32, "N K"), OUT(sources, I32, "R"),
      IN(weights, F32, "N K", MAYBE), IN(kept, I32, "N K", MAYBE), APART(places, experts), APART(places, kept));

static void sort_slots_rules(struct contract_call *call, const struct op_sort_slots *op) {
    int64_t count = SIZE(call, N) * SIZE(call, K), places = SIZE(call, R);
    experts_rule(call);
    RULE(call, op->capacity >= 0 && (op->capacity > 0 || (!op->weights.data && !op->is_padded)),
         "weights and padding need a capacity");
    RULE(call, op->aligned >= 0, "places cannot be aligned so");
    RULE(call, places >= slots_room(op, count, SIZE(call, E)),
         "sources must have room for all slots, or for the capacity of all experts");
    RULE(call, places <= INT32_MAX && count <= INT32_MAX, "there must be fewer than 2^31 slots and places");
}

RULED(gather_slots, OUT(y, ACT, "R C"), IN(x, ACT, "N C", SPARSE), IN(sources, I32, "R"), APART(y, x));

static void gather_slots_rules(struct contract_call *call, const struct op_gather_slots *op) {
    RULE(call, op->per_row >= 1, "a row must have at least one slot");
}

OPERATION(sum_slots, OUT(out, ACT, "N C"), IN(y, ACT, "R C"), IN(places, I32, "N K"), IN(addend, ACT, "N C", MAYBE),
          IN(bias, ACT, "E C", MAYBE), IN(experts, I32, "N K", IF(bias.data)), IN(weights, F32, "N K", IF(bias.data)),
          APART(out, y), APART_OR_SAME(out, addend));

#define EXPERTS_RULE(call_, op_) experts_rule(call_)
CHECKED(slot_bias_backward, NOTHING, EXPERTS_RULE, IN(dout, ACT, "N C"), IN(offsets, I32, "E+1", FREE),
        IN(bias, ACT, "E C"), ADDED(dbias, F32, "E C"), IN(weights, F32, "N K"), ADDED(dweights, F32, "N K"),
        IN(sources, I32, "R"), APART(dweights, weights));

// Rows before an activation have gF columns; g is 2 if it is gated.
#define GATED(call_, op_) contract_set(call_, 'g', (op_)->is_gated ? 2 : 1)
#define EXPERT_RULES(call_, op_) expert_rules(call_, (op_)->activation)
static void expert_rules(const struct contract_call *call, enum activation activation) {
    experts_rule(call);
    contract_activation(call, activation);
}

CHECKED(expert_activation_forward, GATED, EXPERT_RULES, OUT(y, ACT, "R F"), IN(x, ACT, "R gF"),
        IN(offsets, I32, "E+1", FREE), IN(bias, ACT, "E gF", MAYBE), IN(weights, F32, "N K"), IN(sources, I32, "R"),
        APART(y, x));

SIZED_AND_RULED(expert_activation_backward, IN(dy, ACT, "R F"), IN(x, ACT, "R gF"), OUT(dx, ACT, "R gF"),
                OUT(y, ACT, "R F", MAYBE), IN(offsets, I32, "E+1", FREE), IN(bias, ACT, "E gF", MAYBE),
                ADDED(dbias, F32, "E gF", MAYBE), IN(weights, F32, "N K"), IN(sources, I32, "R"),
                OUT(dweights, F32, "N K"), APART_OR_SAME(dx, x), APART(dx, dy), APART_OR_SAME(y, dy), APART(y, x),
                APART(y, dx), APART(dweights, weights));

static void expert_activation_backward_sizes(struct contract_call *call,
                                             const struct op_expert_activation_backward *op) {
    GATED(call, op);
}

static void expert_activation_backward_rules(struct contract_call *call,
                                             const struct op_expert_activation_backward *op) {
    RULE(call, !op->dbias.data || op->bias.data, "dbias needs a bias");
    expert_rules(call, op->activation);
}

// Checks an operand that is stored in fp8 of the given type.
static void stored_as(struct contract_call *call, const struct operand *y, enum dtype dtype) {
    contract_stored(call, y);
    enum dtype stored = y->value.data ? y->value.dtype : y->transposed.dtype;
    bool is_any = y->scaling != SCALING_TENSOR && dtype == DTYPE_E5M2;
    RULE(call, (!y->value.data && !y->transposed.data) || stored == dtype || (is_any && stored == DTYPE_E4M3),
         "activations are stored as E4M3, gradients as E5M2");
}

static void steps_rule(const struct contract_call *call, int64_t columns) {
    enum { ROW_STEP = 4, COLUMN_STEP = 16 };
    RULE(call, SIZE(call, R) % ROW_STEP == 0 && columns % COLUMN_STEP == 0,
         "the columns must be a multiple of 16, the rows of 4");
}

RULED(quantize_slots, IN(x, ACT, "N C", FREE), IN(sources, I32, "R"), STORED(y, "R C", "C R"));

static void quantize_slots_rules(struct contract_call *call, const struct op_quantize_slots *op) {
    contract_stored(call, &op->y);
    steps_rule(call, SIZE(call, C));
    RULE(call, op->per_row >= 1, "a row must have at least one slot");
}

SIZED_AND_RULED(quantize_expert_forward, IN(x, ACT, "R gF"), STORED(y, "R F", "F R"), IN(offsets, I32, "E+1", FREE),
                IN(weights, F32, "N K"), IN(sources, I32, "R"));

static void quantize_expert_forward_sizes(struct contract_call *call, const struct op_quantize_expert_forward *op) {
    GATED(call, op);
}

static void quantize_expert_forward_rules(struct contract_call *call, const struct op_quantize_expert_forward *op) {
    steps_rule(call, SIZE(call, F));
    stored_as(call, &op->y, DTYPE_E4M3);
    expert_rules(call, op->activation);
}

SIZED_AND_RULED(quantize_expert_backward, IN(dy, ACT, "R F"), IN(x, ACT, "R gF"), STORED(dx, "R gF", "gF R"),
                STORED(y, "R F", "F R"), IN(offsets, I32, "E+1", FREE), IN(weights, F32, "N K"), IN(sources, I32, "R"),
                OUT(dweights, F32, "N K"), APART(dweights, weights));

static void quantize_expert_backward_sizes(struct contract_call *call, const struct op_quantize_expert_backward *op) {
    GATED(call, op);
}

static void quantize_expert_backward_rules(struct contract_call *call, const struct op_quantize_expert_backward *op) {
    steps_rule(call, SIZE(call, F));
    stored_as(call, &op->dx, DTYPE_E5M2);
    stored_as(call, &op->y, DTYPE_E4M3);
    expert_rules(call, op->activation);
}

enum { FORWARD = 1 << GROUPED_FORWARD, INPUT = 1 << GROUPED_INPUT, WEIGHT = 1 << GROUPED_WEIGHT };
CONTRACT(grouped_matmul, IN(offsets, I32, "E+1"), IN(a, ACT, "R I", IF_ONE_OF(kind, FORWARD)),
         OUT(d, ACT, "R O", IF_ONE_OF(kind, FORWARD)), IN(b, ACT, "E O I", IF_ONE_OF(kind, FORWARD)),
         IN(a, ACT, "R O", IF_ONE_OF(kind, INPUT | WEIGHT)), OUT(d, ACT, "R I", IF_ONE_OF(kind, INPUT)),
         IN(b, ACT, "E O I", IF_ONE_OF(kind, INPUT)), IN(b, ACT, "R I", IF_ONE_OF(kind, WEIGHT)),
         OUT(d, F32, "E O I", IF_ONE_OF(kind, WEIGHT)), APART(d, a), APART(d, b));

// See struct op_grouped_matmul for the order of fp8 operands.
CONTRACT_OF(grouped_float8, grouped_matmul, IN(offsets, I32, "E+1"),
            IN(a, FP8 | COMPUTED, "R I", IF_ONE_OF(kind, FORWARD)), OUT(d, ACT, "R O", IF_ONE_OF(kind, FORWARD)),
            IN(b, E4M3, "E O I", IF_ONE_OF(kind, FORWARD)), IN(a, FP8 | COMPUTED, "R O", IF_ONE_OF(kind, INPUT)),
            OUT(d, ACT, "R I", IF_ONE_OF(kind, INPUT)), IN(b, E4M3, "I EO", IF_ONE_OF(kind, INPUT)),
            IN(a, FP8 | COMPUTED, "O R", IF_ONE_OF(kind, WEIGHT)), IN(b, E4M3, "I R", IF_ONE_OF(kind, WEIGHT)),
            OUT(d, F32, "E O I", IF_ONE_OF(kind, WEIGHT)), APART(d, a), APART(d, b));

static void grouped_scalings(const struct contract_call *call, const struct op_grouped_matmul *op) {
    enum scaling a = op->a_scaling, b = op->b_scaling,
                 weights = op->kind == GROUPED_WEIGHT ? SCALING_VECTOR128 : SCALING_BLOCK128;
    int64_t block = a == SCALING_VECTOR128 ? 128 : a == SCALING_VECTOR32 ? 32 : 1;
    RULE(call,
         (a == SCALING_TENSOR && b == SCALING_TENSOR) || (a == SCALING_VECTOR32 && b == SCALING_VECTOR32) ||
             (a == SCALING_VECTOR128 && b == weights),
         "these scalings do not go together");
    RULE(call, SIZE(call, R) % block == 0, "the rows must be a multiple of a block");
}

static void grouped_float8_rules(struct contract_call *call, const struct op_grouped_matmul *op) {
    enum { SIZE_STEP = 16 };
    int64_t I = SIZE(call, I), O = SIZE(call, O), R = SIZE(call, R);
    bool is_weight = op->kind == GROUPED_WEIGHT, is_forward = op->kind == GROUPED_FORWARD;
    RULE(call, op->a.dtype == (is_forward ? DTYPE_E4M3 : DTYPE_E5M2) || op->a_scaling != SCALING_TENSOR,
         "inputs and weights are E4M3, gradients E5M2");
    RULE(call, R % SIZE_STEP == 0 && I % SIZE_STEP == 0 && O % SIZE_STEP == 0,
         "the sizes of an fp8 matmul must be multiples of 16");
    const struct scaled_matrix a = {op->a.shape[0], op->a.shape[1], 1}, b = {is_forward ? O : I,
                                                                             is_weight    ? R
                                                                             : is_forward ? I
                                                                                          : O,
                                                                             is_weight ? 1 : SIZE(call, E)};
    contract_scaling(call, op->a_scaling, op->a_range, &a);
    contract_scaling(call, op->b_scaling, op->b_range, &b);
    grouped_scalings(call, op);
}

void op_grouped_matmul(struct device *device, const struct op_grouped_matmul *op) {
    struct contract_call call;
    bool is_scaled = dtype_is_float8(op->a.dtype), is_weight = op->kind == GROUPED_WEIGHT;
    contract_begin(&call, device, is_scaled ? contract_grouped_float8() : contract_grouped_matmul(), op);
    RULE(&call, op->kind >= GROUPED_FORWARD && op->kind <= GROUPED_WEIGHT, "unknown kind");
    RULE(&call, op->beta == 0 || (is_weight && op->beta == 1), "beta must be 0, or 1 for gradients of weights");
    contract_check(&call);
    experts_rule(&call);
    if (is_scaled)
        grouped_float8_rules(&call, op);
    device->ops->grouped_matmul(device, op);
}
