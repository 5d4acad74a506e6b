// The memory of a step: measured on paper, then taken, then laid out the same way for real. See step.h.
#include "step/memory.h"
#include "base/error.h"

#include <string.h>

// More than any step needs; paper memory costs nothing.
static const size_t PAPER_BYTES = (size_t)1 << 46;

// Takes everything that lives as long as the step from one arena. Called twice: on paper and on the device.
static void lay_out_state(struct step *step, struct arena *arena) {
    const struct config *config = step->config;
    size_t start = arena->used;
    step->values = arena_1d(arena, step->dtype, step->params.total);
    step->memory.weights = arena->used - start;
    step->grads = (struct tensor){0};
    start = arena->used;
    if (step->mode == STEP_TRAIN)
        step->grads = arena_1d(arena, DTYPE_F32, step->params.total);
    step->memory.gradients = arena->used - start;
    start = arena->used;
    if (step->mode == STEP_TRAIN)
        adam_build(&step->adam, arena, &step->params, step->dtype, config);
    step->memory.optimizer = arena->used - start;
    int64_t rows =
        step->mode == STEP_GENERATE ? config->max_position_embeddings : config->micro_batch_size * config->seq_length;
    step->inputs = arena_1d(arena, DTYPE_U8, (int64_t)step_input_bytes(rows));
    step->totals = arena_1d(arena, DTYPE_F32, 2);
    if (step->mode == STEP_GENERATE) {
        step->logits = arena_2d(arena, DTYPE_F32, 1, step->gpt.V);
        for (int64_t layer = 0; layer < step->gpt.L; layer++) {
            int64_t H = step->gpt.H, D = step->gpt.D;
            step->cache.keys[layer] = arena_4d(arena, step->dtype, 1, step->gpt.P, H, D);
            step->cache.values[layer] = arena_4d(arena, step->dtype, 1, step->gpt.P, H, D);
        }
    }
    param_list_bind(&step->params, step->values, step->grads);
}

// The largest micro-batch, through the same functions as the real one.
static void run_on_paper(struct step *step) {
    const struct config *config = step->config;
    bool is_generating = step->mode == STEP_GENERATE;
    int64_t B = is_generating ? 1 : config->micro_batch_size;
    int64_t T = is_generating ? config->max_position_embeddings : config->seq_length;
    struct pass pass = step_pass(step, B, T);
    struct device_batch batch = step_input_tensors(step, B * T, &pass.row_ids);
    if (is_generating) {
        gpt_last_logits(&step->gpt, &pass, &batch, step->logits);
        step->cache.length = 0;
        return;
    }
    if (step->mode == STEP_EVALUATE)
        batch.weights = (struct tensor){0};
    gpt_forward(&step->gpt, &pass, &batch);
    if (step->mode == STEP_TRAIN)
        gpt_backward(&step->gpt, &pass, &batch);
}

static int measure(struct step *step) {
    struct device *real = step->device, *paper;
    TRY(device_open_paper(&paper));
    step->device = paper;
    arena_init(&step->state, "state", device_alloc(paper, PAPER_BYTES), PAPER_BYTES);
    arena_init(&step->saved, "activations", device_alloc(paper, PAPER_BYTES), PAPER_BYTES);
    arena_init(&step->scratch, "scratch", device_alloc(paper, PAPER_BYTES), PAPER_BYTES);
    lay_out_state(step, &step->state);
    run_on_paper(step);
    step->device = real;
    device_close(paper);
    step->memory.activations = step->saved.peak;
    step->memory.scratch = step->scratch.peak;
    step->memory.total = step->state.peak + step->saved.peak + step->scratch.peak;
    return 0;
}

static int take(struct step *step, struct arena *arena, const char *name, size_t bytes) {
    void *memory = device_alloc(step->device, bytes ? bytes : ARENA_ALIGNMENT);
    if (!memory) {
        const struct step_memory *m = &step->memory;
        double GB = 1e9;
        error_context("the step needs %.2f GB (weights %.2f, gradients %.2f, optimizer %.2f, activations %.2f, scratch "
                      "%.2f); use a smaller --micro-batch-size, --seq-length or model",
                      (double)m->total / GB, (double)m->weights / GB, (double)m->gradients / GB,
                      (double)m->optimizer / GB, (double)m->activations / GB, (double)m->scratch / GB);
        return -1;
    }
    arena_init(arena, name, memory, bytes ? bytes : ARENA_ALIGNMENT);
    return 0;
}

int step_take_memory(struct step *step) {
    TRY(measure(step));
    size_t state = step->state.peak, saved = step->saved.peak, scratch = step->scratch.peak;
    step->state = step->saved = step->scratch = (struct arena){0};
    TRY(take(step, &step->state, "state", state));
    TRY(take(step, &step->saved, "activations", saved));
    TRY(take(step, &step->scratch, "scratch", scratch));
    lay_out_state(step, &step->state);
    device_zero(step->device, step->values);
    device_zero(step->device, step->totals);
    if (step->grads.data)
        device_zero(step->device, step->grads);
    for (int i = 0; i < 2; i++) {
        step->slots[i].host = device_host_alloc(step->device, tensor_bytes(step->inputs));
        if (!step->slots[i].host)
            return -1;
        step->slots[i].copied = step->device->ops->event_create(step->device);
    }
    return 0;
}

void step_give_memory_back(struct step *step) {
    for (int i = 0; i < 2; i++) {
        if (step->slots[i].host)
            device_host_free(step->device, step->slots[i].host);
        if (step->slots[i].copied)
            step->device->ops->event_free(step->device, step->slots[i].copied);
    }
    struct arena *arenas[] = {&step->state, &step->saved, &step->scratch};
    for (int i = 0; i < 3; i++)
        if (arenas[i]->base)
            device_free(step->device, arenas[i]->base);
}
