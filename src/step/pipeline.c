// The pieces of the model that a rank holds, and the memory of what is in flight through them. See pipeline.h.
#include "step/pipeline.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "step/borrow.h"
#include "step/memory.h"
#include "step/step_inputs.h"

#include <stdlib.h>
#include <string.h>

static enum schedule_kind schedule_kind(const struct config *config) {
    bool has_halves = config->pipeline_schedule && strcmp(config->pipeline_schedule, "zero-bubble") == 0;
    if (has_halves && config->pipeline_model_parallel_size > 1)
        return SCHEDULE_ZERO_BUBBLE;
    return config_chunks(config) > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
}

int pipeline_schedule(struct step *step, int64_t micro_batches) {
    struct schedule *schedule = &step->pipeline.schedule;
    const struct config *config = step->config;
    if (schedule->stages && schedule->shape.micro_batches == micro_batches)
        return 0;
    schedule_free(schedule);
    return schedule_build(
        schedule, &(struct schedule_shape){.kind = schedule_kind(config),
                                           .stages = step->mesh.length[AXIS_PIPELINE],
                                           .chunks = step->chunk_count,
                                           .micro_batches = (int)micro_batches,
                                           .group = (int)config->microbatch_group_size_per_virtual_pipeline_stage});
}

const struct schedule_list *pipeline_list(const struct step *step) {
    return &step->pipeline.schedule.stages[step->mesh.place[AXIS_PIPELINE]];
}

static int64_t piece_count(const struct step *step) {
    return (int64_t)step->mesh.length[AXIS_PIPELINE] * step->chunk_count;
}

static int64_t piece_of(const struct step *step, int chunk) {
    return (int64_t)chunk * step->mesh.length[AXIS_PIPELINE] + step->mesh.place[AXIS_PIPELINE];
}

// Whether this is the work after which nothing of a micro-batch stays in its chunk.
static bool is_last_work(const struct schedule *schedule, enum work work) {
    return work == (schedule->shape.kind == SCHEDULE_ZERO_BUBBLE ? WORK_BACKWARD_WEIGHT : WORK_BACKWARD);
}

bool pipeline_is_backward(enum work work) {
    return work == WORK_BACKWARD || work == WORK_BACKWARD_INPUT;
}

// The most flights of a chunk, and the most micro-batches, that the list has under way at once.
static int most_flights(const struct step *step, int chunk) {
    const struct schedule_list *list = pipeline_list(step);
    int held = 0, most = 1;
    for (int i = 0; i < list->count && step->mode == STEP_TRAIN; i++) {
        if (list->items[i].chunk != chunk)
            continue;
        held += list->items[i].work == WORK_FORWARD;
        most = held > most ? held : most;
        held -= is_last_work(&step->pipeline.schedule, list->items[i].work);
    }
    return most;
}

// The most micro-batches of a chunk that are between the halves of their backward at once.
static int most_deferred(const struct step *step, int chunk) {
    const struct schedule_list *list = pipeline_list(step);
    int held = 0, most = 0;
    for (int i = 0; i < list->count && step->mode == STEP_TRAIN; i++) {
        if (list->items[i].chunk != chunk)
            continue;
        held += list->items[i].work == WORK_BACKWARD_INPUT;
        most = held > most ? held : most;
        held -= list->items[i].work == WORK_BACKWARD_WEIGHT;
    }
    return most;
}

static int most_batches(const struct step *step) {
    const struct schedule_list *list = pipeline_list(step);
    int held = 0, most = 1;
    for (int i = 0; i < list->count; i++) {
        struct schedule_item item = list->items[i];
        held += item.work == WORK_FORWARD && item.chunk == 0;
        most = held > most ? held : most;
        if (step->mode == STEP_TRAIN)
            held -= pipeline_is_backward(item.work) && item.chunk == 0;
        else
            held -= item.work == WORK_FORWARD && item.chunk == step->chunk_count - 1;
    }
    return most;
}

// If a group of micro-batches is larger than the number of stages, its first ones come around to the next chunk before
// the last have gone through this one; that many wait between the last stage and the first. Both ends of a channel have
// buffers.
static void open_channels(struct step *step) {
    static const char *const names[LINK_COUNT] = {"activations", "activations", "activation gradients",
                                                  "activation gradients"};
    const struct schedule_shape *shape = &step->pipeline.schedule.shape;
    int early = shape->kind == SCHEDULE_INTERLEAVED ? shape->group - shape->stages : 0;
    for (int link = 0; link < LINK_COUNT; link++)
        channel_open(&step->pipeline.channels[link], 2 + (early + 1) / 2, names[link]);
}

int pipeline_open(struct step *step) {
    const struct config *config = step->config;
    step->chunk_count = (int)config_chunks(config);
    step->chunks = memory_alloc(sizeof *step->chunks * (size_t)step->chunk_count);
    int64_t unit = config->micro_batch_size * step->mesh.length[AXIS_DATA];
    int64_t micro_batches = step->mode == STEP_TRAIN ? config->global_batch_size / unit : 1;
    TRY(pipeline_schedule(step, micro_batches > 0 ? micro_batches : 1));
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        model_build(&chunk->model, &step->params,
                    &(struct model_options){
                        .config = config, .mesh = &step->mesh, .piece = config_piece(config, piece_of(step, i))});
        chunk->flight_count = most_flights(step, i);
        chunk->flights = memory_alloc(sizeof *chunk->flights * (size_t)chunk->flight_count);
        for (int f = 0; f < chunk->flight_count; f++)
            model_flight_open(&chunk->flights[f].model, &chunk->model);
        chunk->deferred_count = most_deferred(step, i);
        chunk->deferred = memory_alloc(sizeof *chunk->deferred * (size_t)chunk->deferred_count);
        for (int d = 0; d < chunk->deferred_count; d++)
            chunk->deferred[d].copies_inputs = chunk->model.choices.recomputed_layers > 0;
    }
    step->pipeline.batch_count = most_batches(step);
    step->pipeline.batches = memory_alloc(sizeof *step->pipeline.batches * (size_t)step->pipeline.batch_count);
    open_channels(step);
    shared_open(step);
    return 0;
}

void pipeline_close(struct step *step) {
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
    schedule_free(&step->pipeline.schedule);
    shared_close(step);
}

// The piece that the message of a chunk over this link goes into, or whose input it is the gradient of.
static int64_t piece_over(const struct step *step, enum mesh_link link, int chunk) {
    return piece_of(step, chunk) + (link == LINK_FORWARD_OUT || link == LINK_BACKWARD_IN);
}

struct message pipeline_message(struct step *step, enum mesh_link link, int chunk) {
    const struct config *config = step->config;
    int64_t piece = piece_over(step, link, chunk), C = config->hidden_size;
    if (piece <= 0 || piece >= piece_count(step))
        return (struct message){0};
    struct step_input input = step_largest_input(step);
    struct pass first = step_pass(step, input.B, input.T), second = step_pass(step, input.B, input.S);
    int64_t first_decoder = config_split_stage(config) * step->chunk_count;
    struct message message = {.x_rows = pass_stream_rows(&first)};
    if (config_form(config) == CONFIG_T5 && piece >= first_decoder)
        message = (struct message){.x_rows = piece > first_decoder ? pass_stream_rows(&second) : 0,
                                   .memory_rows = pass_stream_rows(&first)};
    message.elements = (message.x_rows + message.memory_rows) * C;
    return message;
}

struct handover pipeline_view(const struct step *step, struct tensor buffer, const struct message *message) {
    int64_t C = step->config->hidden_size, behind = message->x_rows * C;
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
    struct step_input largest = step_largest_input(step);
    for (int i = 0; i < pipeline->batch_count; i++)
        pipeline->batches[i] =
            (struct step_batch){.block = arena_1d(arena, DTYPE_U8, (int64_t)step_input_bytes(step, &largest))};
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

size_t pipeline_saved_bytes(const struct step *step) {
    size_t bytes = 0;
    for (int i = 0; i < step->chunk_count; i++) {
        const struct step_chunk *chunk = &step->chunks[i];
        size_t own = step->borrow.border > 0 ? step->borrow.border : chunk->saved_bytes;
        bytes += own * (size_t)chunk->flight_count;
        bytes += chunk->deferred_bytes * (size_t)chunk->deferred_count;
    }
    return bytes;
}

void pipeline_bind_flights(struct step *step) {
    unsigned char *memory = step->saved.base;
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        for (int f = 0; f < chunk->flight_count; f++, memory += chunk->saved_bytes) {
            arena_init(&chunk->flights[f].saved, "activations", memory, chunk->saved_bytes);
            borrow_apply(step, &chunk->flights[f].saved);
        }
        for (int d = 0; d < chunk->deferred_count; d++, memory += chunk->deferred_bytes) {
            arena_init(&chunk->deferred[d].arena, "weight gradients put off", memory, chunk->deferred_bytes);
            deferred_reserve(&chunk->deferred[d], chunk->deferred[0].capacity);
        }
    }
}
