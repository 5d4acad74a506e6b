// The memory of a step: measured on paper, then taken (memory_take.c), then laid out in the same way for real. See
// step.h.
#include "step/memory.h"
#include "base/error.h"
#include "step/pipeline.h"
#include "step/results.h"
#include "step/step_inputs.h"

#include <string.h>

// More than any step needs; paper memory costs nothing.
static const size_t PAPER_BYTES = (size_t)1 << 50;

// What generation keeps of the tokens so far: room for the longest sequence, for this rank's heads.
static void lay_out_cache(struct step *step, struct arena *arena) {
    const struct model *model = &step->chunks[0].model;
    int64_t G = model->choices.G / model->choices.parts, D = model->choices.D, P = model->P;
    step->logits = arena_2d(arena, DTYPE_F32, 1, model->V);
    if (model->form == CONFIG_T5)
        step->encoded = arena_2d(arena, step->dtype, P, model->choices.C);
    for (int64_t i = 0; i < model->decoder.L; i++) {
        int64_t layer = model->decoder.first + i;
        step->cache.keys[layer] = arena_4d(arena, step->dtype, 1, P, G, D);
        step->cache.values[layer] = arena_4d(arena, step->dtype, 1, P, G, D);
        if (model->form == CONFIG_T5)
            step->cache.across[layer] = arena_2d(arena, step->dtype, P, 2 * G * D);
    }
}

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
        adam_build(&step->adam, arena, &step->reducer.pieces, step->dtype, config);
    step->memory.optimizer = arena->used - start;
    start = arena->used;
    pipeline_lay_out(step, arena);
    step->totals = arena_1d(arena, DTYPE_F32, TOTAL_COUNT);
    for (int i = 0; i < 2; i++)
        step->slots[i].landing = arena_1d(arena, DTYPE_U8, tensor_count(step->pipeline.batches[0].block));
    if (step->mode == STEP_GENERATE)
        lay_out_cache(step, arena);
    step->memory.buffers = arena->used - start;
    param_list_bind(&step->params, step->values, step->grads);
    start = arena->used;
    reducer_bind(&step->reducer,
                 &(struct reducer_buffers){
                     .device = step->device, .arena = arena, .values = step->values, .grads = step->grads});
    step->memory.gradients += arena->used - start;
    start = arena->used;
    for (int i = 0; i < step->chunk_count && step->mode == STEP_TRAIN; i++)
        fp8_lay_out(&step->chunks[i].model.fp8, arena);
    step->memory.weights += arena->used - start;
}

// Runs the largest micro-batch through the same functions as a real one.
static void run_on_paper(struct step *step) {
    if (step->mode != STEP_GENERATE) {
        pipeline_measure(step);
        shared_measure(step);
        return;
    }
    struct step_chunk *chunk = &step->chunks[0];
    struct step_flight *flight = &chunk->flights[0];
    struct step_input input = step_largest_input(step);
    flight->saved = step->saved;
    struct pass pass = step_pass(step, input.B, input.T);
    struct device_batch batch = step_input_tensors(step, &input, step->pipeline.batches[0].block);
    if (chunk->model.form == CONFIG_T5)
        model_encode(&chunk->model, &pass, &flight->model, &batch, step->encoded);
    struct tensor x = {0};
    if (!chunk->model.decoder.begins)
        x = arena_2d(pass.saved, step->dtype, input.T, chunk->model.choices.C);
    (void)model_last_logits(&chunk->model, &pass, &flight->model, &batch, x, step->logits);
    step->cache.length = 0;
    chunk->saved_bytes = flight->saved.peak;
}

int memory_measure(struct step *step) {
    struct device *real = step->device, *paper;
    TRY(device_open_paper(&paper));
    paper_stand_for(paper, real);
    step->device = paper;
    arena_init(&step->state, "state", device_alloc(paper, PAPER_BYTES), PAPER_BYTES);
    arena_init(&step->saved, "activations", device_alloc(paper, PAPER_BYTES), PAPER_BYTES);
    arena_init(&step->scratch, "scratch", device_alloc(paper, PAPER_BYTES), PAPER_BYTES);
    lay_out_state(step, &step->state);
    run_on_paper(step);
    step->device = real;
    step->memory.device_own = paper_totals(paper).own_bytes;
    device_close(paper);
    step->memory.activations = pipeline_saved_bytes(step);
    step->memory.scratch = step->scratch.peak;
    step->memory.total = step->state.peak + step->memory.activations + step->scratch.peak;
    step->state = step->saved = step->scratch = (struct arena){0};
    return 0;
}

void step_describe_memory(const struct step_memory *memory, struct buffer *out) {
    const double GB = 1e9;
    buffer_printf(out,
                  "%.2f GB (weights %.2f, gradients %.2f, optimizer %.2f, activations %.2f, scratch %.2f, buffers "
                  "%.2f)",
                  (double)memory->total / GB, (double)memory->weights / GB, (double)memory->gradients / GB,
                  (double)memory->optimizer / GB, (double)memory->activations / GB, (double)memory->scratch / GB,
                  (double)memory->buffers / GB);
    if (memory->device_own)
        buffer_printf(out, " + %.2f GB for the device's own copies in fp32", (double)memory->device_own / GB);
}

int step_take_memory(struct step *step) {
    TRY(memory_take(step));
    lay_out_state(step, &step->state);
    pipeline_bind_flights(step);
    device_zero(step->device, step->values);
    device_zero(step->device, step->totals);
    if (step->grads.data)
        device_zero(step->device, step->grads);
    for (int i = 0; i < step->chunk_count && step->mode == STEP_TRAIN; i++)
        fp8_reset(&step->chunks[i].model.fp8, step->device);
    for (int i = 0; i < 2; i++) {
        step->slots[i].host = device_host_alloc(step->device, tensor_bytes(step->pipeline.batches[0].block));
        if (!step->slots[i].host)
            return -1;
        step->slots[i].copied = step->device->ops->event_create(step->device);
        step->slots[i].taken = step->device->ops->event_create(step->device);
    }
    return results_open(step);
}

void step_give_memory_back(struct step *step) {
    for (int i = 0; i < 2; i++) {
        if (step->slots[i].host)
            device_host_free(step->device, step->slots[i].host);
        if (step->slots[i].copied)
            step->device->ops->event_free(step->device, step->slots[i].copied);
        if (step->slots[i].taken)
            step->device->ops->event_free(step->device, step->slots[i].taken);
    }
    results_close(step);
    memory_give(step);
}
