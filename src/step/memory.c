// The memory of a step: measured on paper, then taken (memory_take.c), then laid out in the same way for real. See
// step.h.
#include "step/internal.h"
#include "base/error.h"
#include "base/memory.h"
#include "step/pipeline.h"

#include <stdlib.h>

// More than any step needs; paper memory costs nothing.
static const size_t PAPER_BYTES = (size_t)1 << 50;

// The cache of generation: room for the longest sequence, for this rank's heads.
static void lay_out_cache(struct step *step, struct arena *arena) {
    const struct step_chunk *chunk = &step->chunks[0];
    const struct model *model = &chunk->model;
    step->logits = arena_2d(arena, DTYPE_F32, 1, model->V);
    if (model->form == CONFIG_T5)
        step->encoded = arena_2d(arena, step->dtype, step_window(step), model->choices.C);
    model_take_cache(model, &chunk->flights[0].model,
                     &(struct cache_options){.arena = arena, .dtype = step->dtype, .capacity = step_window(step)});
}

// An optimizer for every group of parameters.
static void lay_out_updates(struct step *step, struct arena *arena) {
    struct optimizer_options options[PARAM_MOST_GROUPS];
    for (int i = 0; i < step->params.group_count; i++) {
        options[i] = step->options.optimizer;
        options[i].rule = step_rule(step, i);
        options[i].group = i;
        options[i].lr_multiplier = step->params.groups[i].lr_multiplier;
        options[i].pieces = step->reducer.groups[i].pieces;
        options[i].host = step->hosted.base ? &step->hosted : NULL;
        options[i].params = &step->params;
    }
    updates_build(&step->updates, arena, options, step->params.group_count);
}

static int count_total(const struct step *step, enum total_kind kind) {
    const struct expert_choices *experts = &step->chunks[0].model.choices.experts;
    switch (kind) {
    case TOTAL_HITS:
        return step->chunks[0].model.biencoder.top_count;
    case TOTAL_BALANCE:
        return step_balances(step);
    case TOTAL_EXPERT_ROWS:
        return step_experts(step);
    case TOTAL_GLOBAL_SHARES:
    case TOTAL_GLOBAL_ROWS:
        return experts->coefficients[BALANCE_GLOBAL] > 0 ? step_experts(step) : 0;
    case TOTAL_DEPTH_LOSSES:
    case TOTAL_DEPTH_TOKENS:
        return step->options.depths;
    default:
        return 1;
    }
}

// Takes everything that lives as long as the step from one arena. Called twice: on paper and on the device.
static void lay_out_state(struct step *step, struct arena *arena) {
    const struct step *owner = step->options.weights_of;
    size_t start = arena->used;
    step->values = owner ? owner->values : arena_1d(arena, step->dtype, step->params.total);
    step->memory.weights = arena->used - start;
    step->grads = (struct tensor){0};
    start = arena->used;
    if (step->mode == STEP_TRAIN)
        step->grads = arena_1d(arena, DTYPE_F32, step->params.total);
    step->memory.gradients = arena->used - start;
    start = arena->used;
    if (step->mode == STEP_TRAIN)
        lay_out_updates(step, arena);
    step->memory.optimizer = arena->used - start;
    step->memory.hosted = step->hosted.used;
    start = arena->used;
    pipeline_lay_out(step, arena);
    for (int kind = 0; kind < TOTAL_KINDS; kind++)
        step->total_first[kind + 1] = step->total_first[kind] + count_total(step, (enum total_kind)kind);
    // One copy brings both to the host.
    int total_count = step->total_first[TOTAL_KINDS];
    struct tensor totals = arena_1d(arena, DTYPE_F32, total_count + OWN_COUNT);
    step->totals = tensor_rows(totals, 0, total_count);
    step->own = tensor_rows(totals, total_count, OWN_COUNT);
    if (step->options.keeps_scores) {
        struct batch_form largest = step->options.largest, block = step_block_form(step, &largest);
        step->scores = arena_2d(arena, DTYPE_F32, 3, batch_elements(&block, BATCH_LABELS));
    }
    if (step->chunks[0].model.choices.experts.has_bias)
        step->expert_bias = owner ? owner->expert_bias : arena_1d(arena, DTYPE_F32, step_experts(step));
    int loaded = step_total_count(step, TOTAL_GLOBAL_ROWS);
    if (loaded > 0 && step->mode == STEP_TRAIN)
        step->expert_load = arena_1d(arena, DTYPE_F32, loaded);
    for (int i = 0; i < 2; i++)
        step->slots[i].landing = arena_1d(arena, DTYPE_U8, tensor_count(step->pipeline.batches[0].block));
    if (step->mode == STEP_GENERATE)
        lay_out_cache(step, arena);
    step->memory.buffers = arena->used - start;
    if (owner)
        param_list_share(&step->params, &owner->params);
    else
        param_list_bind(&step->params, step->values, step->grads);
    start = arena->used;
    struct reducer_buffers buffers = {
        .device = step->device, .arena = arena, .values = step->values, .grads = step->grads};
    if (step->mode == STEP_TRAIN && step->options.watches_gradients && step->mesh.size > 1)
        buffers.squares = tensor_rows(step->own, OWN_SQUARES, 1);
    reducer_bind(&step->reducer, &buffers);
    step->memory.gradients += arena->used - start;
    start = arena->used;
    for (int i = 0; i < step->chunk_count && step->mode == STEP_TRAIN; i++)
        fp8_lay_out(&step->chunks[i].model.fp8, arena);
    for (int i = 0; i < step->chunk_count && step->mode == STEP_TRAIN; i++)
        qk_clip_lay_out(&step->chunks[i].model.qk_clip, arena);
    step->memory.weights += arena->used - start;
}

// Lays out the arenas, which are large enough, and prepares everything else that a step needs to run.
static int settle_in(struct step *step) {
    lay_out_state(step, &step->state);
    pipeline_bind_flights(step);
    if (!step->options.weights_of)
        device_zero(step->device, step->values);
    device_zero(step->device, step->totals);
    if (step->expert_bias.data && !step->options.weights_of)
        device_zero(step->device, step->expert_bias);
    if (step->expert_load.data)
        device_zero(step->device, step->expert_load);
    if (step->grads.data)
        device_zero(step->device, step->grads);
    updates_open(&step->updates, step->device);
    if (step->input_offload.arena.base)
        input_offload_open(&step->input_offload, step->device);
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

static bool step_offloads(const struct step *step) {
    return step->mode == STEP_TRAIN && step->chunks[0].model.choices.offloaded_layers > 0;
}

// Whether optimizer states may be in host memory, and whether inputs of layers are offloaded there.
static bool step_hosts_states(const struct step *step) {
    return step->mode == STEP_TRAIN && step->options.optimizer.config->run.optimizer_cpu_offload;
}

// Arenas that only count: paper memory costs nothing, and every flight has more than it needs.
static void take_paper(struct step *step) {
    size_t flights = 0;
    for (int i = 0; i < step->chunk_count; i++)
        flights += (size_t)step->chunks[i].flight_count + (size_t)step->chunks[i].deferred_count;
    size_t share = PAPER_BYTES / flights / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    for (int i = 0; i < step->chunk_count; i++)
        step->chunks[i].activation_bytes = step->chunks[i].deferred_bytes = share;
    arena_init(&step->state, "state", device_alloc(step->device, PAPER_BYTES), PAPER_BYTES);
    arena_init(&step->activations, "activations", device_alloc(step->device, PAPER_BYTES), PAPER_BYTES);
    arena_init(&step->scratch, "scratch", device_alloc(step->device, PAPER_BYTES), PAPER_BYTES);
    if (step->coroutine)
        arena_init(&step->beside, "scratch of a pair", device_alloc(step->device, PAPER_BYTES), PAPER_BYTES);
    if (step_hosts_states(step))
        arena_init(&step->hosted, "optimizer states", device_hosted_alloc(step->device, PAPER_BYTES), PAPER_BYTES);
    if (step_offloads(step))
        arena_init(&step->input_offload.arena, "inputs of layers", device_hosted_alloc(step->device, PAPER_BYTES),
                   PAPER_BYTES);
}

static int next_largest(void *context, struct batch *batch) {
    *batch = *(const struct batch *)context;
    return 0;
}

// All flights of a chunk are alike, so the micro-batches of the shortest list suffice; with pairs, those of a group,
// the shortest list that has a pair.
static int64_t fewest_micro_batches(const struct step *step) {
    const struct schedule_shape *shape = &step->pipeline.schedules[step->mode == STEP_TRAIN].shape;
    int fewest = shape->kind == SCHEDULE_INTERLEAVED && !step->rehearses_one ? shape->group : 1;
    return fewest < shape->micro_batches ? fewest : shape->micro_batches;
}

static void note_peaks(struct step *step, const struct step *paper) {
    for (int i = 0; i < step->chunk_count; i++) {
        const struct step_chunk *from = &paper->chunks[i];
        struct step_chunk *chunk = &step->chunks[i];
        chunk->activation_bytes = chunk->deferred_bytes = 0;
        for (int f = 0; f < from->flight_count; f++)
            if (from->flights[f].activations.peak > chunk->activation_bytes)
                chunk->activation_bytes = from->flights[f].activations.peak;
        for (int d = 0; d < from->deferred_count; d++) {
            if (from->deferred[d].arena.peak > chunk->deferred_bytes)
                chunk->deferred_bytes = from->deferred[d].arena.peak;
            if (from->deferred[d].capacity > chunk->deferred_matmuls)
                chunk->deferred_matmuls = from->deferred[d].capacity;
        }
    }
}

// One step and one evaluation, if there are any, which may need more memory than the step: it has no fp8 matmuls, and
// experts have no capacities.
static int run_micro_batches(struct step *step, struct step *paper, struct batch *largest) {
    struct step_source source = {next_largest, largest, fewest_micro_batches(paper)};
    if (paper->mode == STEP_TRAIN)
        TRY(step_train(paper, &source, 0, 0));
    note_peaks(step, paper);
    step->borrow = borrow_find(paper, step->chunks[0].activation_bytes);
    if (step->options.only_trains)
        return 0;
    TRY(step_evaluate(paper, &source));
    note_peaks(step, paper);
    step->borrow = borrow_raise(paper, step->borrow, step->chunks[0].activation_bytes);
    return 0;
}

// Runs the longest text at once.
static void run_tokens(struct step *paper, const int32_t *zeros) {
    const struct model *model = &paper->chunks[0].model;
    OWNED float *logits = memory_alloc(sizeof *logits * (size_t)model->V);
    if (model->form == CONFIG_T5)
        step_encode(paper, zeros, step_window(paper));
    step_logits(paper, zeros, step_window(paper), logits);
}

// Runs a step like this one on paper, and finds the sizes of its arenas and the memory that could be borrowed.
static int rehearse(struct step *step, struct device *device, const struct mesh *mesh) {
    struct step_options options = step->options;
    options.device = device;
    options.mesh = mesh;
    struct step *paper = step_new(&options);
    paper->keeps_results = step->keeps_results;
    paper->rehearses_one = !step->options.schedule.has_pairs;
    paper->borrow = step->borrow;
    paper->borrow.is_trial = true;
    int status = step_assemble(paper);
    if (status == 0) {
        take_paper(paper);
        status = settle_in(paper);
    }
    if (status == 0) {
        struct batch_form form = step->options.largest;
        struct batch largest = {0};
        batch_allocate(&largest, &form, form.B);
        if (step->mode == STEP_GENERATE)
            run_tokens(paper, largest.tokens);
        else
            status = run_micro_batches(step, paper, &largest);
        batch_free(&largest);
        note_peaks(step, paper);
        step->memory = paper->memory;
        step->memory.beside = paper->beside.peak;
        step->memory.scratch = paper->scratch.peak + paper->beside.peak;
        step->memory.offloaded = paper->input_offload.arena.peak;
        step->memory.total = paper->state.peak;
    }
    step_close(paper);
    return status;
}

// A run without borrowing finds what can be borrowed; a run with it verifies that.
static int rehearse_borrowing(struct step *step, struct device *device, const struct mesh *mesh) {
    enum { MOST_TRIES = 6 };
    const struct step_borrow none = {0};
    step->borrow = none;
    TRY(rehearse(step, device, mesh));
    for (int tries = 1; step->borrow.border > 0; tries++) {
        size_t border = step->borrow.border;
        TRY(rehearse(step, device, mesh));
        if (step->borrow.border == border)
            break;
        if (step->borrow.border == 0 || tries == MOST_TRIES) {
            step->borrow = none;
            TRY(rehearse(step, device, mesh));
            step->borrow = none;
        }
    }
    step->borrow.is_trial = false;
    return 0;
}

int memory_measure(struct step *step) {
    struct device *device;
    struct world *world = NULL;
    struct mesh mesh;
    TRY(device_open_twin(&device, step->device));
    int status = mesh_open_twin(&mesh, &world, &step->mesh, device);
    if (status == 0)
        status = rehearse_borrowing(step, device, &mesh);
    step->memory.device_own = device_totals(device).own_bytes;
    step->memory.copies = device_totals(device).wide_bytes;
    step->memory.activations = pipeline_activation_bytes(step);
    step->memory.total += step->memory.activations + step->memory.scratch;
    world_close(world);
    device_close(device);
    return status;
}

int step_take_memory(struct step *step, struct step_room *room) {
    TRY(memory_take(step, room));
    if (step->options.tell_room)
        step->options.tell_room(step->options.room_context, room);
    return settle_in(step);
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
    updates_close(&step->updates, step->device);
    input_offload_close(&step->input_offload);
    memory_give(step);
}
