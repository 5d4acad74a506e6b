// The table of operations. Models, schedules and optimizers are written once, against the functions op_*() below. The
// device's backend does the work: the CPU (the reference: plain, with fp32 accumulation), CUDA (the fast one) or paper
// (which computes nothing and adds up bytes and FLOPs). Nothing above this folder names a backend.
//
// Rules for all entries:
//  - op_*() (contracts_*.c) verifies shapes, dtypes and strides once for all backends, then calls the table. A mismatch
//    is a bug in this program and dies, naming the operation and the rule.
//  - An operation is queued on the device's compute stream and may finish later; operations of a stream run in order.
//    To read a result on the host, use device_copy_out, which waits for the stream. CPU operations finish at once.
//  - The "activation dtype" is the dtype of the pass: fp32, bf16 or fp16. Parameters have it too. Gradients of
//    parameters are fp32 and are accumulated (+=) unless stated otherwise. Losses, norms and statistics are fp32. Sums
//    are computed in fp32 or better.
//  - Outputs alias inputs only if a comment allows it. Tensors are contiguous unless a stride is mentioned.
//  - No operation allocates tensors. A backend takes memory of its own only when it first sees a shape, and reports the
//    amount beforehand (own_bytes, library_bytes). Results do not depend on the number of threads.
//  - Shapes in comments: N rows (tokens, B*T), C channels, V vocabulary, H query heads, G key/value heads, D head size.
//    A zeroed struct tensor omits an optional tensor ("none").
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "base/layer_kinds.h"
#include "ops/ops_attention.h"
#include "ops/ops_experts.h"
#include "ops/ops_float8.h"
#include "ops/ops_updates.h"
#include "tensor/tensor.h"

struct device;
struct event;
struct recording;
struct profile_row;
struct device_peers;
struct device_clock;

// STREAM_COPY: copies to the device, in parallel with compute; STREAM_BACK: copies back, in parallel with both.
enum stream { STREAM_COMPUTE, STREAM_COPY, STREAM_BACK, STREAM_COUNT };

// Dropout, drawn by Philox from an element's identity, not from where it is computed. One call, philox4x32_7(seed,
// column / 8, row id low, row id high, site), serves eight neighbouring columns of a row, 16 bits each: element (row,
// column) takes the lower half of word column % 8 / 2 if its column is even, the upper half if it is odd. It is kept if
// that half is at least the threshold, rate * 65536 rounded up, but at most 65535. Attention uses column = key position
// and site + (head << 16).
//
// The effective rate is threshold / 65536: a rate is rounded up to a multiple of 2^-16, between 2^-16 and 1 - 2^-16.
// Kept elements are scaled by 65536 / (65536 - threshold), not by 1 / (1 - rate), so the expectation is exact despite
// the rounding. Dropped elements are multiplied by 0: one that is infinite or NaN becomes NaN on every backend, so that
// dropout does not hide an overflow from the optimizer.
//
// A device opened with has_fast_dropout (device.h) may draw attention's dropout differently: from the seed, the site,
// the first head, the first row's id and an element's position in the operation, so only the same operation reproduces
// the mask. Kept elements are then scaled by 1 / (1 - rate).
struct dropout {
    float rate;  // 0: off, and the other fields are not read
    uint64_t seed;
    uint32_t site;          // which dropout of the model, below 65536
    struct tensor row_ids;  // (N) i64: global token number of each row (sample * T + position)
    int first_head;         // global number of head 0, if heads are sharded
};

// d = epilogue(alpha * op(a) op(b) + beta * d). Matrices are 2-D; rows may be strided.
//   a (M, K) or transposed (K, M); b (K, N) or transposed (N, K); d (M, N).
// a and b have the same dtype; d has it too, or is fp32.
//
// In fp8, a and b may have different fp8 dtypes, and d has an activation dtype or is fp32. An operand's values are its
// numbers times the factor of its range. b must be transposed and a must not; rows begin at multiples of 16 bytes; M, N
// and K are multiples of 16; and the only epilogue is a bias (N) in d's dtype.
enum epilogue {
    EPILOGUE_NONE,
    EPILOGUE_BIAS,  // + bias (N)
    // The next two support ACTIVATION_GELU_TANH only; other activations have operations of their own below.
    EPILOGUE_BIAS_ACTIVATION,      // aux (M, N) = … + bias; d = activation(aux). aux may be none (inference)
    EPILOGUE_ACTIVATION_GRADIENT,  // d = … * activation'(aux)
};
struct op_matmul {
    struct tensor a, b, d;
    struct tensor a_range, b_range;  // of a and b in fp8, see struct operand; else none
    enum scaling a_scaling, b_scaling;
    bool transpose_a, transpose_b;
    float alpha, beta;  // beta must be 0 with any epilogue but NONE
    enum epilogue epilogue;
    enum activation activation;
    struct tensor bias;  // (N)
    struct tensor aux;   // (M, N), contiguous
    bool is_uneven;      // shapes differ between ranks, so they cannot agree on an algorithm (device_join)
    bool is_fast;  // fp8 gradients with ranges: sums may be less precise, as those of two E4M3 operands always may be
};

// y = activation(x), element by element.
struct op_activation_forward {
    struct tensor y;  // (N, F) out; may alias x if no backward follows
    struct tensor x;  // (N, F)
    enum activation activation;
};
// dx = dy * activation'(x). Can also recompute activation(x), for a caller that did not keep it.
struct op_activation_backward {
    struct tensor dx;  // (N, F) out; may alias dy or x
    struct tensor y;   // (N, F) out or none; may alias dy if dx does not
    struct tensor dy;  // (N, F)
    struct tensor x;   // (N, F)
    enum activation activation;
};

// A gated unit over a packed tensor with rows [gate | up], prepared by its rule: y = activation(gate) * up. This is
// SwiGLU with SILU, GeGLU with either GELU.
struct op_glu_forward {
    struct tensor y;  // (N, F) out
    struct tensor x;  // (N, 2F)
    enum activation activation;
    struct glu_rule rule;
};
// dx [gate | up] = [dy * up * activation'(gate) | dy * activation(gate)]. Can also recompute activation(gate) * up, for
// a caller that did not keep it.
struct op_glu_backward {
    struct tensor dx;  // (N, 2F) out; may alias x
    struct tensor y;   // (N, F) out or none; may alias dy
    struct tensor dy;  // (N, F)
    struct tensor x;   // (N, 2F)
    enum activation activation;
    struct glu_rule rule;
};

// Rotary positions, in place: pair j of the channels of each head in row n is rotated by the angle positions[n] *
// frequencies[j]; the angle is a double, since rounding large angles to fp32 would be visible. Pair j is (j, j +
// pairs), or (2j, 2j + 1) if interleaved; channels from 2 * pairs on are unchanged. The inverse rotates back, which is
// the gradient. Rotated channels are also multiplied by the factor, in both directions.
struct op_rope {
    struct tensor x;            // (B, T, H, D), in and out: any strides, but contiguous in D
    struct tensor positions;    // (B * T) i32
    const double *frequencies;  // (pairs), in host memory; read before the call returns
    int64_t pairs;              // at most ROPE_MOST_PAIRS and D / 2
    bool is_interleaved, is_inverse;
    float factor;  // 0 for 1
};
enum { ROPE_MOST_PAIRS = 2048 };

// LayerNorm over C: y = (x - mean) * rstd * gain + bias, rstd = 1 / sqrt(variance + epsilon). RMSNorm: y = x * rstd *
// gain, rstd = 1 / sqrt(mean square + epsilon), without mean and bias. If `delta` is given, the residual addition is
// fused: sum = x + dropout(delta + delta_bias), and sum is normalised. sum may alias x. Gains may be stored minus
// gain_offset, which is added to each in fp32.
struct op_norm_forward {
    enum norm_kind kind;
    struct tensor y;           // (N, C) out; may be in fp8, stored as by op_quantize, if the device fuses_quantize
    struct tensor y_range;     // (RANGE_LENGTH) fp32, of y in fp8; else none
    struct tensor mean, rstd;  // (N) fp32 out; no mean with RMS
    struct tensor x;           // (N, C)
    struct tensor gain, bias;  // (C); bias may be none, and is with RMS
    float gain_offset;
    float epsilon;
    struct tensor delta;       // (N, C) or none
    struct tensor delta_bias;  // (C) or none
    struct tensor sum;         // (N, C) out, with delta
    struct dropout dropout;
};

// dx = dresidual + the gradient of the norm's input. If ddelta is given: ddelta = dx through the dropout (kept elements
// scaled, dropped ones 0), and ddelta_bias += its column sums. If y is given, the norm's output is recomputed, for a
// caller that did not keep it.
struct op_norm_backward {
    enum norm_kind kind;
    struct tensor dx;            // (N, C) out; may alias dresidual, may not alias dy
    struct tensor dgain, dbias;  // (C) fp32, accumulated; no dbias without a bias
    struct tensor dy;            // (N, C)
    struct tensor x;             // (N, C): the norm's input (sum, if there was a delta)
    struct tensor gain;          // (C)
    float gain_offset;
    struct tensor mean, rstd;   // (N) fp32; no mean with RMS
    struct tensor y;            // (N, C) out or none; may alias dy if ddelta does not
    struct tensor bias;         // (C) or none, if y is given
    struct tensor dresidual;    // (N, C) or none
    struct tensor ddelta;       // (N, C) out or none; may alias dy, and also dx if the dropout is off
    struct tensor ddelta_bias;  // (C) fp32 accumulated, or none
    struct dropout dropout;
};

// Scaled dot-product attention that never stores a (Tq, Tk) matrix. Query head h uses key/value head h / (H / G). If
// causal, query i of Tq sees keys j <= i + Tk - Tq, so with a cache the last query sees everything. q is (B, Tq, H, D),
// k (B, Tk, G, D), v (B, Tk, G, V) and out (B, Tq, H, V), with any strides (they are views of one packed tensor) but
// contiguous in D or V. Mostly, V is D.
struct op_attention_forward {
    struct tensor out;  // (B, Tq, H, V)
    struct tensor lse;  // (B, H, Tq) fp32 out: log-sum-exp of the scores, the sink's too; none if no backward follows
    struct tensor q, k, v;
    float scale;
    struct attention_scores scores;
    bool is_causal;
    struct attention_mask mask;
    struct dropout dropout;  // row_ids (B * Tq): those of the queries
};
// dq, dk and dv are written, not accumulated; they have the shapes of q, k and v.
struct op_attention_backward {
    struct tensor dq, dk, dv;
    struct tensor drelative_bias;  // (B, H, Tq + Tk - 1) fp32, accumulated; none if no gradient of a bias is wanted
    struct tensor dsinks;          // (B, H) fp32 out; none without sinks
    struct tensor dout, out;       // (B, Tq, H, V)
    struct tensor lse;             // (B, H, Tq) fp32
    struct tensor scratch;         // (B, H, Tq) fp32: holds the row sums of dout * out
    struct tensor workspace;       // (attention_workspace_bytes) u8; if none, a slower algorithm may be used
    struct tensor q, k, v;
    float scale;
    struct attention_scores scores;
    bool is_causal;
    struct attention_mask mask;
    struct dropout dropout;
};

// Keys and values of latent attention (DeepSeek-V2). Each of H heads has P channels of keys and V of values, side by
// side in `up`; all heads share R more channels of keys, after their own. The output is packed: the keys of all heads,
// then the values. Backward sums the gradients of the shared channels in fp32.
struct op_latent_forward {
    struct tensor kv;      // (N, H (P + R + V)) out
    struct tensor up;      // (N, H (P + V))
    struct tensor shared;  // (N, R); rows may be strided
    int64_t heads, value_size;
};
struct op_latent_backward {
    struct tensor dup, dshared;  // (N, H (P + V)), (N, R) out; rows of dshared may be strided
    struct tensor dkv;           // (N, H (P + R + V))
    int64_t heads, value_size;
};

// T5's relative positions: a learned number for each head and each bucket of distances (key position minus query
// position). Column w of the bias is for distance first_distance + w. See formulas.h for the buckets.
struct relative_rule {
    int64_t first_distance;
    int64_t buckets;        // in the table, at most RELATIVE_MOST_BUCKETS; even if bidirectional
    int64_t max_distance;   // all distances from here on share a bucket
    bool is_bidirectional;  // half of the buckets are for keys after the query; otherwise those share bucket 0
};
enum { RELATIVE_MOST_BUCKETS = 256 };
struct op_relative_bias_forward {
    struct tensor bias;   // (H, W) fp32 out
    struct tensor table;  // (buckets, H)
    struct relative_rule rule;
};
struct op_relative_bias_backward {
    struct tensor dtable;  // (buckets, H) fp32, accumulated
    struct tensor dbias;   // (B, H, W) fp32: summed over B
    struct relative_rule rule;
};

// ALiBi (Press et al. 2022): scores decrease with the distance between query and key, by a slope per head. The columns
// are those of a relative bias; column w is for distance first_distance + w. Slopes are those of formulas.h.
struct op_alibi {
    struct tensor bias;         // (H, W) fp32 out
    int64_t heads, first_head;  // heads of the whole layer, and which of them is row 0
    int64_t first_distance;
    float scale;  // of all slopes
};

// Bytes of workspace that the backward pass of attention can use; at least 1.
int64_t attention_workspace_bytes(struct tensor q, struct tensor k, struct tensor v, const struct attention_mask *mask);

// out = dropout(table[tokens] + positions). A token outside [vocabulary_start, vocabulary_start + V) contributes
// nothing: another rank holds it.
struct op_embedding_forward {
    struct tensor out;     // (N, C)
    struct tensor tokens;  // (N) i32
    struct tensor table;   // (V, C)
    int64_t vocabulary_start;
    struct tensor positions;       // (N) i32 or none
    struct tensor position_table;  // (P, C) or none
    struct dropout dropout;
};
struct op_embedding_backward {
    struct tensor dtable;           // (V, C) fp32 accumulated
    struct tensor dposition_table;  // (P, C) fp32 accumulated, or none
    struct tensor dout;             // (N, C)
    struct tensor tokens, positions;
    int64_t vocabulary_start;
    struct dropout dropout;
};

// Softmax cross entropy in two halves, so that ranks that each hold part of the vocabulary can combine their statistics
// in between. First half, over the local columns of the logits (N, V):
struct op_softmax_stats {
    struct tensor row_max;     // (N) fp32 out
    struct tensor row_sum;     // (N) fp32 out: sum of exp(logit - row_max)
    struct tensor row_target;  // (N) fp32 out: the label's logit, 0 if another rank holds it
    struct tensor logits;      // (N, V)
    struct tensor labels;      // (N) i32
    int64_t vocabulary_start;
};
// In between: merges the statistics of all parts of the vocabulary.
struct op_softmax_merge {
    struct tensor row_max, row_sum, row_target;  // (N) fp32 out
    struct tensor parts;                         // (P, 3, N) fp32: row_max, row_sum and row_target of each part
};
// Second half, with the statistics of the whole vocabulary: losses = log Z - row_target + z (log Z)^2 with log Z =
// log(row_sum) + row_max. If weights are given, logits are overwritten by weights[n] * (softmax * (1 + 2 z log Z) -
// one_hot(label)); rows with weight 0 get gradient 0.
struct op_cross_entropy {
    struct tensor losses;  // (N) fp32 out
    struct tensor logits;  // (N, V) in, gradient out
    struct tensor row_max, row_sum, row_target;
    bool makes_stats;  // compute the first half too: this rank has the whole vocabulary, and the statistics are outputs
    struct tensor labels;
    struct tensor weights;  // (N) fp32, or none: losses only
    int64_t vocabulary_start;
    float cap;  // the cap of op_softcap, if logits went through it: the gradient is that of its input; else 0
    float z;    // coefficient of the z-loss; 0: none
};

// x = cap * tanh(x / cap), for logits of an activation dtype.
struct op_softcap {
    struct tensor x;  // (N, V)
    float cap;        // above 0
};

// hits[i] += the number of rows whose label is among their tops[i] largest logits. Ties go to lower columns. NaN is not
// larger than any number, and a NaN label logit is not a hit.
enum { OPS_MOST_TOPS = 8 };
struct op_top_hits {
    struct tensor hits;    // (count) fp32 accumulated
    struct tensor logits;  // (N, V) fp32
    struct tensor labels;  // (N) i32, each below V
    int64_t tops[OPS_MOST_TOPS];
    int count;  // of tops, at least 1
};

// out = residual + factor * dropout(x + bias). out may alias residual or x; bias and residual may be none.
struct op_dropout_add {
    struct tensor out, x, residual;  // (N, C)
    struct tensor bias;              // (C)
    struct dropout dropout;
    float factor;  // 0 for 1
};
// dx = factor * dy through the dropout; may alias dy. dbias (C) fp32, accumulated, or none.
struct op_dropout_backward {
    struct tensor dx, dy;
    struct tensor dbias;
    struct dropout dropout;
    float factor;  // 0 for 1
};

// out (C) fp32 += column sums of x (N, C).
struct op_column_sum {
    struct tensor out, x;
};

// Sums into (1) fp32 tensors that stay on the device, so that a step never waits for it: out += sum of a[n] * b[n], and
// out += sum of x[n]^2 (x fp32, of any length).
struct op_dot {
    struct tensor out, a, b;
};
struct op_sum_squares {
    struct tensor out, x;
};
// out += a digest of the bytes of x that does not depend on reading order, see formulas.h. A single different word
// always changes it.
struct op_digest {
    struct tensor out;  // (1) i64
    struct tensor x;    // contiguous, of any shape and dtype
    uint64_t seed;      // different ones give unrelated numbers for the same bytes
};
// norm = sqrt(sum_squares); scale = max_norm / (norm + 1e-6) if that is below 1 and max_norm > 0, else 1. If norm is
// not finite, scale is NaN, which tells the optimizer to skip the update.
//
// With a loss scale, gradients are larger by that factor: norm and scale are divided by it, and then the loss scale is
// updated. An overflow (a norm that is not finite) resets the steps and uses up one tolerated overflow; if none is
// left, the scale is halved, down to `least`. After `window` good steps in a row the scale doubles and the tolerance is
// restored to `hysteresis`. A window of 0 keeps the scale constant.
enum {
    LOSS_SCALE_FACTOR,     // the scale itself
    LOSS_SCALE_STEPS,      // good steps since it last grew or an overflow happened
    LOSS_SCALE_TOLERANCE,  // overflows until it shrinks
    LOSS_SCALE_LENGTH
};
struct loss_scale_rule {
    int64_t window, hysteresis;
    float least;
};
// `rate` becomes the row of `rates` whose RATE_SKIPPED equals `skipped`; then, if the norm is not finite, `skipped` is
// incremented.
struct op_clip_scale {
    struct tensor scale, norm, sum_squares;
    float max_norm;
    struct tensor loss_scale;  // (LOSS_SCALE_LENGTH) fp32, updated; or none
    struct loss_scale_rule rule;
    struct tensor rate;     // (n) fp32 out; or none, and then the next two are none too
    struct tensor rates;    // (R, n) fp32
    struct tensor skipped;  // (1) fp32, updated
};

// dst = src, of any strides and the same shape, in the same or another floating-point dtype.
struct op_copy {
    struct tensor dst, src;
};
// x *= factor, and also x *= by if that is given; x is fp32, of any length.
struct op_scale {
    struct tensor x;
    float factor;
    struct tensor by;  // (1) fp32, or none
};

// The operations, one row each. Row x belongs to struct op_x above; the table below, the checked entry points op_x and
// the tables of all backends are made from the rows. For an operation of the first list, a device may take memory of
// its own (struct own_bytes).
#define ACTIVATION_OPERATIONS(X)                                                                                       \
    X(matmul)                                                                                                          \
    X(activation_forward)                                                                                              \
    X(activation_backward)                                                                                             \
    X(glu_forward)                                                                                                     \
    X(glu_backward)                                                                                                    \
    X(rope)                                                                                                            \
    X(relative_bias_forward)                                                                                           \
    X(norm_forward)                                                                                                    \
    X(norm_backward)                                                                                                   \
    X(attention_forward)                                                                                               \
    X(attention_backward)                                                                                              \
    X(latent_forward)                                                                                                  \
    X(latent_backward)                                                                                                 \
    X(embedding_forward)                                                                                               \
    X(embedding_backward)                                                                                              \
    X(dropout_add)                                                                                                     \
    X(dropout_backward)                                                                                                \
    X(jitter)                                                                                                          \
    X(column_sum)                                                                                                      \
    X(grouped_matmul)
#define OTHER_OPERATIONS(X)                                                                                            \
    X(quantize)                                                                                                        \
    X(quantize_blocks)                                                                                                 \
    X(transpose)                                                                                                       \
    X(move_ranges)                                                                                                     \
    X(relative_bias_backward)                                                                                          \
    X(alibi)                                                                                                           \
    X(softmax_stats)                                                                                                   \
    X(softmax_merge)                                                                                                   \
    X(softcap)                                                                                                         \
    X(largest_scores)                                                                                                  \
    X(cross_entropy)                                                                                                   \
    X(top_hits)                                                                                                        \
    X(dot)                                                                                                             \
    X(sum_squares)                                                                                                     \
    X(digest)                                                                                                          \
    X(clip_scale)                                                                                                      \
    X(adam)                                                                                                            \
    X(sgd)                                                                                                             \
    X(lion)                                                                                                            \
    X(momentum)                                                                                                        \
    X(normalize)                                                                                                       \
    X(add_diagonal)                                                                                                    \
    X(mean_squares)                                                                                                    \
    X(adapt)                                                                                                           \
    X(follow)                                                                                                          \
    X(average)                                                                                                         \
    X(clip_rows)                                                                                                       \
    X(split)                                                                                                           \
    X(merge)                                                                                                           \
    X(copy)                                                                                                            \
    X(scale)                                                                                                           \
    EXPERT_OPERATIONS(X)
#define OPERATIONS(X)                                                                                                  \
    ACTIVATION_OPERATIONS(X)                                                                                           \
    OTHER_OPERATIONS(X)

// The device's own memory, beside the tensors, that an operation needs: fp32 copies of 16-bit tensors (wide), and rooms
// for reordered operands of matmuls. The device keeps the maximum of each over all operations.
enum { OWN_ROOMS = 5 };
struct own_need {
    size_t wide, rooms[OWN_ROOMS];
};
static inline void own_need_raise(struct own_need *most, const struct own_need *need) {
    most->wide = need->wide > most->wide ? need->wide : most->wide;
    for (int i = 0; i < OWN_ROOMS; i++)
        most->rooms[i] = need->rooms[i] > most->rooms[i] ? need->rooms[i] : most->rooms[i];
}
struct own_bytes {
#define MEMBER(name_) struct own_need (*name_)(const struct device *device, const struct op_##name_ *op);
    ACTIVATION_OPERATIONS(MEMBER)
#undef MEMBER
};

// A backend. `struct device` begins with its table; a backend's own struct begins with a struct device.
struct ops {
    const char *name;
    bool is_host_memory;  // the host can read and write device memory (after a synchronise)
    bool is_imaginary;    // memory from alloc does not exist and is unlimited
    int most_head_size;   // the widest heads that attention takes; 0 for any
    bool fuses_stats;  // cross_entropy can compute the statistics itself; otherwise op_cross_entropy calls both halves
    bool fuses_quantize;    // norm_forward can store its result in fp8
    size_t standing_bytes;  // device memory that it takes for itself when opened

    void (*close)(struct device *device);
    bool (*supports)(const struct device *device, enum dtype dtype);
    // Whether it has matmuls of operands with this scaling; NULL: with any.
    bool (*supports_scaling)(const struct device *device, enum scaling scaling);
    // Whether it has fp8 matmuls of experts whose rows have this scaling, and their helpers (op_sort_slots' aligned,
    // op_quantize_blocks' parts); NULL: as it has fp8.
    bool (*multiplies_groups8)(const struct device *device, enum scaling scaling);
    // Whether matmuls of a dtype that it supports are faster than in fp32; NULL if all are.
    bool (*is_fast)(const struct device *device, enum dtype dtype);
    void (*describe)(const struct device *device, char *text, size_t size);

    // Memory. alloc returns NULL after error_set if there is not enough (exit code OUT_OF_MEMORY). host_alloc returns
    // memory whose copies are asynchronous, and which operations and copies accept instead of device memory.
    void *(*alloc)(struct device *device, size_t bytes);
    void (*free)(struct device *device, void *memory);
    size_t (*room)(struct device *device);  // see device_room; NULL if memory is not the device's own
    // Lower bound of the device memory that libraries may take later (kernels loaded at first use, plans, connections);
    // 0 if memory is not the device's own.
    size_t library_bytes;
    const struct own_bytes *own_bytes;  // NULL if no operation takes memory of the device's own
    void *(*host_alloc)(struct device *device, size_t bytes);
    void (*host_free)(struct device *device, void *memory);
    void (*copy_in)(struct device *device, void *to_device, const void *from_host, size_t bytes, enum stream stream);
    void (*copy_out)(struct device *device, void *to_host, const void *from_device, size_t bytes, enum stream stream);
    void (*zero)(struct device *device, void *memory, size_t bytes, enum stream stream);

    // Order between streams and with the host.
    struct event *(*event_create)(struct device *device);
    void (*event_free)(struct device *device, struct event *event);
    void (*event_record)(struct device *device, struct event *event, enum stream stream);
    void (*stream_wait)(struct device *device, enum stream stream, struct event *event);
    void (*event_wait)(struct device *device, struct event *event);  // the host waits
    void (*synchronize)(struct device *device);                      // the host waits for everything
    // The vendor's own stream, for a library of the same vendor that queues work after ours; NULL if there is none.
    void *(*native_stream)(struct device *device, enum stream stream);
    // A globally unique 128-bit id of the device; NULL if ranks may share a device freely.
    void (*identity)(struct device *device, int64_t words[2]);
    // The ranks of this machine have more threads than processors: threads of the device that wait must not spin. NULL
    // if none compute.
    void (*share_processors)(struct device *device);

    // See device_join; NULL if nothing is timed.
    void (*join)(struct device *device, const struct device_peers *peers);

    // Recordings, see device_records; NULL if the device makes none.
    void (*record_begin)(struct device *device);
    struct recording *(*record_end)(struct device *device);
    void (*replay)(struct device *device, struct recording *recording);
    void (*recording_free)(struct device *device, struct recording *recording);

    // Whether batches of 16-bit matmuls are faster, or NULL; computes a batch, or false: do them one by one.
    bool (*gains_by_many)(const struct device *device);
    bool (*matmul_many)(struct device *device, const struct op_matmul_many *op);
    // See device_stamp; NULL if operations are complete when their call returns, so that the host's clock times them.
    const struct device_clock *clock;

    // See device_profile_start; NULL if the device keeps no profile.
    void (*profile_start)(struct device *device);
    int (*profile_stop)(struct device *device, struct profile_row *rows, int most);

#define ENTRY(name_) void (*name_)(struct device * device, const struct op_##name_ *op);
    OPERATIONS(ENTRY)
#undef ENTRY
};

struct device {
    const struct ops *ops;
    int threads;  // host threads that compute; 0: the caller alone
};

// Checked entry points, one per operation. See contract.h.
#define DECLARE(name_) void op_##name_(struct device *device, const struct op_##name_ *op);
OPERATIONS(DECLARE)
DECLARE(matmul_many)
#undef DECLARE

#endif
