// Checks that copies of parameters are equal on all ranks (parallel/replicas.h) and pipeline stages. A parameter's
// master copy and optimizer states are included, unless they are split among the replicas: then there is no second
// copy.
#include "parallel/replicas.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "step/internal.h"
#include "tensor/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static void add_state(struct step *step, const struct optimizer *optimizer, int i, struct tensor state, int number) {
    const struct param *param = step->params.items[i];
    struct tensor out = tensor_rows(tensor_1d(step->grads.data, DTYPE_I64, step->params.count), i, 1);
    if (state.data)
        op_digest(step->device,
                  &(struct op_digest){.out = out,
                                      .x = param_at(param, state, param->offset - optimizer->pieces.first),
                                      .seed = (uint64_t)number << 56});
}

static void add_exponents(struct step *step, const struct optimizer *optimizer, int i, int k) {
    const struct param *param = step->params.items[i];
    const struct optimizer_state *state = &optimizer->states[k];
    int64_t first = param->offset - optimizer->pieces.first, count = shard_local_count(&param->shard);
    if (state->exponents.data)
        op_digest(
            step->device,
            &(struct op_digest){.out = tensor_rows(tensor_1d(step->grads.data, DTYPE_I64, step->params.count), i, 1),
                                .x = optimizer_exponents(state, first, count),
                                .seed = (uint64_t)(2 + OPTIMIZER_MOST_STATES + k) << 56});
}

// A number for every parameter that differs if this rank's part of it does; to be freed. They are computed in the
// memory of the gradients, which are not needed between steps.
static int64_t *make_digests(struct step *step) {
    int count = step->params.count;
    struct tensor sums = tensor_1d(step->grads.data, DTYPE_I64, count);
    int64_t *digests = memory_alloc(sizeof *digests * (size_t)count);
    CHECK(step->mode == STEP_TRAIN && tensor_bytes(sums) <= tensor_bytes(step->grads));
    device_zero(step->device, sums);
    for (int i = 0; i < count; i++) {
        const struct param *param = step->params.items[i];
        const struct optimizer *optimizer = step_optimizer(step, param->group);
        op_digest(step->device, &(struct op_digest){.out = tensor_rows(sums, i, 1), .x = param->value});
        if (optimizer->pieces.parts > 1)
            continue;
        add_state(step, optimizer, i, optimizer->master, 1);
        for (int k = 0; k < optimizer->state_count; k++) {
            add_state(step, optimizer, i, optimizer->states[k].tensor, 2 + k);
            add_exponents(step, optimizer, i, k);
        }
    }
    device_copy_out(step->device, digests, sums);
    device_zero(step->device, sums);
    return digests;
}

// The first parameter that several stages hold with different values, or -1; *own is this rank's digest of it, or
// INT64_MIN if it does not hold it.
static int shared_difference(const struct step *step, const int64_t *digests, int64_t *own) {
    int count = step->shared_count, found = -1;
    OWNED int64_t *ends = memory_alloc(sizeof *ends * 3 * (size_t)count);
    for (int i = 0; i < count; i++) {
        ends[i] = ends[count + i] = ends[2 * count + i] = INT64_MIN;
        for (int k = 0; k < step->params.count; k++)
            if (step->params.items[k] == step->shared[i].param) {
                ends[i] = ends[2 * count + i] = digests[k];
                ends[count + i] = ~digests[k];
            }
    }
    if (count > 0)
        comm_max_i64(step->mesh.group[AXIS_PIPELINE], ends, 2 * count, "digests of the parameters");
    for (int i = count - 1; i >= 0; i--)
        found = ends[i] != ~ends[count + i] ? i : found;
    *own = found >= 0 ? ends[2 * count + found] : 0;
    return found;
}

// This rank's finding as a sentence that the caller frees; NULL if there is no difference.
static char *describe(struct step *step, const int64_t *digests) {
    int64_t own;
    const struct replicas_lab lab = {step->device, tensor_1d(step->grads.data, DTYPE_I64, 1)};
    struct replicas_fault fault = replicas_compare(&lab, &step->mesh, &step->params, digests);
    device_zero(step->device, lab.sum);
    if (fault.param)
        step->suspect = (struct step_suspect){fault.param, fault.element};
    const char *name = fault.param ? fault.param->name : NULL;
    int held = shared_difference(step, digests, &own);
    if (held >= 0) {
        struct replicas_fault stages = {.holders = "pipeline stages that hold it", .element = -1};
        replicas_blame(&step->mesh, AXES(AXIS_PIPELINE), step->mesh.group[AXIS_PIPELINE], own, own != INT64_MIN,
                       &stages);
        fault = name ? fault : stages;
        name = name ? name : step->shared[held].name;
    }
    if (!name)
        return NULL;
    OWNED_BY(buffer_free) struct buffer text = {0};
    buffer_printf(&text, "%s is not the same on all %s: ", name, fault.holders);
    replicas_name(&fault, &text);
    buffer_printf(&text, " %s%s", fault.count == 1 ? "differs" : "differ",
                  fault.has_majority ? " from the others" : ", and there is no majority");
    if (fault.element >= 0)
        buffer_printf(&text, " (from element %" PRId64 " on)", fault.element);
    buffer_append_string(&text,
                         "; memory, a GPU or a link is faulty there. Resume from the last checkpoint, without that "
                         "machine if it happens again");
    return memory_string(buffer_string(&text));
}

double step_suspect(const struct step *step) {
    uint16_t half = 0;
    float value = 0;
    if (!step->suspect.param || step->suspect.element < 0)
        return NAN;
    struct tensor one = tensor_rows(tensor_flat(step->suspect.param->value), step->suspect.element, 1);
    if (one.dtype == DTYPE_F32)
        device_copy_out(step->device, &value, one);
    else
        device_copy_out(step->device, &half, one);
    if (one.dtype != DTYPE_F32)
        value = one.dtype == DTYPE_BF16 ? half_from_bf16(half) : half_from_f16(half);
    return (double)value;
}

int64_t step_digest(struct step *step) {
    step_settle(step);
    OWNED int64_t *digests = make_digests(step);
    return (int64_t)hash_bytes(digests, sizeof *digests * (size_t)step->params.count, 0);
}

int step_replica_count(const struct step *step) {
    return replicas_count(&step->mesh, &step->params);
}

int step_check_replicas(struct step *step) {
    if (step->mesh.size == 1)
        return 0;
    step_settle(step);
    OWNED int64_t *digests = make_digests(step);
    char *sentence = describe(step, digests);
    // The first rank with a finding broadcasts it.
    int64_t witness = sentence ? step->mesh.size - step->mesh.rank : 0;
    comm_max_i64(step->mesh.all, &witness, 1, "replicas that differ");
    if (witness == 0)
        return 0;
    int from = step->mesh.size - (int)witness;
    if (step->mesh.rank != from)
        free(sentence);
    comm_broadcast_text(step->mesh.all, &sentence, from, "replicas that differ");
    error_set_code(EXIT_CODE_CORRUPT, "%s", sentence);
    error_mark_shared();
    free(sentence);
    return -1;
}
