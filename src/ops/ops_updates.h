// Operations of optimizers: updates over flat ranges of parameters, and masters in two halves. A part of ops.h, whose
// rules hold here.
#ifndef OPS_OPS_UPDATES_H
#define OPS_OPS_UPDATES_H

#include "tensor/tensor.h"

// The step size depends on the number of earlier updates. The host does not know that number while steps are pending,
// so it sends one row of rates for every possible number of skipped steps, see op_clip_scale.
enum {
    RATE_SKIPPED,    // the number of skipped steps that this row is for
    RATE_OWN,        // the first of the optimizer's own numbers, see op_adam, op_sgd, op_lion and op_follow
    RATE_GROUP = 4,  // length
    // A parameter group has two sets: for most parameters, and for those with a separate learning rate.
    RATE_LENGTH = 2 * RATE_GROUP
};

// Adam with decoupled weight decay over a flat range: g = grad * scale; m and v follow g and g^2 with beta1 and beta2;
// then master -= rate[ADAM_STEP] * m / (sqrt(v * rate[ADAM_CORRECTION]) + epsilon) + rate[ADAM_DECAY] * master, without
// the last term unless is_decayed; copy = master in its dtype. If scale is not finite, nothing changes. With a copy in
// bf16, the master may be stored as the rest beyond the copy, see op_split; both are then read and written. m and v may
// be bf16, rounded stochastically so that the mean is right (with beta2 0.999, an average rounded to nearest would not
// move). The choice comes from a hash of the gradient's bits and the fp32's, so it needs no state and does not depend
// on an element's position. They may also be uint8, codes of moment8.h that are chosen in the same way; then every
// MOMENT8_SHARE of them, counted from the start of the range, share an exponent.
enum {
    ADAM_STEP = RATE_OWN,  // lr / (1 - beta1^t), for update number t, counted from 1
    ADAM_CORRECTION,       // 1 / (1 - beta2^t)
    ADAM_DECAY             // lr * weight decay
};
struct op_adam {
    struct tensor master;  // (n) fp32, or int16 with a copy in bf16
    struct tensor copy;    // (n) in the parameter dtype; none if parameters are fp32 (then master is the parameter)
    struct tensor grad;    // (n) fp32
    struct tensor m, v;    // (n) fp32, bf16 or uint8
    struct tensor scale;   // (1) fp32
    struct tensor rate;    // (RATE_GROUP) fp32
    struct tensor m_exponents, v_exponents;  // (n / MOMENT8_SHARE, rounded up) uint8; none unless the moment is uint8
    float beta1, beta2, epsilon;
    bool is_decayed;
};

// Stochastic gradient descent with momentum and weight decay, as PyTorch's SGD, over a flat range: m = momentum * m +
// grad * scale + rate[SGD_DECAY] * master, without the last term unless is_decayed; master -= rate[SGD_STEP] * m. The
// rest is as in op_adam.
enum {
    SGD_STEP = RATE_OWN,  // lr
    SGD_DECAY             // weight decay
};
struct op_sgd {
    struct tensor master, copy;  // (n), as in op_adam
    struct tensor grad, m;       // (n) fp32
    struct tensor scale;         // (1) fp32
    struct tensor rate;          // (RATE_GROUP) fp32
    float momentum;
    bool is_decayed;
};

// Lion (Chen et al. 2023) over a flat range: g = grad * scale; master -= rate[LION_STEP] * sign(beta1 * m + (1 - beta1)
// * g) + rate[LION_DECAY] * master, without the last term unless is_decayed; m = beta2 * m + (1 - beta2) * g. The sign
// of 0 is 0. The rest is as in op_adam.
enum {
    LION_STEP = RATE_OWN,  // lr
    LION_DECAY             // lr * weight decay
};
struct op_lion {
    struct tensor master, copy;  // (n), as in op_adam
    struct tensor grad, m;       // (n) fp32
    struct tensor scale;         // (1) fp32
    struct tensor rate;          // (RATE_GROUP) fp32
    float beta1, beta2;
    bool is_decayed;
};

// Muon's elementwise parts; the matmuls between them orthogonalize the matrix, see optim/muon.c. If scale is not
// finite, m and master do not change. Over a flat range: g = grad * scale; m = momentum * m + (1 - momentum) * g; y =
// m, or with is_nesterov momentum * m + (1 - momentum) * g. The sum of squares of y, before it is rounded to its dtype,
// is added to sum_squares.
struct op_momentum {
    struct tensor y;            // (n) out, in any float dtype of matmuls
    struct tensor m, grad;      // (n) fp32
    struct tensor scale;        // (1) fp32
    struct tensor sum_squares;  // (1) fp32, or none
    float momentum;
    bool is_nesterov;
};
// Matmuls of the same shape: d[i] = alpha * op(a[i]) op(b[i]) + beta * c[i], in one dtype, contiguous.
//   a (n, M, K) or transposed (n, K, M); b (n, K, N) or transposed (n, N, K); d and c (n, M, N).
// With sum_squares, d[i] is divided by the root of sum_squares[i], or by least if that is larger; twice if is_twice.
// Not in the list of operations: a device without a kernel for it multiplies them one by one.
struct op_matmul_many {
    struct tensor a, b, d;
    struct tensor c;  // none if beta is 0
    bool transpose_a, transpose_b;
    float alpha, beta;
    bool is_symmetric;          // every d[i] is symmetric: half of it may be computed, and mirrored
    struct tensor sum_squares;  // (n) fp32, or none
    float least;
    bool is_twice;
};
// Adds a number to the diagonal of every x[i].
struct op_add_diagonal {
    struct tensor x;  // (n, M, M)
    float value;
};
// y = x / sqrt(sum_squares), or x / least if the root is smaller; divided twice if is_twice.
struct op_normalize {
    struct tensor y;            // (n) out, in any float dtype of matmuls
    struct tensor x;            // (n) fp32, or y
    struct tensor sum_squares;  // (1) fp32
    float least;
    bool is_twice;
};
// Sets all elements of y's rows (columns with is_by_columns) to the mean square of that row (column) of x.
struct op_mean_squares {
    struct tensor y;  // (M, N) fp32 out
    struct tensor x;  // (M, K), or (K, N) by columns; fp32, rows may be strided
    bool is_by_columns;
};
// Divides an update by the root of its second moment, over a flat range: v = beta2 * v + (1 - beta2) * squares, where
// squares are x^2 if none are given; then x /= sqrt(v) + epsilon, or sqrt(max(v, epsilon)) with is_bounded. If scale is
// not finite, neither changes.
struct op_adapt {
    struct tensor x, v;     // (n) fp32
    struct tensor squares;  // (n) fp32, or none
    struct tensor scale;    // (1) fp32
    float beta2, epsilon;
    bool is_bounded;
};
// Over a flat range: master -= rate[FOLLOW_STEP] * factor * x + rate[FOLLOW_DECAY] * master, without the last term
// unless is_decayed. The rest is as in op_adam.
enum {
    FOLLOW_STEP = RATE_OWN,  // lr
    FOLLOW_DECAY             // lr * weight decay
};
struct op_follow {
    struct tensor master, copy;  // (n), as in op_adam
    struct tensor x;             // (n) fp32 or bf16
    struct tensor scale;         // (1) fp32
    struct tensor rate;          // (RATE_GROUP) fp32
    float factor;
    bool is_decayed;
};

// The moving average of master weights over a flat range: average += (1 - decay) * (master - average). The average of
// masters in halves is rounded as by op_split and op_merge, so that it can become such a master without loss. If scale
// is not finite, it does not change.
struct op_average {
    struct tensor average;       // (n) fp32
    struct tensor master, copy;  // (n), as in op_adam; only read
    struct tensor scale;         // (1) fp32
    float decay;
};

// QK-clip (Kimi K2, 2025): scales down rows of a projection whose heads had scores above a threshold. The rows of the
// matrix are units of unit_rows, and unit u belongs to the next tensor_count(largest) / units heads: its rows [first,
// first + count) are multiplied by (threshold / the largest of its heads)^power, if that is below 1. If scale is not
// finite, nothing changes.
struct op_clip_rows {
    struct tensor master, copy;  // (units * unit_rows * columns), as in op_adam
    struct tensor largest;       // (units * heads) fp32, see op_largest_scores
    struct tensor scale;         // (1) fp32
    int64_t columns, unit_rows, first, count;
    float threshold, power;
};

// Splits an fp32 into the nearest bf16 and a rest of 16 bits, and joins them again. The result equals the original,
// except that a tie that was rounded towards zero becomes one last place nearer to zero; see half.h.
struct op_split {
    struct tensor value;  // (n) bf16 out
    struct tensor rest;   // (n) int16 out
    struct tensor x;      // (n) fp32
};
struct op_merge {
    struct tensor x;      // (n) fp32 out
    struct tensor value;  // (n) bf16
    struct tensor rest;   // (n) int16
};

#endif
