// Attention by the fused kernels of cuDNN: which operations it gets, the plans compiled for them (cudnn_sketch.c draws
// the graphs), and their runs.
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
#include "ops/cuda/cudnn_sketch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_COUNT = 512, LENGTH_MULTIPLE = 128, WORKSPACE_ALIGNMENT = 256 };

struct plan {
    struct plan_key key;
    bool is_refused;
    struct cudnn_graph graph;
};

struct cudnn_attention {
    cudnnHandle_t handle;
    void *workspace;  // of forward plans
    size_t workspace_bytes;
    // Never freed while the device is open: a recording may hold a plan's kernels.
    struct plan plans[PLAN_COUNT];
    int plan_count;
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
    for (int i = 0; i < attention->plan_count; i++)
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

// ---- Plans ----

// NULL: cuDNN does not take it. The plans of a run are few; where shapes go on changing the last ones are not cuDNN's.
static struct cudnn_graph *plan_find(struct cudnn_attention *attention, const struct plan_key *key) {
    for (int i = 0; i < attention->plan_count; i++) {
        struct plan *plan = &attention->plans[i];
        if (memcmp(&plan->key, key, sizeof *key) == 0)
            return plan->is_refused ? NULL : &plan->graph;
    }
    if (attention->plan_count == PLAN_COUNT)
        return NULL;
    struct plan *plan = &attention->plans[attention->plan_count++];
    *plan = (struct plan){.key = *key, .graph = {.handle = attention->handle}};
    cudnn_sketch(&plan->graph, &plan->key);
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
