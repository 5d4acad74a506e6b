// Operations of mixtures of experts: routing, balancing, permuting rows to experts and back, and matmuls over ragged
// groups of rows. A part of ops.h, whose rules hold here.
//
// N rows (tokens) choose K of E experts each: slot s = n * K + k is the k-th choice of row n. Slots are sorted by
// expert into R places. How many slots an expert got is known only on the device, in `offsets`, the first place of each
// expert, so no operation waits for the host.
#ifndef OPS_OPS_EXPERTS_H
#define OPS_OPS_EXPERTS_H

#include "base/layer_kinds.h"
#include "ops/ops_float8.h"

enum { ROUTER_MOST_EXPERTS = 1024, ROUTER_MOST_CHOSEN = 32 };

struct router_rule {
    enum router_score score;
    float factor;  // multiplies the weights
    // If groups > 0, experts are in that many groups of neighbours, and only those of the chosen_groups best groups can
    // be chosen. Groups are ranked by the sum of their group_best (0: K / chosen_groups) best scores, or logits with
    // ROUTER_SOFTMAX, with their bias. Ties go to the first group.
    int64_t groups, chosen_groups, group_best;
};

static inline int64_t router_group_best(const struct router_rule *rule, int64_t K) {
    return rule->group_best > 0 ? rule->group_best : K / rule->chosen_groups;
}

// Each row chooses its K largest logits or, with a bias, its K largest sums of score (or logit) and bias, the largest
// first. Ties go to the lower expert. NaN is larger than any number, so that it appears in the weights. The bias does
// not affect the weights.
struct op_route_forward {
    struct tensor experts;  // (N, K) i32 out, all different in a row
    struct tensor weights;  // (N, K) fp32 out
    struct tensor counts;   // (E) fp32 accumulated: rows that chose an expert; or none
    struct tensor logits;   // (N, E) fp32
    struct tensor bias;     // (E) fp32 or none; only with ROUTER_SIGMOID and ROUTER_SQRT_SOFTPLUS or biases_logits
    bool biases_logits;     // the bias is added to logits, not to scores; then there are no groups
    struct router_rule rule;
};
// The gradient of the weights; the choice has none. It is linear in dweights.
struct op_route_backward {
    struct tensor dlogits;   // (N, E) fp32 out
    struct tensor dweights;  // (N, K) fp32
    struct tensor logits;    // (N, E) fp32
    struct tensor experts;   // (N, K) i32
    struct router_rule rule;
};

// Terms of the losses that balance experts. A row's shares p are its softmax over all E or, with the other two scores,
// scores divided by their sum + 1e-20. Row n belongs to sequence n / (N / S).
struct op_balance_forward {
    struct tensor sums;    // (S, E) fp32 accumulated: sums of p; or none, and then counts are none too
    struct tensor counts;  // (S, E) fp32 accumulated: rows that have an expert among their K largest logits; or none
    struct tensor z;       // (1) fp32 accumulated: sum of logsumexp(logits)^2; or none
    struct tensor logits;  // (N, E) fp32
    enum router_score score;
    int64_t chosen;  // K, if there are counts
};
// dlogits += by * (gradient of the sum over e of slopes(s, e) * p(n, e) + z_factor * gradient of logsumexp(logits)^2).
struct op_balance_backward {
    struct tensor dlogits;  // (N, E) fp32 accumulated
    struct tensor logits;   // (N, E) fp32
    struct tensor slopes;   // (S, E) fp32 or none
    struct tensor by;       // (1) fp32, or none: 1
    float z_factor;
    enum router_score score;
};
// After a step: bias += rate where an expert's count is below the mean of its row, -= rate where it is above.
struct op_balance_bias {
    struct tensor bias;    // (L, E) fp32, updated
    struct tensor counts;  // (L, E) fp32, whole numbers
    float rate;
};
// Each expert's relative load in a step: load = E * count / the sum of its row. 1 for all is perfect balance. A row
// without counts keeps its load.
struct op_balance_load {
    struct tensor load;    // (L, E) fp32, updated
    struct tensor counts;  // (L, E) fp32, whole numbers
};
// Sinkhorn's algorithm as in Megatron-LM, in double. With c = exp(logits) and d (E) all 1 it repeats
//   r_n = 1 / N / (sum over e of d_e c_ne + 1e-8);  d_e = 1 / E / (sum over n of r_n c_ne + 1e-8)
// until d changes by at most 1e-4 in the mean, but at most SINKHORN_MOST times. Rows that choose by c_ne d_e r_n use
// all experts about equally; since r_n > 0, this is a choice by logits + log(d), so log(d) is the bias.
enum { SINKHORN_MOST = 100 };
struct op_sinkhorn {
    struct tensor bias;    // (E) fp32 out
    struct tensor logits;  // (N, E) fp32, N at least 1
};

// Sorts slots by expert and, within one, by slot number. Slots of experts outside [0, E) have no place (another rank
// holds them), nor have those whose number in `kept` is negative (dropped before).
//
// With a capacity, an expert gets at most that many slots: its first ones or, if weights are given, those with the
// largest weights (ties go to the first). The others have no place. If padded, each expert has exactly `capacity`
// places; places without a slot have no source.
//
// If aligned, an expert's number of places is rounded up to a multiple of `aligned`, so that all offsets are multiples
// of it; places without a slot have no source. Then no block of fp8 numbers along R spans two experts.
struct op_sort_slots {
    struct tensor offsets;  // (E + 1) i32 out: the first place of each expert, and the end of the last one's
    struct tensor sources;  // (R) i32 out: the slot at each place, -1 for none; R >= slots_room
    struct tensor places;   // (N, K) i32 out: the place of each slot, -1 for none
    struct tensor experts;  // (N, K) i32
    struct tensor weights;  // (N, K) fp32 or none; only with a capacity
    struct tensor kept;     // (N, K) i32 or none
    int64_t capacity;       // 0: unlimited
    int64_t aligned;        // 0 or 1: places begin anywhere
    bool is_padded;
};
// Upper bound of the number of places.
static inline int64_t slots_room(const struct op_sort_slots *op, int64_t slots, int64_t experts) {
    int64_t step = op->aligned > 1 ? op->aligned : 1, used = slots < experts ? slots : experts;
    int64_t most = (slots + used * (step - 1)) / step * step;
    int64_t capacity = (op->capacity + step - 1) / step * step * experts;
    return op->is_padded || (op->capacity > 0 && capacity < most) ? capacity : most;
}

// Each place of y (R, C) gets row source / K of x, or 0 if it has no source. This is also the gradient of op_sum_slots.
struct op_gather_slots {
    struct tensor y;        // (R, C) out
    struct tensor x;        // (N, C)
    struct tensor sources;  // (R) i32
    int64_t per_row;        // K
};
// out (N, C) = addend + sum over k of (y[place] + weight * bias[expert]), in fp32 in the order of k; slots without a
// place add nothing. Without a bias this is also the gradient of op_gather_slots.
struct op_sum_slots {
    struct tensor out;      // (N, C) out
    struct tensor y;        // (R, C)
    struct tensor places;   // (N, K) i32
    struct tensor addend;   // (N, C) or none; out may alias it
    struct tensor bias;     // (E, C) or none, and then the next two are none too
    struct tensor experts;  // (N, K) i32
    struct tensor weights;  // (N, K) fp32
};
// The gradient of op_sum_slots for bias and weights. Slots without a place get none.
struct op_slot_bias_backward {
    struct tensor dbias;     // (E, C) fp32 accumulated
    struct tensor dweights;  // (N, K) fp32 accumulated
    struct tensor dout;      // (N, C)
    struct tensor bias;      // (E, C)
    struct tensor weights;   // (N, K) fp32
    struct tensor offsets;   // (E + 1) i32
    struct tensor sources;   // (R) i32
};

// y = weight * activation(x + bias[expert]) or, gated, x + bias is (R, 2F), rows [gate | up], and y = weight *
// activation(gate) * up. Places without a source get 0.
struct op_expert_activation_forward {
    struct tensor y;        // (R, F) out
    struct tensor x;        // (R, F) or (R, 2F)
    struct tensor bias;     // (E, F) or (E, 2F), or none
    struct tensor weights;  // (N, K) fp32
    struct tensor offsets;  // (E + 1) i32
    struct tensor sources;  // (R) i32
    enum activation activation;
    bool is_gated;
    struct glu_rule rule;  // if gated
};
// Can also recompute y, for a caller that did not keep it. Places without a source get 0 in dx and y, slots without a
// place 0 in dweights.
struct op_expert_activation_backward {
    struct tensor dx;        // (R, F) or (R, 2F) out; may alias x
    struct tensor y;         // (R, F) out or none; may alias dy
    struct tensor dweights;  // (N, K) fp32 out
    struct tensor dbias;     // (E, F) or (E, 2F) fp32 accumulated, with a bias: column sums of dx, rounded or not
    struct tensor dy;        // (R, F)
    struct tensor x;         // (R, F) or (R, 2F)
    struct tensor bias;      // or none
    struct tensor weights;   // (N, K) fp32
    struct tensor offsets;   // (E + 1) i32
    struct tensor sources;   // (R) i32
    enum activation activation;
    bool is_gated;
    struct glu_rule rule;  // if gated
};

// op_gather_slots and the operations above with fp8 results: stored as by op_quantize or, with blocks,
// op_quantize_blocks, without a rounding in between. R is a multiple of 4, columns are multiples of 16; experts have no
// biases. Blocks are SCALING_VECTOR128 or SCALING_VECTOR32 (not BLOCK128); those of the transpose go along R, and all R
// places have factors, including those beyond the last expert's. Gradients by blocks may be E4M3 too.
struct op_quantize_slots {
    struct operand y;       // (R, C) out, as in op_quantize or op_quantize_blocks
    struct tensor x;        // (N, C)
    struct tensor sources;  // (R) i32
    int64_t per_row;        // K
};
struct op_quantize_expert_forward {
    struct operand y;       // (R, F) out, E4M3
    struct tensor x;        // (R, F) or (R, 2F)
    struct tensor weights;  // (N, K) fp32
    struct tensor offsets;  // (E + 1) i32
    struct tensor sources;  // (R) i32
    enum activation activation;
    bool is_gated;
    struct glu_rule rule;  // if gated
};
struct op_quantize_expert_backward {
    struct operand dx;  // (R, F) or (R, 2F) out, E5M2; gated, blocks of a row treat [gate | up] as one row
    struct operand y;   // (R, F) out: as op_quantize_expert_forward stores it with this range, which is not updated
    struct tensor dweights;  // (N, K) fp32 out
    struct tensor dy;        // (R, F)
    struct tensor x;         // (R, F) or (R, 2F)
    struct tensor weights;   // (N, K) fp32
    struct tensor offsets;   // (E + 1) i32
    struct tensor sources;   // (R) i32
    enum activation activation;
    bool is_gated;
    struct glu_rule rule;  // if gated
};

// out = residual + x * (1 + epsilon * u), noise for the input of routers. u = (h - 32767.5) / 32768, where h is the
// half word drawn for the element as for dropout (struct dropout in ops.h). out may alias residual or x.
struct op_jitter {
    struct tensor out, x;    // (N, C)
    struct tensor residual;  // (N, C) or none
    struct tensor row_ids;   // (N) i64; with the next two as in struct dropout
    uint64_t seed;
    uint32_t site;
    float epsilon;  // at least 0 and below 1; 0: nothing is drawn, and the three above are not read
};

// A matmul for each expert e over its rows, those of places offsets[e] to offsets[e + 1]. The experts' weights are (E,
// O, I): O outputs, I inputs.
enum grouped_kind {
    GROUPED_FORWARD,  // d (R, O) = a (R, I) times the transpose of b[e], b (E, O, I)
    GROUPED_INPUT,    // d (R, I) = a (R, O) times b[e], b (E, O, I)
    GROUPED_WEIGHT,   // d[e] = beta * d[e] + the transpose of a (R, O) times b (R, I); d (E, O, I) fp32
};
// In fp8 both operands are contiguous along the summed dimension, so b of GROUPED_INPUT is the transpose (I, E * O) of
// the matrix (E * O, I), and GROUPED_WEIGHT takes a (O, R) and b (I, R). a is E4M3 with GROUPED_FORWARD, else E5M2; b
// is E4M3; R, O and I are multiples of 16. Elements beyond offsets[E] must be finite.
//
// By blocks, ranges are the factors of a's and b's blocks, and a may be E4M3 with all kinds. Sums over the 128 (or 32)
// inner elements of a block are multiplied by the two factors and added up. Rows of a, and both operands of
// GROUPED_WEIGHT, have SCALING_VECTOR128; weights, as op_quantize_blocks stores E parts, SCALING_BLOCK128: the factors
// of expert e are those of a matrix (O, I) or, for GROUPED_INPUT, (I, O), and follow those of the previous experts. Or
// all have SCALING_VECTOR32. Offsets are multiples of 128 (or 32), and so is R.
struct op_grouped_matmul {
    enum grouped_kind kind;
    // Out, in the dtype of a and b except for GROUPED_WEIGHT, and with fp8 in any dtype of the device. Rows beyond
    // offsets[E] are unchanged.
    struct tensor d;
    struct tensor a, b;              // in the same activation dtype, or in fp8
    struct tensor a_range, b_range;  // of a and b in fp8, see struct operand; else none
    enum scaling a_scaling, b_scaling;
    struct tensor offsets;  // (E + 1) i32
    float beta;             // 0 or 1; must be 0 except for GROUPED_WEIGHT
};

// A part of the list of operations in ops.h.
#define EXPERT_OPERATIONS(X)                                                                                           \
    X(route_forward)                                                                                                   \
    X(route_backward)                                                                                                  \
    X(balance_forward)                                                                                                 \
    X(balance_backward)                                                                                                \
    X(balance_bias)                                                                                                    \
    X(balance_load)                                                                                                    \
    X(sinkhorn)                                                                                                        \
    X(sort_slots)                                                                                                      \
    X(gather_slots)                                                                                                    \
    X(sum_slots)                                                                                                       \
    X(slot_bias_backward)                                                                                              \
    X(expert_activation_forward)                                                                                       \
    X(expert_activation_backward)                                                                                      \
    X(quantize_slots)                                                                                                  \
    X(quantize_expert_forward)                                                                                         \
    X(quantize_expert_backward)

#endif
