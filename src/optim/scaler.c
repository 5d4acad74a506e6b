// The loss scale of fp16 training. See scaler.h.
#include "optim/scaler.h"
#include "ops/device.h"

void scaler_build(struct scaler *scaler, struct arena *arena, const struct config *config) {
    *scaler = (struct scaler){0};
    if (!config->run.fp16)
        return;
    bool is_dynamic = !(config->run.loss_scale > 0);
    scaler->initial = is_dynamic ? config->run.initial_loss_scale : config->run.loss_scale;
    scaler->rule = (struct loss_scale_rule){.window = is_dynamic ? config->run.loss_scale_window : 0,
                                            .hysteresis = config->run.hysteresis,
                                            .least = (float)config->run.min_loss_scale};
    scaler->state = arena_1d(arena, DTYPE_F32, LOSS_SCALE_LENGTH);
}

static void set(struct scaler *scaler, struct device *device, const struct scaler_state *state) {
    const float values[LOSS_SCALE_LENGTH] = {[LOSS_SCALE_FACTOR] = (float)state->scale,
                                             [LOSS_SCALE_STEPS] = (float)state->steps,
                                             [LOSS_SCALE_TOLERANCE] = (float)state->overflows_left};
    device_copy_in(device, scaler->state, values);
    device_synchronize(device);
}

void scaler_reset(struct scaler *scaler, struct device *device) {
    if (scaler->state.data)
        set(scaler, device,
            &(struct scaler_state){.scale = scaler->initial, .overflows_left = scaler->rule.hysteresis});
}

struct tensor scaler_scale(const struct scaler *scaler) {
    return scaler->state.data ? tensor_rows(scaler->state, LOSS_SCALE_FACTOR, 1) : (struct tensor){0};
}

void scaler_scale_loss(const struct scaler *scaler, struct device *device, struct tensor weights) {
    if (scaler->state.data && weights.data)
        op_scale(device, &(struct op_scale){.x = tensor_flat(weights), .factor = 1, .by = scaler_scale(scaler)});
}

struct scaler_state scaler_read(const struct scaler *scaler, struct device *device) {
    float values[LOSS_SCALE_LENGTH] = {1, 0, 0};
    if (scaler->state.data)
        device_copy_out(device, values, scaler->state);
    return (struct scaler_state){.scale = (double)values[LOSS_SCALE_FACTOR],
                                 .steps = (int64_t)values[LOSS_SCALE_STEPS],
                                 .overflows_left = (int64_t)values[LOSS_SCALE_TOLERANCE]};
}

void scaler_write(struct scaler *scaler, struct device *device, const struct scaler_state *state) {
    bool has_none = state->scale == 1 && state->steps == 0 && state->overflows_left == 0;
    if (scaler->state.data && scaler->rule.window > 0 && state->scale > 0 && !has_none)
        set(scaler, device, state);
}
