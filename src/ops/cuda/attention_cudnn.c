// Attention by the fused kernels of cuDNN: the choice of operations, the plans compiled for them (cudnn_sketch.c builds
// the graphs), and their execution.
//
// A plan is compiled once per shape (some 50 ms) and kept. cuDNN is not used for fp32, relative-position biases, short
// windows, lengths that are not a multiple of 128 (its kernels before 9.16 read beyond the end there), a causal mask
// with a cache, views that are not aligned to 16 bytes, and in 9.13 and 9.14 masks other than causal over more than
// 1024 keys. It is used for padding, documents and windows only where verified: 9.14 on Hopper.
//
// cuDNN draws dropout only if the device was opened for it: it has its own generator, and its masks depend on an
// element's position in the operation. Then both passes of an operation must use cuDNN, or neither.
//
// Backward accumulates dq in fp32 with atomics in varying order: two runs may differ in the last bits. The
// deterministic plan stores the gradients of all scores instead and sums them in a fixed order.
//
// Large operations are done in parts, see attention_parts.h: a plan is for one part, and tensors have the strides of
// the whole. Both passes use the same parts, because cuDNN's dropout depends on the part. cuDNN is not used if a part
// has ATTENTION_MOST_ELEMENTS.
#include "ops/cuda/attention_cudnn.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "ops/attention_parts.h"
#include "ops/cuda/cudnn_side.h"
#include "ops/cuda/cudnn_sketch.h"
#include "ops/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_COUNT = 512, LENGTH_MULTIPLE = 128, SHORT_WINDOW = 4, LONG_ROW = 1024 };
static const float SMALLEST_RATE = 1.0f / 65536;  // of dropout: those below it are rounded up by our kernels

struct attention_plan {
    struct plan_key key;
    bool is_refused;
    struct cudnn_graph graph;
};

struct cudnn_attention {
    cudnnHandle_t handle;
    struct cudnn_options options;
    bool takes_masks;       // by query: documents, padding, windows
    int64_t part_elements;  // the most that a part should have
    int64_t pass_count, part_count;
    // Never freed while the device is open: a recording may hold a plan's kernels.
    struct attention_plan plans[PLAN_COUNT];
    int plan_count;
};

// Versions and GPUs verified to compute masks by query, and dropout, correctly: graphs beyond the known patterns may
// compile and still be wrong. Others can be added if tests/ops/test_cuda_cudnn.c passes with them.
static bool has_masks(int gpu) {
    enum { FIRST_SEEN = 91400, LAST_SEEN = 91499, HOPPER = 9 };
    int generation = 0;
    return cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, gpu) == cudaSuccess &&
           generation == HOPPER && cudnn()->cudnnGetVersion() >= FIRST_SEEN && cudnn()->cudnnGetVersion() <= LAST_SEEN;
}

struct cudnn_attention *cudnn_attention_open(const struct cudnn_options *options) {
    cudnnHandle_t handle = NULL;
    if (cudnn_load() < 0) {
        log_warn("%s: attention runs on slower kernels until then", error_message());
        error_clear();
        return NULL;
    }
    cudnnStatus_t status = cudnn()->cudnnCreate(&handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn()->cudnnSetStream(handle, (cudaStream_t)options->stream);
    if (status != CUDNN_STATUS_SUCCESS) {
        log_warn("cuDNN cannot be used (%s): attention runs on slower kernels", cudnn()->cudnnGetErrorString(status));
        return NULL;
    }
    struct cudnn_attention *attention = memory_alloc(sizeof *attention);
    attention->handle = handle;
    attention->options = *options;
    attention->takes_masks = has_masks(options->gpu);
    attention->part_elements = ATTENTION_PART_ELEMENTS;
    return attention;
}

void cudnn_attention_close(struct cudnn_attention *attention) {
    if (!attention)
        return;
    for (int i = 0; i < attention->plan_count; i++)
        cudnn_graph_free(&attention->plans[i].graph);
    cudnn()->cudnnDestroy(attention->handle);
    free(attention);
}

void cudnn_attention_describe(const struct cudnn_attention *attention, char *text, size_t size) {
    size_t version = attention ? cudnn()->cudnnGetVersion() : 0;
    if (attention)
        snprintf(text, size, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    else if (size > 0)
        text[0] = 0;
}

// ---- Plans ----

// NULL: cuDNN does not support it. A run has few plans; if shapes keep changing, the last ones do not use cuDNN.
static struct cudnn_graph *plan_find(struct cudnn_attention *attention, const struct plan_key *key) {
    for (int i = 0; i < attention->plan_count; i++) {
        struct attention_plan *plan = &attention->plans[i];
        if (memcmp(&plan->key, key, sizeof *key) == 0)
            return plan->is_refused ? NULL : &plan->graph;
    }
    if (attention->plan_count == PLAN_COUNT)
        return NULL;
    struct attention_plan *plan = &attention->plans[attention->plan_count++];
    *plan = (struct attention_plan){.key = *key, .graph = {.handle = attention->handle}};
    cudnn_sketch(&plan->graph, &plan->key);
    phase_note("compiling attention graphs");
    plan->is_refused = !cudnn_graph_compile(&plan->graph);
    phase_note(NULL);
    if (plan->graph.is_memory_full)
        die_code(EXIT_CODE_OUT_OF_MEMORY, "cuDNN attention: %s%s", plan->graph.problem, DEVICE_FULL_REMEDY);
    if (plan->is_refused) {
        log_info("attention: cuDNN does not take %lld heads of %lld over %lld tokens (%s); a slower kernel is used",
                 (long long)key->H, (long long)key->D, (long long)key->Tk, plan->graph.problem);
        cudnn_graph_free(&plan->graph);
        return NULL;
    }
    return &plan->graph;
}

// Enters a tensor into the key; false if cuDNN does not support its address or strides.
static bool note_tensor(struct plan_key *key, enum tensor_place place, struct tensor t) {
    bool is_aligned = (uintptr_t)t.data % 16 == 0;
    for (int i = 0; i < 3; i++) {
        key->stride[place][i] = t.stride[i];
        is_aligned = is_aligned && t.stride[i] % 8 == 0;
    }
    return is_aligned;
}

// cuDNN 9.13 and 9.14 are known to access memory out of bounds in recordings of long attention with masks other than
// causal.
static bool has_long_fault(const struct plan_key *key) {
    enum { FIRST_FAULTY = 91300, FIRST_MENDED = 91500, MOST_KEYS = 1024 };
    size_t version = cudnn()->cudnnGetVersion();
    bool is_plain = key->is_causal && !key->has_first && !key->has_end;
    return version >= FIRST_FAULTY && version < FIRST_MENDED && !is_plain && key->Tk > MOST_KEYS;
}

// Enters mask and dropout into the key; false if they are not for cuDNN. cuDNN computes masked scores too, so short
// windows, and documents in long rows, are left to kernels that skip them.
static bool note_mask(const struct cudnn_attention *attention, struct plan_key *key,
                      const struct attention_inputs *in) {
    const struct attention_mask *mask = in->mask;
    bool has_window = mask->window > 0 && mask->window < key->Tk;
    key->has_first = has_window || mask->first_keys.data;
    key->has_end = mask->key_counts.data != NULL;
    key->keep = 1.0 - (double)in->dropout->rate;
    if (mask->relative_bias.data || (has_window && mask->window * SHORT_WINDOW < key->Tk) ||
        (mask->first_keys.data && key->Tk > LONG_ROW))
        return false;
    bool is_drawn = in->dropout->rate >= SMALLEST_RATE && attention->takes_masks && attention->options.draws_dropout;
    return (attention->takes_masks || !(key->has_first || key->has_end)) && (in->dropout->rate == 0 || is_drawn);
}

static bool note_inputs(const struct cudnn_attention *attention, struct plan_key *key,
                        const struct attention_inputs *in) {
    memset(key, 0, sizeof *key);
    key->B = in->q.shape[0];
    key->Tq = in->q.shape[1];
    key->H = in->q.shape[2];
    key->D = in->q.shape[3];
    key->V = in->v.shape[3];
    key->Tk = in->k.shape[1];
    key->G = in->k.shape[2];
    key->is_causal = in->is_causal;
    key->dtype = in->q.dtype;
    bool is_possible = in->q.dtype == DTYPE_BF16 || in->q.dtype == DTYPE_F16;
    is_possible = is_possible && key->D % 8 == 0 && key->V % 8 == 0 && key->Tq % LENGTH_MULTIPLE == 0 &&
                  key->Tk % LENGTH_MULTIPLE == 0;
    is_possible = is_possible && key->B > 0 && key->Tq > 0 && (!in->is_causal || key->Tq == key->Tk);
    return is_possible && note_mask(attention, key, in) && !has_long_fault(key) && note_tensor(key, PLACE_Q, in->q) &&
           note_tensor(key, PLACE_K, in->k) && note_tensor(key, PLACE_V, in->v) && note_tensor(key, PLACE_OUT, in->out);
}

// False if the operation is not for cuDNN.
static bool cut_inputs(const struct cudnn_attention *attention, struct attention_cut *cut,
                       const struct attention_inputs *in) {
    if (!note_inputs(attention, &cut->whole, in))
        return false;
    struct attention_part part = attention_part(in->q, in->k, in->v, attention->part_elements);
    cut->part = cut->whole;
    cut->part.B = part.samples;
    cut->part.H = part.heads;
    cut->part.G = part.key_heads;
    cut->count = part.count;
    return part.elements < ATTENTION_MOST_ELEMENTS;
}

// ---- Runs ----

static void run_graph(struct cudnn_attention *attention, const struct cudnn_graph *graph,
                      const struct cudnn_bindings *bindings, void *workspace) {
    cudnnStatus_t status = cudnn_graph_run(graph, bindings, workspace);
    attention->part_count++;
    if (status != CUDNN_STATUS_SUCCESS) {
        char reason[300] = "";
        cudnn()->cudnnGetLastErrorString(reason, sizeof reason);
        if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
            die_code(EXIT_CODE_OUT_OF_MEMORY, "cuDNN attention: %s%s", reason, DEVICE_FULL_REMEDY);
        die("cuDNN attention: %s %s", cudnn()->cudnnGetErrorString(status), reason);
    }
}

// Binds a tensor of 16-bit elements from this sample and head on.
static void bind_part(struct cudnn_bindings *bindings, enum tensor_place place, struct tensor t, const int64_t at[2]) {
    cudnn_bind(bindings, 1 + (int64_t)place, (uint16_t *)t.data + at[0] * t.stride[0] + at[1] * t.stride[2]);
}

// The start of a part, as sample and head.
struct part_place {
    int64_t query[2], key[2];
    int64_t row;  // of the statistics, (B, H, Tq)
};

static struct part_place place_part(const struct plan_key *whole, int64_t sample, int64_t key_head) {
    int64_t head = key_head * (whole->H / whole->G);
    return (struct part_place){{sample, head}, {sample, key_head}, (sample * whole->H + head) * whole->Tq};
}

// Memory of the forward pass besides its operands. With dropout it always computes statistics, so that all forward
// passes of an operation use one plan.
static int64_t stats_bytes(const struct plan_key *part) {
    return part->keep < 1 ? cudnn_align((int64_t)sizeof(float) * part->B * part->H * part->Tq) : 0;
}

static const struct cudnn_graph *find_forward(struct cudnn_attention *attention, const struct attention_cut *cut) {
    const struct cudnn_graph *graph = plan_find(attention, &cut->part);
    int64_t bytes = graph ? side_bytes(cut) + stats_bytes(&cut->part) + graph->workspace_bytes : 0;
    return bytes <= (int64_t)attention->options.workspace_bytes ? graph : NULL;
}

static int64_t dq_sum_bytes(const struct plan_key *part) {
    return cudnn_align((int64_t)sizeof(float) * part->B * part->H * part->Tq * part->D);
}

// Whether both passes of an operation with dropout use cuDNN: decided from the inputs alone, so that the passes agree.
// Assumes that gradients have the strides of their tensors, and that backward gets the workspace that it asks for.
static bool draws_both(struct cudnn_attention *attention, const struct attention_cut *inputs,
                       const struct attention_inputs *in) {
    static const enum tensor_place of[PLACE_COUNT] = {
        [PLACE_DOUT] = PLACE_OUT, [PLACE_DQ] = PLACE_Q, [PLACE_DK] = PLACE_K, [PLACE_DV] = PLACE_V};
    struct attention_cut cut = *inputs;
    struct plan_key *key = &cut.part;
    key->kind = KIND_FORWARD;
    memset(key->stride[PLACE_DOUT], 0, sizeof key->stride[0] * (PLACE_COUNT - PLACE_DOUT));
    if (!find_forward(attention, &cut))
        return false;
    key->kind = KIND_BACKWARD;
    for (int place = PLACE_DOUT; place < PLACE_COUNT; place++)
        memcpy(key->stride[place], key->stride[of[place]], sizeof key->stride[0]);
    const struct cudnn_graph *graph = plan_find(attention, key);
    int64_t room = attention_workspace_bytes(in->q, in->k, in->v, in->mask) - side_bytes(&cut) - dq_sum_bytes(key);
    return graph && graph->workspace_bytes <= room;
}

// A plan for a part of an operation, and the memory it works in.
struct forward_run {
    const struct op_attention_forward *op;
    const struct cudnn_graph *graph;
    const struct attention_cut *cut;
    struct side_inputs side;
    unsigned char *stats, *workspace;
};

static void run_forward(struct cudnn_attention *attention, const struct forward_run *r, int64_t sample,
                        int64_t key_head) {
    const struct op_attention_forward *op = r->op;
    const struct plan_key *part = &r->cut->part;
    struct part_place at = place_part(&r->cut->whole, sample, key_head);
    const float keep_scale = (float)(1 / part->keep);
    struct cudnn_bindings bindings = {.count = 0};
    bind_part(&bindings, PLACE_Q, op->q, at.query);
    bind_part(&bindings, PLACE_K, op->k, at.key);
    bind_part(&bindings, PLACE_V, op->v, at.key);
    bind_part(&bindings, PLACE_OUT, op->out, at.query);
    side_bind(&bindings, part, &r->side, at.query);
    cudnn_bind(&bindings, UID_SCALE, &op->scale);
    if (part->keep < 1)
        cudnn_bind(&bindings, UID_KEEP_SCALE, &keep_scale);
    if (part->kind == KIND_FORWARD)
        cudnn_bind(&bindings, UID_STATS, op->lse.data ? (void *)((float *)op->lse.data + at.row) : r->stats);
    run_graph(attention, r->graph, &bindings, r->workspace);
}

bool cudnn_attention_forward(struct cudnn_attention *attention, const struct op_attention_forward *op) {
    struct attention_cut cut;
    struct attention_inputs inputs = {op->q, op->k, op->v, op->out, op->is_causal, &op->mask, &op->dropout};
    if (!attention || !cut_inputs(attention, &cut, &inputs) ||
        (cut.whole.keep < 1 && !draws_both(attention, &cut, &inputs)))
        return false;
    cut.part.kind = op->lse.data || cut.part.keep < 1 ? KIND_FORWARD : KIND_INFERENCE;
    struct forward_run r = {.op = op, .graph = find_forward(attention, &cut), .cut = &cut};
    if (!r.graph)
        return false;
    r.side = side_write(&cut, &inputs, attention->options.stream, attention->options.workspace);
    r.stats = (unsigned char *)attention->options.workspace + side_bytes(&cut);
    r.workspace = r.stats + stats_bytes(&cut.part);
    for (int64_t sample = 0; sample < cut.whole.B; sample += cut.part.B)
        for (int64_t head = 0; head < cut.whole.G; head += cut.part.G)
            run_forward(attention, &r, sample, head);
    attention->pass_count++;
    return true;
}

// ---- Backward ----

// Memory of the deterministic plan: the gradients of all scores and, with grouped queries, dk and dv of every query
// head.
static int64_t fixed_bytes(const struct plan_key *key) {
    int64_t heads = key->B * key->H, bytes = 2 * heads * key->Tq * key->Tk;
    return key->G == key->H ? bytes : bytes + 2 * heads * key->Tk * (key->D + key->V);
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

// A plan for a part of an operation, and the memory it works in.
struct backward_run {
    const struct op_attention_backward *op;
    const struct cudnn_graph *graph;
    const struct attention_cut *cut;
    struct side_inputs side;
    void *dq_sum;  // of the nondeterministic plan
    void *workspace;
};

static void run_backward(struct cudnn_attention *attention, const struct backward_run *r, int64_t sample,
                         int64_t key_head) {
    const struct op_attention_backward *op = r->op;
    const struct plan_key *part = &r->cut->part;
    struct part_place at = place_part(&r->cut->whole, sample, key_head);
    const float keep = (float)part->keep, keep_scale = (float)(1 / part->keep);
    struct cudnn_bindings bindings = {.count = 0};
    bind_part(&bindings, PLACE_Q, op->q, at.query);
    bind_part(&bindings, PLACE_K, op->k, at.key);
    bind_part(&bindings, PLACE_V, op->v, at.key);
    bind_part(&bindings, PLACE_OUT, op->out, at.query);
    bind_part(&bindings, PLACE_DOUT, op->dout, at.query);
    bind_part(&bindings, PLACE_DQ, op->dq, at.query);
    bind_part(&bindings, PLACE_DK, op->dk, at.key);
    bind_part(&bindings, PLACE_DV, op->dv, at.key);
    cudnn_bind(&bindings, UID_STATS, (const float *)op->lse.data + at.row);
    cudnn_bind(&bindings, UID_ROW_SUM, (const float *)op->scratch.data + at.row);
    cudnn_bind(&bindings, UID_SCALE, &op->scale);
    cudnn_bind(&bindings, UID_KEEP, &keep);
    if (part->keep < 1)
        cudnn_bind(&bindings, UID_KEEP_SCALE, &keep_scale);
    if (r->dq_sum)
        cudnn_bind(&bindings, UID_DQ_SUM, r->dq_sum);
    side_bind(&bindings, part, &r->side, at.query);
    run_graph(attention, r->graph, &bindings, r->workspace);
}

// Finds the plan and lays out its memory in `room` bytes from r->workspace on; false if there is none or no room.
static bool find_backward(struct cudnn_attention *attention, struct backward_run *r, struct plan_key *part,
                          int64_t room) {
    if (part->kind == KIND_BACKWARD_FIXED) {
        r->graph = find_fixed(attention, part, room);
        return r->graph != NULL;
    }
    int64_t bytes = dq_sum_bytes(part);
    r->dq_sum = r->workspace;
    r->workspace = (unsigned char *)r->workspace + bytes;
    r->graph = plan_find(attention, part);
    return r->graph && bytes + r->graph->workspace_bytes <= room;
}

bool cudnn_attention_backward(struct cudnn_attention *attention, const struct op_attention_backward *op,
                              bool is_deterministic) {
    struct attention_cut cut;
    struct attention_inputs inputs = {op->q, op->k, op->v, op->out, op->is_causal, &op->mask, &op->dropout};
    if (!attention || !cut_inputs(attention, &cut, &inputs) ||
        (cut.whole.keep < 1 && !draws_both(attention, &cut, &inputs)))
        return false;
    struct plan_key *part = &cut.part;
    part->kind = is_deterministic ? KIND_BACKWARD_FIXED : KIND_BACKWARD;
    bool is_aligned = note_tensor(part, PLACE_DOUT, op->dout) && note_tensor(part, PLACE_DQ, op->dq) &&
                      note_tensor(part, PLACE_DK, op->dk) && note_tensor(part, PLACE_DV, op->dv);
    int64_t room = op->workspace.data ? (int64_t)tensor_bytes(op->workspace) - side_bytes(&cut) : 0;
    struct backward_run r = {.op = op, .cut = &cut};
    r.workspace = (unsigned char *)op->workspace.data + side_bytes(&cut);
    if (!is_aligned || room <= 0 || !find_backward(attention, &r, part, room)) {
        if (part->keep < 1)
            die("attention: cuDNN has drawn the dropout of a forward pass and does not take its backward pass; leave "
                "out --fast-attention-dropout");
        return false;
    }
    r.side = side_write(&cut, &inputs, attention->options.stream, op->workspace.data);
    for (int64_t sample = 0; sample < cut.whole.B; sample += part->B)
        for (int64_t head = 0; head < cut.whole.G; head += part->G)
            run_backward(attention, &r, sample, head);
    attention->pass_count++;
    return true;
}

bool cudnn_attention_takes_masks(const struct cudnn_attention *attention) {
    return attention && attention->takes_masks;
}

int64_t cudnn_attention_passes(const struct cudnn_attention *attention) {
    return attention ? attention->pass_count : 0;
}

int64_t cudnn_attention_parts(const struct cudnn_attention *attention) {
    return attention ? attention->part_count : 0;
}

void cudnn_attention_cut(struct cudnn_attention *attention, int64_t elements) {
    if (attention)
        attention->part_elements = elements;
}
