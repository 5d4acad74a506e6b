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
// the whole. Both passes use the same parts, because cuDNN's dropout depends on the part. What cuDNN does not address
// correctly by those strides lies packed in the workspace while backward runs.
#include "ops/cuda/attention_cudnn.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "ops/attention_parts.h"
#include "ops/cuda/cudnn_graph.h"
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

// Documents in long rows, and in any row of heads that have kernels of ours for Hopper: those skip what the mask hides,
// are as fast in rows of LONG_ROW tokens (bench/RESULTS.md), and give the same bits in every run.
static bool leaves_documents(const struct plan_key *key, const struct attention_inputs *in) {
    bool is_hopper_head = key->D == key->V && (key->D == 64 || key->D == 128);
    return key->Tk > LONG_ROW || (is_hopper_head && in->dropout->rate == 0);
}

// Enters mask and dropout into the key; false if they are not for cuDNN. cuDNN computes masked scores too, so short
// windows are left to kernels that skip them.
static bool note_mask(const struct cudnn_attention *attention, struct plan_key *key,
                      const struct attention_inputs *in) {
    const struct attention_mask *mask = in->mask;
    bool has_window = mask->window > 0 && mask->window < key->Tk;
    key->has_first = has_window || mask->first_keys.data;
    key->has_end = mask->key_counts.data != NULL;
    key->keep = 1.0 - (double)in->dropout->rate;
    if (mask->relative_bias.data || (has_window && mask->window * SHORT_WINDOW < key->Tk) ||
        (mask->first_keys.data && leaves_documents(key, in)))
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

static bool is_of_keys(int place) {
    return place == PLACE_K || place == PLACE_V || place == PLACE_DK || place == PLACE_DV;
}

// The first part of an operand.
static struct tensor part_of(struct tensor t, const struct plan_key *part, int place) {
    return attention_first_part(t, part->B, is_of_keys(place) ? part->G : part->H);
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
    const struct tensor operands[] = {in->q, in->k, in->v, in->out};
    bool is_near = part.elements < ATTENTION_SUMMED_EXTENT;
    for (int place = PLACE_Q; place <= PLACE_OUT; place++)
        is_near = is_near && attention_extent(part_of(operands[place], &cut->part, place)) <= ATTENTION_READ_EXTENT;
    return is_near;
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

// The start of a part, as sample and head.
struct part_place {
    int64_t query[2], key[2];
    int64_t row;  // of the statistics, (B, H, Tq)
};

static struct part_place place_part(const struct plan_key *whole, int64_t sample, int64_t key_head) {
    int64_t head = key_head * (whole->H / whole->G);
    return (struct part_place){{sample, head}, {sample, key_head}, (sample * whole->H + head) * whole->Tq};
}

// The address of a part of an operand, of 16-bit elements.
static void *part_data(struct tensor t, int place, const struct part_place *at) {
    const int64_t *first = is_of_keys(place) ? at->key : at->query;
    return (uint16_t *)t.data + first[0] * t.stride[0] + first[1] * t.stride[2];
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

// ---- Packed operands ----

// The most elements from the first to the last of each operand of a part that backward may be given.
static const int64_t most_extent[PLACE_COUNT] = {
    [PLACE_Q] = ATTENTION_READ_EXTENT,      [PLACE_K] = ATTENTION_READ_EXTENT,
    [PLACE_V] = ATTENTION_READ_EXTENT,      [PLACE_OUT] = ATTENTION_SUMMED_EXTENT,
    [PLACE_DOUT] = ATTENTION_SUMMED_EXTENT, [PLACE_DQ] = ATTENTION_WRITTEN_EXTENT,
    [PLACE_DK] = ATTENTION_WRITTEN_EXTENT,  [PLACE_DV] = ATTENTION_WRITTEN_EXTENT};

// Where operands of a part lie packed in the workspace, as offsets; -1: they do not.
struct packing {
    int64_t offset[PLACE_COUNT], bytes;
};

// Packs the operands whose extent is too large, and enters the strides of all into the key of the part.
static struct packing pack_part(struct plan_key *part, const struct tensor operands[PLACE_COUNT]) {
    struct packing packing = {.bytes = 0};
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct tensor t = part_of(operands[place], part, place);
        packing.offset[place] = -1;
        if (attention_extent(t) > most_extent[place]) {
            packing.offset[place] = packing.bytes;
            packing.bytes += cudnn_align((int64_t)tensor_bytes(t));
            t = tensor_4d(t.data, t.dtype, t.shape[0], t.shape[1], t.shape[2], t.shape[3]);
        }
        memcpy(part->stride[place], t.stride, sizeof part->stride[place]);
    }
    return packing;
}

// Whether both passes of an operation with dropout use cuDNN: decided from the inputs alone, so that the passes agree.
// Assumes that gradients have the strides of their tensors, and that backward gets the workspace that it asks for.
static bool draws_both(struct cudnn_attention *attention, const struct attention_cut *inputs,
                       const struct attention_inputs *in) {
    const struct tensor operands[PLACE_COUNT] = {in->q, in->k, in->v, in->out, in->out, in->q, in->k, in->v};
    struct attention_cut cut = *inputs;
    struct plan_key *key = &cut.part;
    key->kind = KIND_FORWARD;
    memset(key->stride[PLACE_DOUT], 0, sizeof key->stride[0] * (PLACE_COUNT - PLACE_DOUT));
    if (!find_forward(attention, &cut))
        return false;
    key->kind = KIND_BACKWARD;
    int64_t room = attention_workspace_bytes(in->q, in->k, in->v, in->mask) - side_bytes(&cut) - dq_sum_bytes(key);
    room -= pack_part(key, operands).bytes;
    const struct cudnn_graph *graph = plan_find(attention, key);
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
    const struct tensor operands[] = {op->q, op->k, op->v, op->out};
    for (int place = PLACE_Q; place <= PLACE_OUT; place++)
        cudnn_bind(&bindings, 1 + place, part_data(operands[place], place, &at));
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

// A plan for a part of an operation, and the memory it works in.
struct backward_run {
    const struct op_attention_backward *op;
    const struct cudnn_graph *graph;
    const struct attention_cut *cut;
    struct tensor operands[PLACE_COUNT];  // of the whole operation
    struct packing packing;
    struct side_inputs side;
    unsigned char *packed;
    void *dq_sum;  // of the nondeterministic plan
    void *workspace;
};

// The gradients of all scores are large, so the operation is cut until they fit: first into groups of samples, then
// into heads of one sample. Narrows the key to such a part; leaves no plan if cuDNN has none for it or nothing fits.
static void find_fixed(struct cudnn_attention *attention, struct backward_run *r, struct plan_key *key, int64_t room) {
    int64_t B = key->B, G = key->G, H = key->H;
    for (int64_t cuts = 1; cuts < B + G; cuts++) {
        int64_t samples = cuts <= B ? cuts : B, heads = cuts <= B ? 1 : cuts - B + 1;
        if (B % samples != 0 || G % heads != 0)
            continue;
        key->B = B / samples;
        key->G = G / heads;
        key->H = H / heads;
        r->packing = pack_part(key, r->operands);
        int64_t left = room - r->packing.bytes;
        if (fixed_bytes(key) > left)
            continue;
        r->graph = plan_find(attention, key);
        if (!r->graph || r->graph->workspace_bytes <= left)
            return;
        r->graph = NULL;
    }
}

// Copies the packed operands from `first` to `last` of a part to the workspace, or from there to their places.
static void copy_packed(const struct cudnn_attention *attention, const struct backward_run *r,
                        const struct part_place *at, int first, int last, bool is_back) {
    const struct plan_key *part = &r->cut->part;
    for (int place = first; place <= last; place++) {
        if (r->packing.offset[place] < 0)
            continue;
        struct tensor t = part_of(r->operands[place], part, place);
        const int64_t *stride = part->stride[place];
        uint16_t *own = part_data(t, place, at), *packed = (uint16_t *)(r->packed + r->packing.offset[place]);
        for (int64_t i = 0; i < t.shape[0] * t.shape[2]; i++) {
            int64_t sample = i / t.shape[2], head = i % t.shape[2];
            uint16_t *here = own + sample * t.stride[0] + head * t.stride[2];
            uint16_t *there = packed + sample * stride[0] + head * stride[2];
            size_t pitch = 2 * (size_t)t.stride[1], packed_pitch = 2 * (size_t)stride[1];
            cudaError_t status =
                cudaMemcpy2DAsync(is_back ? here : there, is_back ? pitch : packed_pitch, is_back ? there : here,
                                  is_back ? packed_pitch : pitch, 2 * (size_t)t.shape[3], (size_t)t.shape[1],
                                  cudaMemcpyDeviceToDevice, (cudaStream_t)attention->options.stream);
            if (status != cudaSuccess)
                die("attention: %s", cudaGetErrorString(status));
        }
    }
}

static void run_backward(struct cudnn_attention *attention, const struct backward_run *r, int64_t sample,
                         int64_t key_head) {
    const struct op_attention_backward *op = r->op;
    const struct plan_key *part = &r->cut->part;
    struct part_place at = place_part(&r->cut->whole, sample, key_head);
    const float keep = (float)part->keep, keep_scale = (float)(1 / part->keep);
    struct cudnn_bindings bindings = {.count = 0};
    for (int place = 0; place < PLACE_COUNT; place++)
        cudnn_bind(&bindings, 1 + place,
                   r->packing.offset[place] < 0 ? part_data(r->operands[place], place, &at)
                                                : r->packed + r->packing.offset[place]);
    cudnn_bind(&bindings, UID_STATS, (const float *)op->lse.data + at.row);
    cudnn_bind(&bindings, UID_ROW_SUM, (const float *)op->scratch.data + at.row);
    cudnn_bind(&bindings, UID_SCALE, &op->scale);
    cudnn_bind(&bindings, UID_KEEP, &keep);
    if (part->keep < 1)
        cudnn_bind(&bindings, UID_KEEP_SCALE, &keep_scale);
    if (r->dq_sum)
        cudnn_bind(&bindings, UID_DQ_SUM, r->dq_sum);
    side_bind(&bindings, part, &r->side, at.query);
    copy_packed(attention, r, &at, PLACE_OUT, PLACE_DOUT, false);
    run_graph(attention, r->graph, &bindings, r->workspace);
    copy_packed(attention, r, &at, PLACE_DQ, PLACE_DV, true);
}

// Finds the plan and lays out its memory in `room` bytes from `memory` on; false if there is none or no room.
static bool find_backward(struct cudnn_attention *attention, struct backward_run *r, struct plan_key *part,
                          unsigned char *memory, int64_t room) {
    int64_t sum_bytes = 0;
    if (part->kind == KIND_BACKWARD_FIXED) {
        find_fixed(attention, r, part, room);
    } else {
        sum_bytes = dq_sum_bytes(part);
        r->dq_sum = memory;
        r->packing = pack_part(part, r->operands);
        r->graph = plan_find(attention, part);
    }
    r->packed = memory + sum_bytes;
    r->workspace = r->packed + r->packing.bytes;
    return r->graph && sum_bytes + r->packing.bytes + r->graph->workspace_bytes <= room;
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
    struct backward_run r = {
        .op = op, .cut = &cut, .operands = {op->q, op->k, op->v, op->out, op->dout, op->dq, op->dk, op->dv}};
    bool is_aligned = true;
    for (int place = PLACE_DOUT; place < PLACE_COUNT; place++)
        is_aligned = is_aligned && note_tensor(part, place, r.operands[place]);
    int64_t room = op->workspace.data ? (int64_t)tensor_bytes(op->workspace) - side_bytes(&cut) : 0;
    unsigned char *memory = (unsigned char *)op->workspace.data + side_bytes(&cut);
    if (!is_aligned || room <= 0 || !find_backward(attention, &r, part, memory, room)) {
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
