// Attention by the fused kernels of cuDNN. The graphs are those that its pattern matcher knows for attention:
// products, pointwise operations and reductions, down to the order of the causal comparison (row >= column) and of
// the mask and the subtraction of the statistics in backward. Packed q, k and v need no transposes: strides tell the
// layout.
//
// A plan is compiled once for a shape (some 50 ms) and kept. What cuDNN does not get: fp32, dropout (its generator is
// not ours, and a mask must not depend on who computes it), lengths that are no multiple of 128 (its kernels before
// 9.16 read beyond the end there), a causal mask with a cache, and views that are not aligned to 16 bytes.
//
// Backward accumulates dq in fp32 with atomics in an order that changes: two runs may differ in the last bits.
#include "ops/cuda/attention_cudnn.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "ops/cuda/cudnn_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;  // an opaque pointer of cuDNN's

enum { PLAN_COUNT = 64, LENGTH_MULTIPLE = 128, WORKSPACE_ALIGNMENT = 256 };

enum attention_kind { KIND_FORWARD, KIND_INFERENCE, KIND_BACKWARD };

enum tensor_place { PLACE_Q, PLACE_K, PLACE_V, PLACE_OUT, PLACE_DOUT, PLACE_DQ, PLACE_DK, PLACE_DV, PLACE_COUNT };

// Numbers of the tensors that are not virtual; those of enum tensor_place are 1 + the place.
enum { UID_STATS = 20, UID_SCALE, UID_NEGATIVE, UID_ONE, UID_ROW_SUM, UID_DQ_SUM };

// All that a plan depends on. Compared as bytes: built from zeroed memory.
struct plan_key {
    int64_t B, H, G, Tq, Tk, D;
    int64_t stride[PLACE_COUNT][3];  // batch, time, head
    int64_t kind, is_causal, dtype;
};

struct plan {
    struct plan_key key;
    bool is_used, is_refused;
    struct cudnn_graph graph;
};

struct cudnn_attention {
    cudnnHandle_t handle;
    void *workspace;  // of forward plans
    size_t workspace_bytes;
    struct plan plans[PLAN_COUNT];
    int next;  // the place that is written over where all are used
};

struct cudnn_attention *cudnn_attention_open(void *stream, void *workspace, size_t workspace_bytes) {
    cudnnHandle_t handle = NULL;
    cudnnStatus_t status = cudnnCreate(&handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnSetStream(handle, (cudaStream_t)stream);
    if (status != CUDNN_STATUS_SUCCESS) {
        log_warn("cuDNN cannot be used (%s): attention runs on slower kernels", cudnnGetErrorString(status));
        return NULL;
    }
    struct cudnn_attention *attention = memory_alloc(sizeof *attention);
    attention->handle = handle;
    attention->workspace = workspace;
    attention->workspace_bytes = workspace_bytes;
    return attention;
}

void cudnn_attention_close(struct cudnn_attention *attention) {
    if (!attention)
        return;
    for (int i = 0; i < PLAN_COUNT; i++)
        cudnn_graph_free(&attention->plans[i].graph);
    cudnnDestroy(attention->handle);
    free(attention);
}

void cudnn_attention_describe(const struct cudnn_attention *attention, char *text, size_t size) {
    size_t version = cudnnGetVersion();
    if (attention)
        snprintf(text, size, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    else if (size > 0)
        text[0] = 0;
}

// ---- Shapes ----

// What a graph is written with: the key's sizes, the element type, the graph itself.
struct sketch {
    struct cudnn_graph *graph;
    const struct plan_key *key;
    cudnnDataType_t type;
};

// (B, heads, T, D) at a place, or with its last two dimensions exchanged.
static descriptor real_tensor(const struct sketch *s, enum tensor_place place, bool is_transposed) {
    const struct plan_key *key = s->key;
    bool is_query = place == PLACE_Q || place == PLACE_OUT || place == PLACE_DOUT || place == PLACE_DQ;
    int64_t heads = is_query ? key->H : key->G, time = is_query ? key->Tq : key->Tk;
    const int64_t *stride = key->stride[place];
    struct cudnn_shape shape = {{key->B, heads, time, key->D}, {stride[0], stride[2], stride[1], 1}};
    if (is_transposed)
        shape = (struct cudnn_shape){{key->B, heads, key->D, time}, {stride[0], stride[2], 1, stride[1]}};
    return cudnn_tensor(s->graph, 1 + (int64_t)place, s->type, shape);
}

// A virtual (B, H, Tq, Tk): the scores and all that is computed from them.
static descriptor scores(const struct sketch *s, cudnnDataType_t type) {
    const struct plan_key *k = s->key;
    struct cudnn_shape shape = {{k->B, k->H, k->Tq, k->Tk}, {k->H * k->Tq * k->Tk, k->Tq * k->Tk, k->Tk, 1}};
    return cudnn_tensor(s->graph, 0, type, shape);
}

// Its transpose, as the product that sums over queries wants it.
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

// x where row >= column, else -infinity. Other ways to say the same are not recognised as the causal mask.
static descriptor mask_causal(const struct sketch *s, descriptor x) {
    descriptor row = scores(s, CUDNN_DATA_INT32), column = scores(s, CUDNN_DATA_INT32);
    descriptor is_seen = scores(s, CUDNN_DATA_BOOLEAN), y = scores(s, CUDNN_DATA_FLOAT);
    struct cudnn_pointwise index = {
        .mode = CUDNN_POINTWISE_GEN_INDEX, .compute = CUDNN_DATA_FLOAT, .x = x, .y = row, .axis = 2};
    cudnn_pointwise(s->graph, &index);
    index.y = column;
    index.axis = 3;
    cudnn_pointwise(s->graph, &index);
    cudnn_pointwise(
        s->graph,
        &(struct cudnn_pointwise){
            .mode = CUDNN_POINTWISE_CMP_GE, .compute = CUDNN_DATA_BOOLEAN, .x = row, .b = column, .y = is_seen});
    cudnn_pointwise(s->graph, &(struct cudnn_pointwise){.mode = CUDNN_POINTWISE_BINARY_SELECT,
                                                        .compute = CUDNN_DATA_FLOAT,
                                                        .x = x,
                                                        .b = cudnn_scalar(s->graph, UID_NEGATIVE),
                                                        .chooser = is_seen,
                                                        .y = y});
    return y;
}

// ---- Graphs ----

static void draw_forward(const struct sketch *s) {
    struct cudnn_graph *graph = s->graph;
    descriptor x = scores(s, CUDNN_DATA_FLOAT);
    cudnn_matmul(graph, real_tensor(s, PLACE_Q, false), real_tensor(s, PLACE_K, true), x);
    x = applied(s, CUDNN_POINTWISE_MUL, x, cudnn_scalar(graph, UID_SCALE));
    if (s->key->is_causal)
        x = mask_causal(s, x);
    descriptor largest = per_query(s, 0), sum = per_query(s, 0), log_sum = per_query(s, 0);
    descriptor stats = per_query(s, s->key->kind == KIND_FORWARD ? UID_STATS : 0);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, x, largest);
    x = applied(s, CUDNN_POINTWISE_SUB, x, largest);
    x = applied(s, CUDNN_POINTWISE_EXP, x, NULL);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, x, sum);
    apply(s, CUDNN_POINTWISE_LOG, sum, NULL, log_sum);
    apply(s, CUDNN_POINTWISE_ADD, largest, log_sum, stats);
    descriptor weights = scores(s, s->type);  // the second product takes operands of one type
    apply(s, CUDNN_POINTWISE_DIV, x, sum, weights);
    cudnn_matmul(graph, weights, real_tensor(s, PLACE_V, false), real_tensor(s, PLACE_OUT, false));
}

// gradient (B, G, Tk, D) = pairs^T x rows: straight, or for grouped queries by way of a tensor of all H heads.
static void sum_over_queries(const struct sketch *s, descriptor pairs, descriptor rows, enum tensor_place place) {
    const struct plan_key *k = s->key;
    descriptor transposed = scores_transposed(s), gradient = real_tensor(s, place, false);
    cudnn_reshape(s->graph, pairs, transposed);
    if (k->G == k->H) {
        cudnn_matmul(s->graph, transposed, rows, gradient);
        return;
    }
    struct cudnn_shape shape = {{k->B, k->H, k->Tk, k->D}, {k->H * k->Tk * k->D, k->Tk * k->D, k->D, 1}};
    descriptor all_heads = cudnn_tensor(s->graph, 0, s->type, shape);
    cudnn_matmul(s->graph, transposed, rows, all_heads);
    cudnn_reduce(s->graph, CUDNN_REDUCE_TENSOR_ADD, all_heads, gradient);
}

static void draw_backward(const struct sketch *s) {
    struct cudnn_graph *graph = s->graph;
    const struct plan_key *k = s->key;
    int64_t H = k->H, T = k->Tq, D = k->D;
    descriptor q = real_tensor(s, PLACE_Q, false), keys = real_tensor(s, PLACE_K, true);
    descriptor dout = real_tensor(s, PLACE_DOUT, false), scale = cudnn_scalar(graph, UID_SCALE);
    descriptor stats = per_query(s, UID_STATS), row_sum = per_query(s, UID_ROW_SUM), row_dot = per_query(s, 0);
    // The row sums of dout * out; `one` is where a dropout's keep rate would stand.
    struct cudnn_shape by_head = {{k->B, H, T, D}, {H * T * D, T * D, H * D, 1}};
    descriptor product = cudnn_tensor(graph, 0, CUDNN_DATA_FLOAT, by_head);
    apply(s, CUDNN_POINTWISE_MUL, dout, real_tensor(s, PLACE_OUT, false), product);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, product, row_dot);
    apply(s, CUDNN_POINTWISE_MUL, row_dot, cudnn_scalar(graph, UID_ONE), row_sum);
    // The weights again, from the statistics of forward.
    descriptor x = scores(s, CUDNN_DATA_FLOAT);
    cudnn_matmul(graph, q, keys, x);
    x = applied(s, CUDNN_POINTWISE_MUL, x, scale);
    x = applied(s, CUDNN_POINTWISE_SUB, x, stats);
    if (k->is_causal)
        x = mask_causal(s, x);
    descriptor weights = applied(s, CUDNN_POINTWISE_EXP, x, NULL);
    sum_over_queries(s, weights, dout, PLACE_DV);
    // The gradient of the scores.
    descriptor dx = scores(s, CUDNN_DATA_FLOAT);
    cudnn_matmul(graph, dout, real_tensor(s, PLACE_V, true), dx);
    dx = applied(s, CUDNN_POINTWISE_SUB, dx, row_sum);
    dx = applied(s, CUDNN_POINTWISE_MUL, dx, weights);
    dx = applied(s, CUDNN_POINTWISE_MUL, dx, scale);
    sum_over_queries(s, dx, q, PLACE_DK);
    // dq, summed in fp32 in memory of ours and then rounded.
    const int64_t *stride = k->stride[PLACE_K];
    struct cudnn_shape key_shape = {{k->B, k->G, k->Tk, D}, {stride[0], stride[2], stride[1], 1}};
    struct cudnn_shape sum_shape = {{k->B, H, T, D}, {H * T * D, T * D, D, 1}};
    descriptor rows = cudnn_tensor(graph, 0, CUDNN_DATA_FLOAT, key_shape);
    descriptor sum = cudnn_tensor(graph, UID_DQ_SUM, CUDNN_DATA_FLOAT, sum_shape);
    cudnn_reshape(graph, keys, rows);
    cudnn_matmul(graph, dx, rows, sum);
    apply(s, CUDNN_POINTWISE_IDENTITY, sum, NULL, real_tensor(s, PLACE_DQ, false));
}

// ---- Plans ----

static struct cudnn_graph *plan_find(struct cudnn_attention *attention, const struct plan_key *key) {
    int place = 0;
    while (place < PLAN_COUNT && attention->plans[place].is_used) {
        struct plan *plan = &attention->plans[place];
        if (memcmp(&plan->key, key, sizeof *key) == 0)
            return plan->is_refused ? NULL : &plan->graph;
        place++;
    }
    if (place == PLAN_COUNT) {
        place = attention->next;
        attention->next = (attention->next + 1) % PLAN_COUNT;
    }
    struct plan *plan = &attention->plans[place];
    cudnn_graph_free(&plan->graph);
    *plan = (struct plan){.key = *key, .is_used = true, .graph = {.handle = attention->handle}};
    struct sketch sketch = {.graph = &plan->graph,
                            .key = &plan->key,
                            .type = key->dtype == DTYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF};
    if (key->kind == KIND_BACKWARD)
        draw_backward(&sketch);
    else
        draw_forward(&sketch);
    plan->is_refused = !cudnn_graph_compile(&plan->graph);
    if (plan->is_refused) {
        log_info("attention: cuDNN does not take %lld heads of %lld over %lld tokens (%s); a slower kernel is used",
                 (long long)key->H, (long long)key->D, (long long)key->Tk, plan->graph.problem);
        cudnn_graph_free(&plan->graph);
        return NULL;
    }
    return &plan->graph;
}

// Notes a tensor in the key; false if its place in memory is not for cuDNN.
static bool note_tensor(struct plan_key *key, enum tensor_place place, struct tensor t) {
    bool is_aligned = (uintptr_t)t.data % 16 == 0;
    for (int i = 0; i < 3; i++) {
        key->stride[place][i] = t.stride[i];
        is_aligned = is_aligned && t.stride[i] % 8 == 0;
    }
    return is_aligned;
}

struct attention_inputs {
    struct tensor q, k, v, out;
    bool is_causal;
    const struct attention_mask *mask;
    const struct dropout *dropout;
};

static bool note_inputs(struct plan_key *key, const struct attention_inputs *in) {
    memset(key, 0, sizeof *key);
    key->B = in->q.shape[0];
    key->Tq = in->q.shape[1];
    key->H = in->q.shape[2];
    key->D = in->q.shape[3];
    key->Tk = in->k.shape[1];
    key->G = in->k.shape[2];
    key->is_causal = in->is_causal;
    key->dtype = in->q.dtype;
    bool is_possible = (in->q.dtype == DTYPE_BF16 || in->q.dtype == DTYPE_F16) && in->dropout->rate == 0;
    is_possible = is_possible && !attention_has_mask(in->mask);
    is_possible = is_possible && key->D % 8 == 0 && key->Tq % LENGTH_MULTIPLE == 0 && key->Tk % LENGTH_MULTIPLE == 0;
    is_possible = is_possible && key->B > 0 && key->Tq > 0 && (!in->is_causal || key->Tq == key->Tk);
    return is_possible && note_tensor(key, PLACE_Q, in->q) && note_tensor(key, PLACE_K, in->k) &&
           note_tensor(key, PLACE_V, in->v) && note_tensor(key, PLACE_OUT, in->out);
}

static void run(const struct cudnn_graph *graph, const struct cudnn_bindings *bindings, void *workspace) {
    cudnnStatus_t status = cudnn_graph_run(graph, bindings, workspace);
    if (status != CUDNN_STATUS_SUCCESS) {
        char reason[300] = "";
        cudnnGetLastErrorString(reason, sizeof reason);
        die("cuDNN attention: %s %s", cudnnGetErrorString(status), reason);
    }
}

static void bind_place(struct cudnn_bindings *bindings, enum tensor_place place, struct tensor t) {
    cudnn_bind(bindings, 1 + (int64_t)place, t.data);
}

bool cudnn_attention_forward(struct cudnn_attention *attention, const struct op_attention_forward *op) {
    struct plan_key key;
    struct attention_inputs inputs = {op->q, op->k, op->v, op->out, op->is_causal, &op->mask, &op->dropout};
    if (!attention || !note_inputs(&key, &inputs))
        return false;
    key.kind = op->lse.data ? KIND_FORWARD : KIND_INFERENCE;
    const struct cudnn_graph *graph = plan_find(attention, &key);
    if (!graph || (size_t)graph->workspace_bytes > attention->workspace_bytes)
        return false;
    const float negative = -INFINITY;
    struct cudnn_bindings bindings = {.count = 0};
    bind_place(&bindings, PLACE_Q, op->q);
    bind_place(&bindings, PLACE_K, op->k);
    bind_place(&bindings, PLACE_V, op->v);
    bind_place(&bindings, PLACE_OUT, op->out);
    cudnn_bind(&bindings, UID_SCALE, &op->scale);
    if (key.is_causal)
        cudnn_bind(&bindings, UID_NEGATIVE, &negative);
    if (op->lse.data)
        cudnn_bind(&bindings, UID_STATS, op->lse.data);
    run(graph, &bindings, attention->workspace);
    return true;
}

bool cudnn_attention_backward(struct cudnn_attention *attention, const struct op_attention_backward *op) {
    struct plan_key key;
    struct attention_inputs inputs = {op->q, op->k, op->v, op->out, op->is_causal, &op->mask, &op->dropout};
    if (!attention || !op->workspace.data || !note_inputs(&key, &inputs) || !note_tensor(&key, PLACE_DOUT, op->dout) ||
        !note_tensor(&key, PLACE_DQ, op->dq) || !note_tensor(&key, PLACE_DK, op->dk) ||
        !note_tensor(&key, PLACE_DV, op->dv))
        return false;
    key.kind = KIND_BACKWARD;
    const struct cudnn_graph *graph = plan_find(attention, &key);
    size_t sum_bytes = sizeof(float) * (size_t)(key.B * key.H * key.Tq * key.D);
    sum_bytes = (sum_bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
    if (!graph || sum_bytes + (size_t)graph->workspace_bytes > tensor_bytes(op->workspace))
        return false;
    const float negative = -INFINITY, one = 1;
    struct cudnn_bindings bindings = {.count = 0};
    bind_place(&bindings, PLACE_Q, op->q);
    bind_place(&bindings, PLACE_K, op->k);
    bind_place(&bindings, PLACE_V, op->v);
    bind_place(&bindings, PLACE_OUT, op->out);
    bind_place(&bindings, PLACE_DOUT, op->dout);
    bind_place(&bindings, PLACE_DQ, op->dq);
    bind_place(&bindings, PLACE_DK, op->dk);
    bind_place(&bindings, PLACE_DV, op->dv);
    cudnn_bind(&bindings, UID_STATS, op->lse.data);
    cudnn_bind(&bindings, UID_ROW_SUM, op->scratch.data);
    cudnn_bind(&bindings, UID_DQ_SUM, op->workspace.data);
    cudnn_bind(&bindings, UID_SCALE, &op->scale);
    cudnn_bind(&bindings, UID_ONE, &one);
    if (key.is_causal)
        cudnn_bind(&bindings, UID_NEGATIVE, &negative);
    run(graph, &bindings, (unsigned char *)op->workspace.data + sum_bytes);
    return true;
}
