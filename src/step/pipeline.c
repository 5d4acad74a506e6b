// The runner. See pipeline.h.
//
// What a micro-batch needs on its way through a piece is a flight: its own arena, and what the layers keep. What is
// received is copied into the flight, because the backward needs it; what is sent is copied out of it.
#include "step/pipeline.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "step/memory.h"

#include <stdlib.h>
#include <string.h>

static enum schedule_kind schedule_kind(const struct config *config) {
    if (config->pipeline_schedule && strcmp(config->pipeline_schedule, "zero-bubble") == 0)
        return SCHEDULE_ZERO_BUBBLE;
    return config_chunks(config) > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
}

// The schedule of so many micro-batches; kept while their number stays the same.
static int set_schedule(struct step *step, int64_t micro_batches) {
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

static const struct schedule_list *own_list(const struct step *step) {
    return &step->pipeline.schedule.stages[step->mesh.place[AXIS_PIPELINE]];
}

static int64_t piece_count(const struct step *step) {
    return (int64_t)step->mesh.length[AXIS_PIPELINE] * step->chunk_count;
}

static int64_t piece_of(const struct step *step, int chunk) {
    return (int64_t)chunk * step->mesh.length[AXIS_PIPELINE] + step->mesh.place[AXIS_PIPELINE];
}

// The work after which nothing of a micro-batch stays in its chunk.
static bool is_last_work(const struct schedule *schedule, enum work work) {
    return work == (schedule->shape.kind == SCHEDULE_ZERO_BUBBLE ? WORK_BACKWARD_WEIGHT : WORK_BACKWARD);
}

// The work after which a micro-batch's inputs are no longer needed in its chunk.
static bool is_backward(enum work work) {
    return work == WORK_BACKWARD || work == WORK_BACKWARD_INPUT;
}

// How many flights of a chunk, and how many micro-batches, the list has on their way at most.
static int most_flights(const struct step *step, int chunk) {
    const struct schedule_list *list = own_list(step);
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

static int most_batches(const struct step *step) {
    const struct schedule_list *list = own_list(step);
    int held = 0, most = 1;
    for (int i = 0; i < list->count; i++) {
        struct schedule_item item = list->items[i];
        held += item.work == WORK_FORWARD && item.chunk == 0;
        most = held > most ? held : most;
        if (step->mode == STEP_TRAIN)
            held -= is_backward(item.work) && item.chunk == 0;
        else
            held -= item.work == WORK_FORWARD && item.chunk == step->chunk_count - 1;
    }
    return most;
}

int pipeline_open(struct step *step) {
    const struct config *config = step->config;
    step->chunk_count = (int)config_chunks(config);
    step->chunks = memory_alloc(sizeof *step->chunks * (size_t)step->chunk_count);
    int64_t unit = config->micro_batch_size * step->mesh.length[AXIS_DATA];
    int64_t micro_batches = step->mode == STEP_TRAIN ? config->global_batch_size / unit : 1;
    TRY(set_schedule(step, micro_batches > 0 ? micro_batches : 1));
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        model_build(&chunk->model, &step->params,
                    &(struct model_options){
                        .config = config, .mesh = &step->mesh, .piece = config_piece(config, piece_of(step, i))});
        chunk->flight_count = most_flights(step, i);
        chunk->flights = memory_alloc(sizeof *chunk->flights * (size_t)chunk->flight_count);
        for (int f = 0; f < chunk->flight_count; f++)
            model_flight_open(&chunk->flights[f].model, &chunk->model);
    }
    step->pipeline.batch_count = most_batches(step);
    step->pipeline.batches = memory_alloc(sizeof *step->pipeline.batches * (size_t)step->pipeline.batch_count);
    shared_open(step);
    return 0;
}

void pipeline_close(struct step *step) {
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        for (int f = 0; f < chunk->flight_count; f++)
            model_flight_close(&chunk->flights[f].model);
        free(chunk->flights);
        model_free(&chunk->model);
    }
    free(step->chunks);
    free(step->pipeline.batches);
    schedule_free(&step->pipeline.schedule);
    shared_close(step);
}

// Rows of what goes from the piece before into this one, and of its gradient.
struct rows {
    int64_t x, memory;
};

static struct rows rows_into(struct step *step, int64_t piece) {
    const struct config *config = step->config;
    if (piece <= 0 || piece >= piece_count(step))
        return (struct rows){0};
    struct step_input input = step_largest_input(step);
    struct pass first = step_pass(step, input.B, input.T), second = step_pass(step, input.B, input.S);
    int64_t first_decoder = config_split_stage(config) * step->chunk_count;
    if (config_form(config) != CONFIG_T5 || piece < first_decoder)
        return (struct rows){.x = pass_stream_rows(&first)};
    return (struct rows){.x = piece > first_decoder ? pass_stream_rows(&second) : 0,
                         .memory = pass_stream_rows(&first)};
}

static int64_t elements_of(const struct step *step, struct rows rows) {
    return (rows.x + rows.memory) * step->config->hidden_size;
}

// A message as the tensors it is made of, one after the other.
static struct handover view(const struct step *step, struct tensor buffer, struct rows rows) {
    int64_t C = step->config->hidden_size;
    unsigned char *data = buffer.data;
    struct handover stream = {0};
    if (rows.x > 0)
        stream.x = tensor_2d(data, step->dtype, rows.x, C);
    if (rows.memory > 0)
        stream.memory = tensor_2d(data + (size_t)(rows.x * C) * dtype_bytes(step->dtype), step->dtype, rows.memory, C);
    return stream;
}

// The piece that the message of an item over this link goes into, or whose input's gradient it is.
static int64_t piece_over(const struct step *step, enum mesh_link link, int chunk) {
    return piece_of(step, chunk) + (link == LINK_FORWARD_OUT || link == LINK_BACKWARD_IN);
}

void pipeline_lay_out(struct step *step, struct arena *arena) {
    static const char *const names[LINK_COUNT] = {"activations", "activations", "activation gradients",
                                                  "activation gradients"};
    struct pipeline *pipeline = &step->pipeline;
    struct step_input largest = step_largest_input(step);
    for (int i = 0; i < pipeline->batch_count; i++)
        pipeline->batches[i] =
            (struct step_batch){.block = arena_1d(arena, DTYPE_U8, (int64_t)step_input_bytes(step, &largest))};
    for (int link = 0; link < LINK_COUNT; link++) {
        struct channel *channel = &pipeline->channels[link];
        int64_t most = 0;
        bool is_used = step->mode == STEP_TRAIN || link == LINK_FORWARD_IN || link == LINK_FORWARD_OUT;
        for (int chunk = 0; is_used && chunk < step->chunk_count; chunk++) {
            int64_t elements = elements_of(step, rows_into(step, piece_over(step, (enum mesh_link)link, chunk)));
            most = elements > most ? elements : most;
        }
        *channel = (struct channel){.group = step->mesh.links[link], .name = names[link]};
        channel_lay_out(channel, arena, step->dtype, most);
    }
}

// One run through the list.
struct run {
    struct step *step;
    const struct step_source *source;  // NULL on paper
    bool is_learning;
    struct step_counts counts;
    int loaded;              // micro-batches so far
    int looked[LINK_COUNT];  // how far in the list messages have been looked for
};

static bool is_over(enum mesh_link link, enum work work) {
    return link == LINK_FORWARD_IN ? work == WORK_FORWARD : is_backward(work);
}

// Lets the messages that the list needs next come in, as many as there is room for.
static void expect_messages(struct run *run, enum mesh_link link) {
    struct step *step = run->step;
    const struct schedule_list *list = own_list(step);
    struct channel *channel = &step->pipeline.channels[link];
    for (int *i = &run->looked[link]; *i < list->count && channel_has_room(channel); ++*i) {
        struct schedule_item item = list->items[*i];
        if (!is_over(link, item.work) || (item.work != WORK_FORWARD && !run->is_learning))
            continue;
        int64_t count = elements_of(step, rows_into(step, piece_over(step, link, item.chunk)));
        if (count > 0)
            channel_expect(channel, count);
    }
}

// The inputs of a micro-batch, which come in order.
static int obtain_batch(struct run *run, int micro_batch, struct step_batch **result) {
    struct step *step = run->step;
    struct pipeline *pipeline = &step->pipeline;
    struct step_batch *spare = NULL;
    for (int i = 0; i < pipeline->batch_count; i++) {
        *result = &pipeline->batches[i];
        if ((*result)->is_used && (*result)->micro_batch == micro_batch)
            return 0;
        spare = (*result)->is_used ? spare : *result;
    }
    CHECK(spare && micro_batch == run->loaded++);
    *result = spare;
    spare->input = step_largest_input(step);
    if (run->source) {
        TRY(run->source->next(run->source->context, &spare->input));
        struct step_upload upload = {.has_weights = run->is_learning,
                                     .divisor = (double)run->source->count * step->mesh.length[AXIS_DATA]};
        struct step_counts own = step_upload_input(step, spare->block, &spare->input, &upload);
        run->counts.tokens += own.tokens;
        run->counts.pairs += own.pairs;
    }
    spare->batch = step_input_tensors(step, &spare->input, spare->block);
    if (!run->is_learning)
        spare->batch.targets.weights = spare->batch.pair.weights = (struct tensor){0};
    scaler_scale_loss(&step->adam.scaler, step->device, spare->batch.targets.weights);
    scaler_scale_loss(&step->adam.scaler, step->device, spare->batch.pair.weights);
    spare->micro_batch = micro_batch;
    spare->is_used = true;
    return 0;
}

// The flight of a micro-batch through a chunk, or a free one where it has none yet.
static struct step_flight *find_flight(struct step_chunk *chunk, int micro_batch, bool is_used) {
    for (int i = 0; i < chunk->flight_count; i++) {
        struct step_flight *flight = &chunk->flights[i];
        if (flight->is_used == is_used && (!is_used || flight->micro_batch == micro_batch))
            return flight;
    }
    die("no flight for micro-batch %d", micro_batch);
}

static void end_flight(struct step_flight *flight) {
    arena_release(&flight->saved, 0);
    flight->is_used = false;
}

static struct pass pass_of(const struct run *run, const struct step_batch *batch, struct step_flight *flight) {
    struct pass pass = step_pass(run->step, batch->input.B, batch->input.T);
    pass.saved = &flight->saved;
    pass.is_training = run->is_learning;
    pass.is_first = batch->micro_batch == 0;
    // In halves of a backward, gradients of weights come later than the blocks' backward.
    bool is_halved = run->step->pipeline.schedule.shape.kind == SCHEDULE_ZERO_BUBBLE;
    pass.is_last = run->source && batch->micro_batch == run->source->count - 1 && !is_halved;
    pass.reducer = run->source ? &run->step->reducer : NULL;
    return pass;
}

static struct tensor keep(const struct step *step, struct arena *arena, struct tensor x) {
    if (!x.data)
        return x;
    struct tensor kept = arena_2d(arena, x.dtype, x.shape[0], x.shape[1]);
    op_copy(step->device, &(struct op_copy){.dst = kept, .src = x});
    return kept;
}

// What the piece before sent, kept in the flight.
static struct handover receive(struct run *run, int chunk, struct step_flight *flight) {
    struct step *step = run->step;
    struct channel *channel = &step->pipeline.channels[LINK_FORWARD_IN];
    struct rows rows = rows_into(step, piece_over(step, LINK_FORWARD_IN, chunk));
    if (elements_of(step, rows) == 0)
        return (struct handover){0};
    struct handover in = view(step, channel_take(channel), rows);
    in.x = keep(step, &flight->saved, in.x);
    in.memory = keep(step, &flight->saved, in.memory);
    channel_release(channel);
    expect_messages(run, LINK_FORWARD_IN);
    return in;
}

static void send(struct run *run, int chunk, struct handover out) {
    struct step *step = run->step;
    struct channel *channel = &step->pipeline.channels[LINK_FORWARD_OUT];
    struct rows rows = rows_into(step, piece_over(step, LINK_FORWARD_OUT, chunk));
    if (elements_of(step, rows) == 0)
        return;
    struct handover message = view(step, channel_outgoing(channel), rows);
    if (message.x.data)
        op_copy(step->device, &(struct op_copy){.dst = message.x, .src = out.x});
    if (message.memory.data)
        op_copy(step->device, &(struct op_copy){.dst = message.memory, .src = out.memory});
    channel_send(channel, elements_of(step, rows));
}

static int run_forward(struct run *run, struct schedule_item item) {
    struct step *step = run->step;
    struct step_chunk *chunk = &step->chunks[item.chunk];
    struct step_batch *batch;
    TRY(obtain_batch(run, item.micro_batch, &batch));
    struct step_flight *flight = find_flight(chunk, item.micro_batch, false);
    flight->micro_batch = item.micro_batch;
    flight->is_used = true;
    struct pass pass = pass_of(run, batch, flight);
    struct handover in = receive(run, item.chunk, flight);
    send(run, item.chunk, model_forward(&chunk->model, &pass, &flight->model, &batch->batch, in));
    if (run->is_learning)
        return 0;
    end_flight(flight);
    batch->is_used = item.chunk < step->chunk_count - 1;
    return 0;
}

static int run_backward(struct run *run, struct schedule_item item) {
    struct step *step = run->step;
    struct step_chunk *chunk = &step->chunks[item.chunk];
    struct channel *in = &step->pipeline.channels[LINK_BACKWARD_IN];
    struct channel *out = &step->pipeline.channels[LINK_BACKWARD_OUT];
    struct rows rows_in = rows_into(step, piece_over(step, LINK_BACKWARD_IN, item.chunk));
    struct rows rows_out = rows_into(step, piece_over(step, LINK_BACKWARD_OUT, item.chunk));
    struct step_batch *batch;
    TRY(obtain_batch(run, item.micro_batch, &batch));
    struct step_flight *flight = find_flight(chunk, item.micro_batch, true);
    struct pass pass = pass_of(run, batch, flight);
    struct model_gradients gradients = {0};
    if (elements_of(step, rows_in) > 0)
        gradients.dout = view(step, channel_take(in), rows_in);
    if (elements_of(step, rows_out) > 0)
        gradients.din = view(step, channel_outgoing(out), rows_out);
    model_backward(&chunk->model, &pass, &flight->model, &batch->batch, &gradients);
    if (elements_of(step, rows_out) > 0)
        channel_send(out, elements_of(step, rows_out));
    if (elements_of(step, rows_in) > 0) {
        channel_release(in);
        expect_messages(run, LINK_BACKWARD_IN);
    }
    end_flight(flight);
    batch->is_used = item.chunk > 0;
    return 0;
}

static int run_item(struct run *run, struct schedule_item item) {
    if (item.work == WORK_FORWARD)
        return run_forward(run, item);
    return run->is_learning ? run_backward(run, item) : 0;
}

int step_run_pipeline(struct step *step, const struct step_source *source, bool is_learning,
                      struct step_counts *counts) {
    struct run run = {.step = step, .source = source, .is_learning = is_learning};
    struct channel *channels = step->pipeline.channels;
    TRY(set_schedule(step, source->count));
    expect_messages(&run, LINK_FORWARD_IN);
    expect_messages(&run, LINK_BACKWARD_IN);
    const struct schedule_list *list = own_list(step);
    for (int i = 0; i < list->count; i++)
        TRY(run_item(&run, list->items[i]));
    channel_flush(&channels[LINK_FORWARD_OUT]);
    channel_flush(&channels[LINK_BACKWARD_OUT]);
    *counts = run.counts;
    return 0;
}

// One micro-batch through a chunk, with all the messages it needs there already.
static void measure_chunk(struct step *step, int chunk, bool is_learning) {
    struct run run = {.step = step, .is_learning = is_learning};
    run.looked[LINK_FORWARD_IN] = run.looked[LINK_BACKWARD_IN] = own_list(step)->count;
    for (int link = 0; link < LINK_COUNT; link++) {
        struct channel *channel = &step->pipeline.channels[link];
        channel->group = NULL;
        channel->started = channel->finished = 0;
        if (channel->buffers[0].data && (link == LINK_FORWARD_IN || link == LINK_BACKWARD_IN))
            channel_expect(channel, 0);
    }
    for (int i = 0; i < step->pipeline.batch_count; i++)
        step->pipeline.batches[i].is_used = false;
    (void)run_item(&run, (struct schedule_item){.work = WORK_FORWARD, .chunk = chunk});
    (void)run_item(&run, (struct schedule_item){.work = WORK_BACKWARD, .chunk = chunk});
}

void pipeline_measure(struct step *step) {
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_flight *flight = &step->chunks[i].flights[0];
        flight->saved = step->saved;
        measure_chunk(step, i, step->mode == STEP_TRAIN);
        // An evaluation between steps may need more than a step: it has no products in 8 bits.
        measure_chunk(step, i, false);
        step->chunks[i].flight_bytes = flight->saved.peak;
    }
}

size_t pipeline_saved_bytes(const struct step *step) {
    size_t bytes = 0;
    for (int i = 0; i < step->chunk_count; i++)
        bytes += step->chunks[i].flight_bytes * (size_t)step->chunks[i].flight_count;
    return bytes;
}

void pipeline_bind_flights(struct step *step) {
    unsigned char *memory = step->saved.base;
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        for (int f = 0; f < chunk->flight_count; f++, memory += chunk->flight_bytes)
            arena_init(&chunk->flights[f].saved, "activations", memory, chunk->flight_bytes);
    }
}
