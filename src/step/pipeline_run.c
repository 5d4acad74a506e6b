// Runs a schedule. See pipeline.h.
//
// What a micro-batch needs while it goes through a piece is called a flight: its own arenas, and what the layers keep.
// What is received is copied into the flight, because the backward needs it; what is sent is copied out of it.
#include "base/error.h"
#include "step/borrow.h"
#include "step/memory.h"
#include "step/pipeline.h"
#include "step/replay.h"
#include "step/step_inputs.h"
#include "step/update.h"

// One run through the list.
struct run {
    struct step *step;
    const struct step_source *source;  // NULL on paper
    bool is_learning;
    struct step_counts counts;  // of the micro-batches loaded so far
    int loaded;                 // how many micro-batches are loaded
    int looked[LINK_COUNT];     // how far ahead in the list messages have been announced
};

static bool is_over(enum mesh_link link, enum work work) {
    return link == LINK_FORWARD_IN ? work == WORK_FORWARD : pipeline_is_backward(work);
}

// Starts to receive the messages that the list needs next, as many as there is room for.
static void expect_messages(struct run *run, enum mesh_link link) {
    struct step *step = run->step;
    const struct schedule_list *list = pipeline_list(step);
    struct channel *channel = &step->pipeline.channels[link];
    for (int *i = &run->looked[link]; *i < list->count && channel_has_room(channel); ++*i) {
        struct schedule_item item = list->items[*i];
        if (!is_over(link, item.work) || (item.work != WORK_FORWARD && !run->is_learning))
            continue;
        int64_t count = pipeline_message(step, link, item.chunk).elements;
        if (count > 0)
            channel_expect(channel, count);
    }
}

static bool is_last(const struct run *run, const struct step_batch *batch) {
    return run->source && batch->micro_batch == run->source->count - 1;
}

// The last micro-batch carries the number of tokens and samples of the step that count on this rank.
static void set_counts(const struct run *run, const struct step_batch *batch) {
    struct step *step = run->step;
    struct tensor counts = step_input_counts(step, &batch->input, batch->block);
    if (is_last(run, batch) && counts.data)
        op_copy(step->device, &(struct op_copy){.dst = tensor_rows(step->totals, TOTAL_TOKENS, 2), .src = counts});
}

// The inputs of a micro-batch; they arrive in order.
static int obtain_batch(struct run *run, int micro_batch, struct step_batch **result) {
    struct step *step = run->step;
    struct step_pipeline *pipeline = &step->pipeline;
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
                                     .divisor = (double)run->source->count * step->mesh.length[AXIS_DATA],
                                     .counts = run->counts};
        step_upload_input(step, spare->block, &spare->input, &upload);
        run->counts = upload.counts;
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

// The flight of a micro-batch through a chunk, or a free one if it has none yet.
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
    // If the backward comes in halves, the weight gradients come later than the blocks' backward.
    bool is_halved = run->step->pipeline.schedule.shape.kind == SCHEDULE_ZERO_BUBBLE;
    pass.is_last = is_last(run, batch) && !is_halved;
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

// What the previous piece sent, kept in the flight.
static struct handover receive(struct run *run, int chunk, struct step_flight *flight) {
    struct step *step = run->step;
    struct channel *channel = &step->pipeline.channels[LINK_FORWARD_IN];
    struct message message = pipeline_message(step, LINK_FORWARD_IN, chunk);
    if (message.elements == 0)
        return (struct handover){0};
    struct handover in = pipeline_view(step, channel_take(channel), &message);
    in.x = keep(step, &flight->saved, in.x);
    in.memory = keep(step, &flight->saved, in.memory);
    channel_release(channel);
    expect_messages(run, LINK_FORWARD_IN);
    return in;
}

static void send(struct run *run, int chunk, struct handover out) {
    struct step *step = run->step;
    struct channel *channel = &step->pipeline.channels[LINK_FORWARD_OUT];
    struct message message = pipeline_message(step, LINK_FORWARD_OUT, chunk);
    if (message.elements == 0)
        return;
    struct handover to = pipeline_view(step, channel_outgoing(channel), &message);
    if (to.x.data)
        op_copy(step->device, &(struct op_copy){.dst = to.x, .src = out.x});
    if (to.memory.data)
        op_copy(step->device, &(struct op_copy){.dst = to.memory, .src = out.memory});
    channel_send(channel, message.elements);
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
    set_counts(run, batch);
    struct handover in = receive(run, item.chunk, flight);
    send(run, item.chunk, model_forward(&chunk->model, &pass, &flight->model, &batch->batch, in));
    if (run->is_learning)
        return 0;
    end_flight(flight);
    batch->is_used = item.chunk < step->chunk_count - 1;
    return 0;
}

static struct deferred *take_deferred(struct step_chunk *chunk) {
    for (int i = 0; i < chunk->deferred_count; i++)
        if (!chunk->deferred[i].is_used) {
            chunk->deferred[i].is_used = true;
            return &chunk->deferred[i];
        }
    die("more backward passes are cut in halves than the schedule has");
}

static int run_backward(struct run *run, struct schedule_item item) {
    struct step *step = run->step;
    struct step_chunk *chunk = &step->chunks[item.chunk];
    struct channel *in = &step->pipeline.channels[LINK_BACKWARD_IN];
    struct channel *out = &step->pipeline.channels[LINK_BACKWARD_OUT];
    struct message comes = pipeline_message(step, LINK_BACKWARD_IN, item.chunk);
    struct message goes = pipeline_message(step, LINK_BACKWARD_OUT, item.chunk);
    struct step_batch *batch;
    TRY(obtain_batch(run, item.micro_batch, &batch));
    struct step_flight *flight = find_flight(chunk, item.micro_batch, true);
    struct pass pass = pass_of(run, batch, flight);
    flight->deferred = item.work == WORK_BACKWARD_INPUT ? take_deferred(chunk) : NULL;
    pass.deferred = flight->deferred;
    struct model_gradients gradients = {0};
    if (comes.elements > 0)
        gradients.dout = pipeline_view(step, channel_take(in), &comes);
    if (goes.elements > 0)
        gradients.din = pipeline_view(step, channel_outgoing(out), &goes);
    model_backward(&chunk->model, &pass, &flight->model, &batch->batch, &gradients);
    if (goes.elements > 0)
        channel_send(out, goes.elements);
    if (comes.elements > 0) {
        channel_release(in);
        expect_messages(run, LINK_BACKWARD_IN);
    }
    if (item.work == WORK_BACKWARD)
        end_flight(flight);
    batch->is_used = item.chunk > 0;
    return 0;
}

// The half that was deferred.
static void run_weights(struct run *run, struct schedule_item item) {
    struct step *step = run->step;
    struct step_flight *flight = find_flight(&step->chunks[item.chunk], item.micro_batch, true);
    struct step_input input = step_largest_input(step);
    struct pass pass = step_pass(step, input.B, input.T);
    pass.is_first = item.micro_batch == 0;
    deferred_run(flight->deferred, &pass);
    end_flight(flight);
}

// A micro-batch whose backward immediately follows its forward, and its flight.
struct round {
    struct run *run;
    const struct step_batch *batch;
    struct step_flight *flight;
};

// Only queues work on the device, because it may be recorded. On a rank without peers it contains the whole step.
static void run_passes(void *context) {
    const struct round *round = context;
    const struct run *run = round->run;
    struct step *step = run->step;
    struct model *model = &step->chunks[0].model;
    struct pass forward = pass_of(run, round->batch, round->flight), backward = forward;
    if (round->batch->micro_batch == 0)
        step_begin(step, true);
    set_counts(run, round->batch);
    (void)model_forward(model, &forward, &round->flight->model, &round->batch->batch, (struct handover){0});
    model_backward(model, &backward, &round->flight->model, &round->batch->batch, &(struct model_gradients){0});
    arena_release(&round->flight->saved, 0);
    if (is_last(run, round->batch) && step_is_alone(step))
        step_update(step);
}

// If the whole model is on this rank, forward and backward are one piece of work that may be replayed.
static int run_round(struct run *run, int micro_batch) {
    struct step *step = run->step;
    struct step_batch *batch;
    TRY(obtain_batch(run, micro_batch, &batch));
    struct round round = {run, batch, find_flight(&step->chunks[0], micro_batch, false)};
    replay_run(step, &(struct replay_pass){.batch = batch,
                                           .is_first = micro_batch == 0,
                                           .is_last = is_last(run, batch),
                                           .run = run_passes,
                                           .context = &round});
    batch->is_used = false;
    return 0;
}

static int run_item(struct run *run, struct schedule_item item) {
    if (item.work == WORK_FORWARD)
        return run_forward(run, item);
    if (!run->is_learning)
        return 0;
    if (item.work != WORK_BACKWARD_WEIGHT)
        return run_backward(run, item);
    run_weights(run, item);
    return 0;
}

int step_run_pipeline(struct step *step, const struct step_source *source, bool is_learning) {
    struct run run = {.step = step, .source = source, .is_learning = is_learning};
    struct channel *channels = step->pipeline.channels;
    TRY(pipeline_schedule(step, source->count));
    expect_messages(&run, LINK_FORWARD_IN);
    expect_messages(&run, LINK_BACKWARD_IN);
    const struct schedule_list *list = pipeline_list(step);
    bool is_whole = is_learning && step->mesh.length[AXIS_PIPELINE] == 1 && step->chunk_count == 1;
    if (!is_whole)
        step_begin(step, is_learning);
    for (int i = 0; is_whole && i < source->count; i++)
        TRY(run_round(&run, i));
    for (int i = 0; !is_whole && i < list->count; i++)
        TRY(run_item(&run, list->items[i]));
    channel_flush(&channels[LINK_FORWARD_OUT]);
    channel_flush(&channels[LINK_BACKWARD_OUT]);
    return 0;
}

// One micro-batch through a chunk, with all the messages it needs already there.
static void measure_chunk(struct step *step, int chunk, bool is_learning) {
    struct run run = {.step = step, .is_learning = is_learning};
    run.looked[LINK_FORWARD_IN] = run.looked[LINK_BACKWARD_IN] = pipeline_list(step)->count;
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
    const struct arena *saved = &step->chunks[chunk].flights[0].saved;
    size_t forward_peak = saved->peak;
    bool has_halves = step->pipeline.schedule.shape.kind == SCHEDULE_ZERO_BUBBLE;
    enum work work = has_halves ? WORK_BACKWARD_INPUT : WORK_BACKWARD;
    (void)run_item(&run, (struct schedule_item){.work = work, .chunk = chunk});
    if (has_halves)
        (void)run_item(&run, (struct schedule_item){.work = WORK_BACKWARD_WEIGHT, .chunk = chunk});
    step->chunks[chunk].grows_backward |= saved->peak > forward_peak;
}

// Returns what could be borrowed, as in the training pass.
static struct step_borrow measure_all(struct step *step) {
    struct step_borrow borrow = {0};
    for (int i = 0; i < step->chunk_count; i++) {
        struct step_chunk *chunk = &step->chunks[i];
        struct arena *saved = &chunk->flights[0].saved;
        size_t half = step->saved.capacity / 2;
        arena_init(saved, step->saved.name, step->saved.base, half);
        borrow_apply(step, saved);
        if (chunk->deferred_count > 0)
            arena_init(&chunk->deferred[0].arena, step->saved.name, step->saved.base + half, half);
        measure_chunk(step, i, step->mode == STEP_TRAIN);
        chunk->saved_bytes = saved->peak;
        borrow = borrow_find(step);
        // An evaluation between steps may need more memory than a step: it has no products in 8 bits.
        measure_chunk(step, i, false);
        chunk->saved_bytes = saved->peak;
        if (chunk->deferred_count > 0)
            chunk->deferred_bytes = chunk->deferred[0].arena.peak;
    }
    return borrow;
}

void pipeline_measure(struct step *step) {
    step->borrow = measure_all(step);
    if (step->borrow.border == 0)
        return;
    (void)measure_all(step);
    if (borrow_fits(step))
        return;
    step->borrow = (struct step_borrow){0};
    (void)measure_all(step);
}
