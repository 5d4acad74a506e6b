// Attention by the fused kernels of cuDNN: which operations it gets, the plans compiled for them (cudnn_sketch.c draws
// the graphs), and their runs.
//
// A plan is compiled once for a shape (some 50 ms) and kept. What cuDNN does not get: fp32, dropout (its generator is
// not ours, and a mask must not depend on who computes it), lengths that are no multiple of 128 (its kernels before
// 9.16 read beyond the end there), a causal mask with a cache, views that are not aligned to 16 bytes, and in 9.13 and
// 9.14 more than 1024 keys without a causal mask.
//
// Backward accumulates dq in fp32 with atomics in an order that changes: two runs may differ in the last bits. The
// deterministic plan stores the gradients of all scores instead and sums them in a fixed order.
#include "ops/cuda/attention_cudnn.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "ops/cuda/cudnn_sketch.h"
#include "ops/device.h"

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

// cuDNN 9.13 and 9.14 are known for faults of bounds in recordings of long attention that is not causal.
static bool has_long_fault(const struct plan_key *key) {
    enum { FIRST_FAULTY = 91300, FIRST_MENDED = 91500, MOST_KEYS = 1024 };
    size_t version = cudnnGetVersion();
    return version >= FIRST_FAULTY && version < FIRST_MENDED && !key->is_causal && key->Tk > MOST_KEYS;
}

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
    return is_possible && !has_long_fault(key) && note_tensor(key, PLACE_Q, in->q) &&
           note_tensor(key, PLACE_K, in->k) && note_tensor(key, PLACE_V, in->v) && note_tensor(key, PLACE_OUT, in->out);
}

static void run(const struct cudnn_graph *graph, const struct cudnn_bindings *bindings, void *workspace) {
    cudnnStatus_t status = cudnn_graph_run(graph, bindings, workspace);
    if (status != CUDNN_STATUS_SUCCESS) {
        char reason[300] = "";
        cudnnGetLastErrorString(reason, sizeof reason);
        if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
            die_code(EXIT_CODE_OUT_OF_MEMORY, "cuDNN attention: %s%s", reason, DEVICE_FULL_REMEDY);
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

// ---- Backward ----

// What the deterministic plan keeps in memory: the gradients of all scores and, with grouped queries, dk and dv of
// every query head.
static int64_t fixed_bytes(const struct plan_key *key) {
    int64_t heads = key->B * key->H, bytes = 2 * heads * key->Tq * key->Tk;
    return key->G == key->H ? bytes : bytes + 4 * heads * key->Tk * key->D;
}

// The gradients of all scores are large, so the operation is cut until they fit: first into groups of samples, then
// into heads of one sample. Narrows the key to such a part; NULL if cuDNN has no plan for it or nothing fits.
static const struct cudnn_graph *find_fixed(struct cudnn_attention *attention, struct plan_key *key, int64_t room) {
    int64_t B = key->B, G = key->G, H = key->H;
    for (int64_t cuts = 1; cuts < B + G; cuts++) {
        int64_t samples = cuts <= B ? cuts : B, heads = cuts <= B ? 1 : cuts - B + 1;
        if (B % samples != 0 || G % heads != 0)
            continue;
        key->B = B / samples;
        key->G = G / heads;
        key->H = H / heads;
        if (fixed_bytes(key) > room)
            continue;
        const struct cudnn_graph *graph = plan_find(attention, key);
        if (!graph || graph->workspace_bytes <= room)
            return graph;
    }
    return NULL;
}

// A plan for all of an operation or for a part of it, whose sizes `key` has, and the memory it works in.
struct backward_run {
    const struct op_attention_backward *op;
    const struct cudnn_graph *graph;
    const struct plan_key *key;
    void *dq_sum;  // of the plan that is not deterministic
    void *workspace;
};

// Binds what begins at this sample and head of a tensor of 16-bit elements.
static void bind_part(struct cudnn_bindings *bindings, enum tensor_place place, struct tensor t, const int64_t at[2]) {
    t.data = (uint16_t *)t.data + at[0] * t.stride[0] + at[1] * t.stride[2];
    bind_place(bindings, place, t);
}

static void run_part(const struct backward_run *r, int64_t sample, int64_t key_head) {
    const struct op_attention_backward *op = r->op;
    int64_t H = op->q.shape[2], group = H / op->k.shape[2];
    const int64_t query[2] = {sample, key_head * group}, key[2] = {sample, key_head};
    int64_t row = (query[0] * H + query[1]) * op->q.shape[1];
    const float negative = -INFINITY, one = 1;
    struct cudnn_bindings bindings = {.count = 0};
    bind_part(&bindings, PLACE_Q, op->q, query);
    bind_part(&bindings, PLACE_K, op->k, key);
    bind_part(&bindings, PLACE_V, op->v, key);
    bind_part(&bindings, PLACE_OUT, op->out, query);
    bind_part(&bindings, PLACE_DOUT, op->dout, query);
    bind_part(&bindings, PLACE_DQ, op->dq, query);
    bind_part(&bindings, PLACE_DK, op->dk, key);
    bind_part(&bindings, PLACE_DV, op->dv, key);
    cudnn_bind(&bindings, UID_STATS, (const float *)op->lse.data + row);
    cudnn_bind(&bindings, UID_ROW_SUM, (const float *)op->scratch.data + row);
    cudnn_bind(&bindings, UID_SCALE, &op->scale);
    cudnn_bind(&bindings, UID_ONE, &one);
    if (r->dq_sum)
        cudnn_bind(&bindings, UID_DQ_SUM, r->dq_sum);
    if (r->key->is_causal)
        cudnn_bind(&bindings, UID_NEGATIVE, &negative);
    run(r->graph, &bindings, r->workspace);
}

bool cudnn_attention_backward(struct cudnn_attention *attention, const struct op_attention_backward *op,
                              bool is_deterministic) {
    struct plan_key key;
    struct attention_inputs inputs = {op->q, op->k, op->v, op->out, op->is_causal, &op->mask, &op->dropout};
    if (!attention || !op->workspace.data || !note_inputs(&key, &inputs) || !note_tensor(&key, PLACE_DOUT, op->dout) ||
        !note_tensor(&key, PLACE_DQ, op->dq) || !note_tensor(&key, PLACE_DK, op->dk) ||
        !note_tensor(&key, PLACE_DV, op->dv))
        return false;
    key.kind = is_deterministic ? KIND_BACKWARD_FIXED : KIND_BACKWARD;
    struct backward_run r = {.op = op, .key = &key, .workspace = op->workspace.data};
    int64_t room = (int64_t)tensor_bytes(op->workspace);
    if (is_deterministic) {
        r.graph = find_fixed(attention, &key, room);
    } else {
        int64_t bytes = (int64_t)sizeof(float) * key.B * key.H * key.Tq * key.D;
        bytes = (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
        r.dq_sum = op->workspace.data;
        r.workspace = (unsigned char *)op->workspace.data + bytes;
        r.graph = plan_find(attention, &key);
        if (r.graph && bytes + r.graph->workspace_bytes > room)
            r.graph = NULL;
    }
    if (!r.graph)
        return false;
    for (int64_t sample = 0; sample < op->q.shape[0]; sample += key.B)
        for (int64_t head = 0; head < op->k.shape[2]; head += key.G)
            run_part(&r, sample, head);
    return true;
}
