// State besides weights with which a run resumes: the optimizer, fp8 ranges and a few numbers. See step.h.
#include "base/error.h"
#include "step/internal.h"

const struct optimizer *step_optimizer(const struct step *step, int group) {
    CHECK(group < step->updates.count);
    return &step->updates.optimizers[group];
}

struct tensor step_expert_bias(const struct step *step, int64_t layer) {
    int64_t E = step->chunks[0].model.choices.experts.E;
    return step->expert_bias.data ? tensor_rows(step->expert_bias, layer * E, E) : (struct tensor){0};
}

struct tensor step_expert_load(const struct step *step, int64_t layer) {
    int64_t E = step->chunks[0].model.choices.experts.E;
    return step->expert_load.data ? tensor_rows(step->expert_load, layer * E, E) : (struct tensor){0};
}

enum { TENSORS_A_LAYER = 2 };

int step_range_count(const struct step *step) {
    int count = 0;
    for (int i = 0; i < step->chunk_count; i++)
        count += TENSORS_A_LAYER * step->chunks[i].model.fp8.count;
    return count;
}

struct step_range step_range(const struct step *step, int i) {
    int layer = i / TENSORS_A_LAYER, chunk = 0;
    for (; layer >= step->chunks[chunk].model.fp8.count; chunk++)
        layer -= step->chunks[chunk].model.fp8.count;
    const struct fp8 *fp8 = &step->chunks[chunk].model.fp8;
    bool is_history = i % TENSORS_A_LAYER == 1;
    return (struct step_range){
        .name = is_history ? "fp8_history" : "fp8_ranges",
        .weight = fp8->layers[layer].weight,
        .tensor = tensor_rows(is_history ? fp8->history : fp8->ranges, (int64_t)layer * FP8_ROLES, FP8_ROLES)};
}

static int add(struct tensor *list, int count, struct tensor tensor) {
    if (!tensor.data)
        return count;
    if (list)
        list[count] = tensor;
    return count + 1;
}

int step_list_state(const struct step *step, struct tensor *list) {
    int count = add(list, 0, step->values);
    for (int i = 0; i < step->updates.count; i++) {
        const struct optimizer *optimizer = &step->updates.optimizers[i];
        count = add(list, count, optimizer->master);
        for (int k = 0; k < optimizer->state_count; k++) {
            count = add(list, count, optimizer->states[k].tensor);
            count = add(list, count, optimizer->states[k].exponents);
        }
    }
    count = add(list, count, step->expert_bias);
    count = add(list, count, step->expert_load);
    for (int i = 0; i < step->chunk_count; i++) {
        count = add(list, count, step->chunks[i].model.fp8.ranges);
        count = add(list, count, step->chunks[i].model.fp8.history);
    }
    return count;
}

struct step_counters step_counters(const struct step *step) {
    return (struct step_counters){.updates = step->updates.made,
                                  .scaler = scaler_read(&step->updates.scaler, step->device),
                                  .fp8_steps = step->chunks[0].model.fp8.step};
}

void step_resume(struct step *step, const struct step_counters *counters) {
    step->updates.made = counters->updates;
    scaler_write(&step->updates.scaler, step->device, &counters->scaler);
    for (int i = 0; i < step->chunk_count && counters->fp8_steps > 0; i++)
        fp8_resume(&step->chunks[i].model.fp8, counters->fp8_steps, counters->has_ranges);
}
