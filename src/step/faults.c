// Faults that are injected into a step: its phases, and the two that change numbers, a NaN and a flipped bit. They hit
// an element that is reduced last, so that the gradient has not left this rank, whatever is overlapped: the first
// element of the last parameter in the flat buffers.
#include "step/internal.h"
#include "base/fault.h"
#include "ops/device.h"

#include <string.h>

static const struct param *last_param(const struct step *step) {
    const struct param *last = NULL;
    for (int i = 0; i < step->params.count; i++)
        if (!last || step->params.items[i]->offset > last->offset)
            last = step->params.items[i];
    return last;
}

// The third bit of the mantissa changes a number by an eighth at most, which only a comparison detects.
static void flip_bit(unsigned char *element, enum dtype dtype) {
    if (dtype == DTYPE_F32)
        element[2] ^= 0x10;
    else
        element[0] ^= dtype == DTYPE_BF16 ? 0x10 : 0x80;
}

static void spoil_one(struct step *step, struct tensor one, struct fault_effect effect) {
    unsigned char element[8] = {0};
    if (!effect.makes_nan && !effect.flips_bit)
        return;
    step_settle(step);
    device_copy_out(step->device, element, one);
    if (effect.flips_bit)
        flip_bit(element, one.dtype);
    if (effect.makes_nan)  // all ones are a NaN in every floating-point type
        memset(element, 0xFF, dtype_bytes(one.dtype));
    device_copy_in(step->device, one, element);
    device_synchronize(step->device);
}

static void spoil(struct step *step, struct tensor flat, struct fault_effect effect) {
    const struct param *param = last_param(step);
    if (param)
        spoil_one(step, tensor_rows(flat, param->offset, 1), effect);
}

void step_reach_faults(struct step *step, enum work work) {
    static const enum fault_phase phases[WORK_COUNT] = {
        [WORK_FORWARD] = FAULT_AT_FORWARD,
        [WORK_BACKWARD] = FAULT_AT_BACKWARD,
        [WORK_BACKWARD_INPUT] = FAULT_AT_BACKWARD,
        [WORK_UPDATE] = FAULT_AT_OPTIMIZER,
    };
    if (work == WORK_REDUCE) {
        spoil(step, step->grads, fault_at(FAULT_AT_GRADIENTS));
    } else if (work == WORK_REPORT) {
        spoil(step, step->values, fault_at(FAULT_AT_WEIGHTS));
        spoil_one(step, step_total(step, TOTAL_LOSS), fault_at(FAULT_AT_RESULTS));
    } else if (phases[work]) {
        (void)fault_at(phases[work]);
    }
}
