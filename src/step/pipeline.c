// The chunks of the model on this rank, and the memory of their flights. See pipeline.h.
#include "step/pipeline.h"
#include "base/coroutine.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "step/internal.h"

#include <stdlib.h>
#include <string.h>

const struct schedule *pipeline_schedule(struct step *step, int64_t micro_batches, bool is_learning) {
    struct schedule *schedule = &step->pipeline.schedules[is_learning];
    struct schedule_shape shape = step->options.schedule;
    shape.micro_batches = (int)micro_batches;
    shape.is_evaluation = !is_learning;
    if (schedule->stages && schedule->shape.micro_batches == shape.micro_batches &&
        schedule->shape.buckets == shape.buckets)
        return schedule;
    schedule_free(schedule);
    return schedule_build(schedule, &shape) < 0 ? NULL : schedule;
}

const struct schedule_list *pipeline_list(const struct step *step, const struct schedule *schedule) {
    return &schedule->stages[step->mesh.place[AXIS_PIPELINE]];
}

static int64_t all_chunks(const struct step *step) {
    return (int64_t)step->mesh.length[AXIS_PIPELINE] * step->chunk_count;
}

// The number of this stage's chunk among those of all stages.
static int64_t number_of(const struct step *step, int chunk) {
    return (int64_t)chunk * step->mesh.length[AXIS_PIPELINE] + step->mesh.place[AXIS_PIPELINE];
}

// Most micro-batches of a chunk that at one time have done one kind of work and not yet another.
static int most_between(const struct schedule_list *list, int chunk, enum work from, enum work to) {
    int held = 0, most = 0;
    for (int i = 0; i < list->count; i++) {
        if (list->items[i].chunk != chunk)
            continue;
        held += list->items[i].work == from;
        most = held > most ? held : most;
        held -= list->items[i].work == to;
    }
    return most;
}

// Most simultaneous flights of a chunk in the list. In an evaluation each ends with its forward.
static int most_flights(const struct schedule *schedule, const struct schedule_list *list, int chunk) {
    bool has_halves = schedule->shape.kind == SCHEDULE_ZERO_BUBBLE;
    return schedule->shape.is_evaluation
               ? 1
               : most_between(list, chunk, WORK_FORWARD, has_halves ? WORK_BACKWARD_WEIGHT : WORK_BACKWARD);
}

static int most_batches(const struct schedule *schedule, const struct schedule_list *list) {
    int held = 0, most = 1;
    for (int i = 0; i < list->count; i++) {
        held += list->items[i].work == WORK_LOAD;
        most = held > most ? held : most;
        held -= schedule_ends_batch(&schedule->shape, list->items[i]);
    }
    return most;
}

// If a group of micro-batches is larger than the number of stages, its first ones come around to the next chunk before
// the last have gone through this one; that many wait between the last stage and the first. Both ends of a channel have
// buffers.
static void open_channels(struct step *step, const struct schedule_shape *shape) {
    static const char *const names[LINK_COUNT] = {"activations", "activations", "activation gradients",
                                                  "activation gradients"};
    int early = shape->kind == SCHEDULE_INTERLEAVED ? shape->group - shape->stages : 0;
    for (int link = 0; link < LINK_COUNT; link++)
        channel_open(&step->pipeline.channels[link], 2 + (early + 1) / 2, names[link]);
}

struct model_options pipeline_chunk(const struct step *step, int64_t number) {
    struct model_options options = model_chunk(&step->options.model, number);
    // Text is generated without multi-token prediction, whose weights are left out unless they belong to another step.
    if (step->mode == STEP_GENERATE && !step->options.weights_of)
        options.chunk.depths = 0;
    return options;
}

int pipeline_open(struct step *step) {
    step->chunk_count = step->options.schedule.chunks;
    step->chunks = memory_alloc(sizeof *step->chunks * (size_t)step->chunk_count);
    const struct schedule *schedule =
        pipeline_schedule(step, step->options.schedule.micro_batches, step->mode == STEP_TRAIN);
    if (!schedule)
        return -1;
    const struct schedule_list *list = pipeline_list(step, schedule);
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        const struct model_options options = pipeline_chunk(step, number_of(step, i));
        model_build(&chunk->model, &step->params, &options);
        chunk->flight_count = step->rehearses_one ? 1 : most_flights(schedule, list, i);
        chunk->flights = memory_alloc(sizeof *chunk->flights * (size_t)chunk->flight_count);
        for (int f = 0; f < chunk->flight_count; f++)
            model_flight_open(&chunk->flights[f].model, &chunk->model);
        int deferred = most_between(list, i, WORK_BACKWARD_INPUT, WORK_BACKWARD_WEIGHT);
        chunk->deferred_count = step->rehearses_one && deferred > 1 ? 1 : deferred;
        chunk->deferred = memory_alloc(sizeof *chunk->deferred * (size_t)chunk->deferred_count);
        for (int d = 0; d < chunk->deferred_count; d++)
            chunk->deferred[d].copies_inputs = chunk->model.choices.recomputed_layers > 0;
    }
    if (step->mode == STEP_TRAIN && schedule->shape.has_pairs)
        TRY(coroutine_open(&step->coroutine));
    step->pipeline.batch_count = most_batches(schedule, list);
    step->pipeline.batches = memory_alloc(sizeof *step->pipeline.batches * (size_t)step->pipeline.batch_count);
    open_channels(step, &schedule->shape);
    shared_open(step);
    return 0;
}

void pipeline_close(struct step *step) {
    coroutine_close(step->coroutine);
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        for (int f = 0; f < chunk->flight_count; f++)
            model_flight_close(&chunk->flights[f].model);
        for (int d = 0; d < chunk->deferred_count; d++)
            deferred_free(&chunk->deferred[d]);
        free(chunk->flights);
        free(chunk->deferred);
        model_free(&chunk->model);
    }
    free(step->chunks);
    free(step->pipeline.batches);
    for (int link = 0; link < LINK_COUNT; link++)
        channel_close(&step->pipeline.channels[link]);
    schedule_free(&step->pipeline.schedules[false]);
    schedule_free(&step->pipeline.schedules[true]);
    shared_close(step);
}

// The number of the chunk that takes the message over this link, or whose input's gradient it is.
static int64_t number_over(const struct step *step, enum mesh_link link, int chunk) {
    return number_of(step, chunk) + (link == LINK_FORWARD_OUT || link == LINK_BACKWARD_IN);
}

struct message pipeline_message(struct step *step, enum mesh_link link, int chunk) {
    int64_t number = number_over(step, link, chunk), C = step->chunks[0].model.choices.C;
    if (number <= 0 || number >= all_chunks(step))
        return (struct message){0};
    struct batch_form form = step->options.largest;
    struct pass first = step_pass(step, form.B, form.T), second = step_pass(step, form.B, form.S);
    int64_t first_decoder = step->options.decoder_chunk;
    struct message message = {.x_rows = pass_stream_rows(&first)};
    if (number >= first_decoder)
        message = (struct message){.x_rows = number > first_decoder ? pass_stream_rows(&second) : 0,
                                   .memory_rows = pass_stream_rows(&first)};
    message.elements = (message.x_rows + message.memory_rows) * C;
    return message;
}

struct handover pipeline_view(const struct step *step, struct tensor buffer, const struct message *message) {
    int64_t C = step->chunks[0].model.choices.C, behind = message->x_rows * C;
    unsigned char *data = buffer.data;
    struct handover view = {0};
    if (message->x_rows > 0)
        view.x = tensor_2d(data, step->dtype, message->x_rows, C);
    if (message->memory_rows > 0)
        view.memory = tensor_2d(data + (size_t)behind * dtype_bytes(step->dtype), step->dtype, message->memory_rows, C);
    return view;
}

void pipeline_lay_out(struct step *step, struct arena *arena) {
    struct step_pipeline *pipeline = &step->pipeline;
    struct batch_form largest = step->options.largest, block = step_block_form(step, &largest);
    for (int i = 0; i < pipeline->batch_count; i++)
        pipeline->batches[i] =
            (struct step_batch){.block = arena_1d(arena, DTYPE_U8, (int64_t)batch_block_bytes(&block))};
    for (int link = 0; link < LINK_COUNT; link++) {
        struct channel *channel = &pipeline->channels[link];
        int64_t most = 0;
        bool is_used = step->mode == STEP_TRAIN || link == LINK_FORWARD_IN || link == LINK_FORWARD_OUT;
        for (int chunk = 0; is_used && chunk < step->chunk_count; chunk++) {
            int64_t elements = pipeline_message(step, (enum mesh_link)link, chunk).elements;
            most = elements > most ? elements : most;
        }
        channel->group = step->mesh.links[link];
        channel->started = channel->finished = 0;
        channel_lay_out(channel, arena, step->dtype, most);
    }
}

size_t pipeline_activation_bytes(const struct step *step) {
    size_t bytes = 0;
    for (int i = 0; i < step->chunk_count; i++) {
        const struct step_chunk *chunk = &step->chunks[i];
        size_t own = step->borrow.border > 0 ? step->borrow.border : chunk->activation_bytes;
        bytes += own * (size_t)chunk->flight_count;
        bytes += chunk->deferred_bytes * (size_t)chunk->deferred_count;
    }
    return bytes;
}

void pipeline_bind_flights(struct step *step) {
    unsigned char *memory = step->activations.base;
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        for (int f = 0; f < chunk->flight_count; f++, memory += chunk->activation_bytes) {
            arena_init(&chunk->flights[f].activations, "activations", memory, chunk->activation_bytes);
            borrow_apply(step, &chunk->flights[f].activations);
        }
        for (int d = 0; d < chunk->deferred_count; d++, memory += chunk->deferred_bytes) {
            arena_init(&chunk->deferred[d].arena, "weight gradients put off", memory, chunk->deferred_bytes);
            deferred_reserve(&chunk->deferred[d], chunk->deferred_matmuls);
        }
    }
}
