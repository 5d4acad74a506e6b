// Attention as operation graphs: matmuls, pointwise operations and reductions, down to the order of the causal
// comparison (row >= column) and of the mask and the subtraction of the statistics in backward, because cuDNN does not
// recognise other orders. Packed q, k and v need no transposes: strides give the layout.
#include "ops/cuda/cudnn_graph.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

typedef cudnnBackendDescriptor_t descriptor;  // an opaque pointer of cuDNN's

// ---- Shapes ----

// Context for building a graph: the key's sizes, the element type, the graph itself.
struct sketch {
    struct cudnn_graph *graph;
    const struct plan_key *key;
    cudnnDataType_t type;
};

// (B, heads, T, D or V) at a place, or with its last two dimensions exchanged.
static descriptor real_tensor(const struct sketch *s, enum tensor_place place, bool is_transposed) {
    const struct plan_key *key = s->key;
    bool is_query = place == PLACE_Q || place == PLACE_OUT || place == PLACE_DOUT || place == PLACE_DQ;
    int64_t heads = is_query ? key->H : key->G, time = is_query ? key->Tq : key->Tk;
    bool is_value = place == PLACE_V || place == PLACE_OUT || place == PLACE_DOUT || place == PLACE_DV;
    int64_t size = is_value ? key->V : key->D;
    const int64_t *stride = key->stride[place];
    struct cudnn_shape shape = {{key->B, heads, time, size}, {stride[0], stride[2], stride[1], 1}};
    if (is_transposed)
        shape = (struct cudnn_shape){{key->B, heads, size, time}, {stride[0], stride[2], 1, stride[1]}};
    return cudnn_tensor(s->graph, 1 + (int64_t)place, s->type, shape);
}

// A virtual (B, H, Tq, Tk): the scores and all that is computed from them.
static descriptor scores(const struct sketch *s, cudnnDataType_t type) {
    const struct plan_key *k = s->key;
    struct cudnn_shape shape = {{k->B, k->H, k->Tq, k->Tk}, {k->H * k->Tq * k->Tk, k->Tq * k->Tk, k->Tk, 1}};
    return cudnn_tensor(s->graph, 0, type, shape);
}

// Its transpose, for the matmul that sums over queries.
static descriptor scores_transposed(const struct sketch *s) {
    const struct plan_key *k = s->key;
    struct cudnn_shape shape = {{k->B, k->H, k->Tk, k->Tq}, {k->H * k->Tq * k->Tk, k->Tq * k->Tk, 1, k->Tk}};
    return cudnn_tensor(s->graph, 0, s->type, shape);
}

// One fp32 value per query: (B, H, Tq, 1).
static descriptor per_query(const struct sketch *s, int64_t uid) {
    const struct plan_key *k = s->key;
    struct cudnn_shape shape = {{k->B, k->H, k->Tq, 1}, {k->H * k->Tq, k->Tq, 1, 1}};
    return cudnn_tensor(s->graph, uid, CUDNN_DATA_FLOAT, shape);
}

static void apply(const struct sketch *s, cudnnPointwiseMode_t mode, descriptor x, descriptor b, descriptor y) {
    cudnn_pointwise(s->graph,
                    &(struct cudnn_pointwise){.mode = mode, .compute = CUDNN_DATA_FLOAT, .x = x, .b = b, .y = y});
}

static descriptor applied(const struct sketch *s, cudnnPointwiseMode_t mode, descriptor x, descriptor b) {
    descriptor y = scores(s, CUDNN_DATA_FLOAT);
    apply(s, mode, x, b, y);
    return y;
}

// ---- Masks and dropout ----

// The row (axis 2) or the column (axis 3) of every score.
static descriptor index_of(const struct sketch *s, descriptor x, int64_t axis) {
    descriptor y = scores(s, CUDNN_DATA_INT32);
    cudnn_pointwise(s->graph,
                    &(struct cudnn_pointwise){
                        .mode = CUDNN_POINTWISE_GEN_INDEX, .compute = CUDNN_DATA_FLOAT, .x = x, .y = y, .axis = axis});
    return y;
}

// x where `mode` holds for a and b, else the scalar `negative`, which is -infinity.
static descriptor select_where(const struct sketch *s, descriptor x, cudnnPointwiseMode_t mode, descriptor a,
                               descriptor b, int64_t negative) {
    descriptor is_seen = scores(s, CUDNN_DATA_BOOLEAN), y = scores(s, CUDNN_DATA_FLOAT);
    cudnn_pointwise(
        s->graph, &(struct cudnn_pointwise){.mode = mode, .compute = CUDNN_DATA_BOOLEAN, .x = a, .b = b, .y = is_seen});
    cudnn_pointwise(s->graph, &(struct cudnn_pointwise){.mode = CUDNN_POINTWISE_BINARY_SELECT,
                                                        .compute = CUDNN_DATA_FLOAT,
                                                        .x = x,
                                                        .b = cudnn_scalar(s->graph, negative),
                                                        .chooser = is_seen,
                                                        .y = y});
    return y;
}

// A number for each query, the same for all heads: (B, 1, Tq, 1). One per sample would suffice for padding, but cuDNN
// 9.14 compiles (B, 1, 1, 1) and computes wrong results.
static descriptor bound(const struct sketch *s, int64_t uid) {
    const struct plan_key *k = s->key;
    return cudnn_tensor(s->graph, uid, CUDNN_DATA_INT32,
                        (struct cudnn_shape){{k->B, 1, k->Tq, 1}, {k->Tq, k->Tq, 1, 1}});
}

// The causal mask is row >= column: cuDNN does not recognise other forms.
static descriptor mask(const struct sketch *s, descriptor x) {
    if (s->key->has_first)
        x = select_where(s, x, CUDNN_POINTWISE_CMP_GE, index_of(s, x, 3), bound(s, UID_FIRST), UID_FIRST_NEGATIVE);
    if (s->key->has_end)
        x = select_where(s, x, CUDNN_POINTWISE_CMP_LT, index_of(s, x, 3), bound(s, UID_END), UID_END_NEGATIVE);
    if (s->key->is_causal) {
        descriptor row = index_of(s, x, 2), column = index_of(s, x, 3);
        x = select_where(s, x, CUDNN_POINTWISE_CMP_GE, row, column, UID_NEGATIVE);
    }
    return x;
}

static bool has_dropout(const struct sketch *s) {
    return s->key->keep < 1;
}

// 1 for kept weights, 0 for dropped ones. Identical in forward and backward.
static descriptor draw(const struct sketch *s) {
    struct cudnn_shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    descriptor seed = cudnn_tensor(s->graph, UID_SEED, CUDNN_DATA_INT64, one);
    descriptor offset = cudnn_tensor(s->graph, UID_OFFSET, CUDNN_DATA_INT64, one), kept = scores(s, CUDNN_DATA_FLOAT);
    cudnn_draw(s->graph, s->key->keep, seed, offset, kept);
    return kept;
}

// ---- Graphs ----

static void draw_forward(const struct sketch *s) {
    struct cudnn_graph *graph = s->graph;
    descriptor x = scores(s, CUDNN_DATA_FLOAT);
    cudnn_matmul(graph, real_tensor(s, PLACE_Q, false), real_tensor(s, PLACE_K, true), x);
    x = mask(s, applied(s, CUDNN_POINTWISE_MUL, x, cudnn_scalar(graph, UID_SCALE)));
    descriptor largest = per_query(s, 0), sum = per_query(s, 0), log_sum = per_query(s, 0);
    descriptor stats = per_query(s, s->key->kind == KIND_FORWARD ? UID_STATS : 0);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, x, largest);
    x = applied(s, CUDNN_POINTWISE_SUB, x, largest);
    x = applied(s, CUDNN_POINTWISE_EXP, x, NULL);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, x, sum);
    apply(s, CUDNN_POINTWISE_LOG, sum, NULL, log_sum);
    apply(s, CUDNN_POINTWISE_ADD, largest, log_sum, stats);
    descriptor weights = scores(s, s->type);  // the second matmul takes operands of one type
    if (has_dropout(s)) {
        x = applied(s, CUDNN_POINTWISE_DIV, x, sum);
        x = applied(s, CUDNN_POINTWISE_MUL, x, draw(s));
        apply(s, CUDNN_POINTWISE_MUL, x, cudnn_scalar(graph, UID_KEEP_SCALE), weights);
    } else {
        apply(s, CUDNN_POINTWISE_DIV, x, sum, weights);
    }
    cudnn_matmul(graph, weights, real_tensor(s, PLACE_V, false), real_tensor(s, PLACE_OUT, false));
}

// gradient (B, G, Tk, D or V) = pairs^T x rows: directly, or for grouped queries through a tensor of all H heads.
static void sum_over_queries(const struct sketch *s, descriptor pairs, descriptor rows, enum tensor_place place) {
    const struct plan_key *k = s->key;
    descriptor transposed = scores_transposed(s), gradient = real_tensor(s, place, false);
    cudnn_reshape(s->graph, pairs, transposed);
    if (k->G == k->H) {
        cudnn_matmul(s->graph, transposed, rows, gradient);
        return;
    }
    int64_t size = place == PLACE_DV ? k->V : k->D;
    struct cudnn_shape shape = {{k->B, k->H, k->Tk, size}, {k->H * k->Tk * size, k->Tk * size, size, 1}};
    descriptor all_heads = cudnn_tensor(s->graph, 0, s->type, shape);
    cudnn_matmul(s->graph, transposed, rows, all_heads);
    cudnn_reduce(s->graph, CUDNN_REDUCE_TENSOR_ADD, all_heads, gradient);
}

static void draw_backward(const struct sketch *s) {
    struct cudnn_graph *graph = s->graph;
    const struct plan_key *k = s->key;
    int64_t H = k->H, T = k->Tq, D = k->D, V = k->V;
    descriptor q = real_tensor(s, PLACE_Q, false), keys = real_tensor(s, PLACE_K, true);
    descriptor dout = real_tensor(s, PLACE_DOUT, false), scale = cudnn_scalar(graph, UID_SCALE);
    descriptor stats = per_query(s, UID_STATS), row_sum = per_query(s, UID_ROW_SUM), row_dot = per_query(s, 0);
    // The row sums of dout * out, times the keep probability, since the gradients are divided by it at the end.
    struct cudnn_shape by_head = {{k->B, H, T, V}, {H * T * V, T * V, H * V, 1}};
    descriptor product = cudnn_tensor(graph, 0, CUDNN_DATA_FLOAT, by_head);
    apply(s, CUDNN_POINTWISE_MUL, dout, real_tensor(s, PLACE_OUT, false), product);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, product, row_dot);
    apply(s, CUDNN_POINTWISE_MUL, row_dot, cudnn_scalar(graph, UID_KEEP), row_sum);
    // Recomputes the weights from the statistics of forward.
    descriptor x = scores(s, CUDNN_DATA_FLOAT);
    cudnn_matmul(graph, q, keys, x);
    x = applied(s, CUDNN_POINTWISE_MUL, x, scale);
    x = applied(s, CUDNN_POINTWISE_SUB, x, stats);
    descriptor weights = applied(s, CUDNN_POINTWISE_EXP, mask(s, x), NULL), dropped = weights;
    descriptor kept = has_dropout(s) ? draw(s) : NULL, keep_scale = kept ? cudnn_scalar(graph, UID_KEEP_SCALE) : NULL;
    if (kept)
        dropped = applied(s, CUDNN_POINTWISE_MUL, applied(s, CUDNN_POINTWISE_MUL, weights, kept), keep_scale);
    sum_over_queries(s, dropped, dout, PLACE_DV);
    // The gradient of the scores.
    descriptor dx = scores(s, CUDNN_DATA_FLOAT);
    cudnn_matmul(graph, dout, real_tensor(s, PLACE_V, true), dx);
    if (kept)
        dx = applied(s, CUDNN_POINTWISE_MUL, dx, kept);
    dx = applied(s, CUDNN_POINTWISE_SUB, dx, row_sum);
    dx = applied(s, CUDNN_POINTWISE_MUL, dx, weights);
    dx = applied(s, CUDNN_POINTWISE_MUL, dx, scale);
    if (kept)
        dx = applied(s, CUDNN_POINTWISE_MUL, dx, keep_scale);
    sum_over_queries(s, dx, q, PLACE_DK);
    // dq, summed in fp32 in our own memory and then rounded. A matmul that writes dq itself would make cuDNN choose its
    // deterministic algorithm.
    const int64_t *stride = k->stride[PLACE_K];
    struct cudnn_shape key_shape = {{k->B, k->G, k->Tk, D}, {stride[0], stride[2], stride[1], 1}};
    struct cudnn_shape sum_shape = {{k->B, H, T, D}, {H * T * D, T * D, D, 1}};
    descriptor rows = cudnn_tensor(graph, 0, CUDNN_DATA_FLOAT, key_shape), dq = real_tensor(s, PLACE_DQ, false);
    cudnn_reshape(graph, keys, rows);
    if (k->kind == KIND_BACKWARD_FIXED) {
        cudnn_matmul(graph, dx, rows, dq);
        return;
    }
    descriptor sum = cudnn_tensor(graph, UID_DQ_SUM, CUDNN_DATA_FLOAT, sum_shape);
    cudnn_matmul(graph, dx, rows, sum);
    apply(s, CUDNN_POINTWISE_IDENTITY, sum, NULL, dq);
}

void cudnn_sketch(struct cudnn_graph *graph, const struct plan_key *key) {
    struct sketch sketch = {
        .graph = graph, .key = key, .type = key->dtype == DTYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF};
    if (key->kind == KIND_BACKWARD || key->kind == KIND_BACKWARD_FIXED)
        draw_backward(&sketch);
    else
        draw_forward(&sketch);
}

// Side inputs of cuDNN's attention.

static int64_t bound_bytes(const struct plan_key *key) {
    return cudnn_align((int64_t)sizeof(int32_t) * key->B * key->Tq);
}

// Bounds and seeds lie at the beginning of a workspace, in this order: first keys, ends, a seed and an offset for each
// part.
int64_t side_bytes(const struct attention_cut *cut) {
    const struct plan_key *key = &cut->whole;
    int64_t rows = bound_bytes(key), seeds = cudnn_align(2 * (int64_t)sizeof(int64_t) * cut->count);
    return (key->has_first ? rows : 0) + (key->has_end ? rows : 0) + (key->keep < 1 ? seeds : 0);
}

struct side_inputs side_write(const struct attention_cut *cut, const struct attention_inputs *in, void *stream,
                              void *memory) {
    unsigned char *at = memory;
    const struct plan_key *key = &cut->whole;
    struct side_inputs side = {.B = key->B,
                               .Tq = key->Tq,
                               .Tk = key->Tk,
                               .part_samples = cut->part.B,
                               .part_heads = cut->part.H,
                               .parts = cut->count,
                               .head_parts = key->H / cut->part.H};
    if (key->has_first) {
        side.first = (int32_t *)at;
        at += bound_bytes(key);
    }
    if (key->has_end) {
        side.end = (int32_t *)at;
        at += bound_bytes(key);
    }
    if (key->keep < 1)
        side.draw = (int64_t *)at;
    if (side_bytes(cut) > 0)
        side_kernel(stream, &side, in->mask, in->dropout);
    return side;
}

static const float NEGATIVE = -INFINITY;

void side_bind(struct cudnn_bindings *bindings, const struct plan_key *key, const struct side_inputs *side,
               const int64_t at[2]) {
    if (key->is_causal)
        cudnn_bind(bindings, UID_NEGATIVE, &NEGATIVE);
    if (side->first) {
        cudnn_bind(bindings, UID_FIRST, side->first + at[0] * key->Tq);
        cudnn_bind(bindings, UID_FIRST_NEGATIVE, &NEGATIVE);
    }
    if (side->end) {
        cudnn_bind(bindings, UID_END, side->end + at[0] * key->Tq);
        cudnn_bind(bindings, UID_END_NEGATIVE, &NEGATIVE);
    }
    if (side->draw) {
        int64_t part = at[0] / side->part_samples * side->head_parts + at[1] / side->part_heads;
        cudnn_bind(bindings, UID_SEED, side->draw + 2 * part);
        cudnn_bind(bindings, UID_OFFSET, side->draw + 2 * part + 1);
    }
}
