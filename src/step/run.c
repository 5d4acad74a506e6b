// Runs the list of a step, for any schedule. See pipeline.h, and parallel/schedule.h for the lists.
//
// A flight is the state of a micro-batch in a chunk: its own arenas, and the layers' saved activations. Received
// messages are copied into the flight, because the backward needs them; sent messages are copied out of it.
#include "base/clock.h"
#include "base/coroutine.h"
#include "base/error.h"
#include "base/fault.h"
#include "step/internal.h"
#include "step/pipeline.h"
#include "step/spans.h"

// One run through the list.
struct list_run {
    struct step *step;
    const struct schedule *schedule;
    const struct schedule_list *list;
    const struct step_source *source;
    const struct pace *paces;  // NULL for an evaluation
    bool is_learning;
    struct step_counts counts;  // of the micro-batches loaded so far
    int looked[LINK_COUNT];     // positions in the list up to which messages have been announced
};

static bool is_over(enum mesh_link link, enum work work) {
    return link == LINK_FORWARD_IN ? work == WORK_FORWARD : work_is_backward(work);
}

// Starts to receive the messages that the list needs next, as many as there is room for.
static void expect_messages(struct list_run *run, enum mesh_link link) {
    struct step *step = run->step;
    const struct schedule_list *list = run->list;
    struct channel *channel = &step->pipeline.channels[link];
    for (int *i = &run->looked[link]; *i < list->count && channel_has_room(channel); ++*i) {
        struct schedule_item item = list->items[*i];
        if (!is_over(link, item.work))
            continue;
        int64_t count = pipeline_message(step, link, item.chunk).elements;
        if (count > 0)
            channel_expect(channel, count);
    }
}

static bool is_last(const struct list_run *run, const struct step_batch *batch) {
    return batch->micro_batch == run->schedule->shape.micro_batches - 1;
}

// Stores in the last micro-batch the numbers of tokens and samples of the step that count on this rank.
static void set_counts(const struct list_run *run, const struct step_batch *batch) {
    struct step *step = run->step;
    struct tensor counts = tensor_rows(step->totals, step->total_first[TOTAL_TOKENS], COUNT_SHARE);
    if (is_last(run, batch) && batch->batch.counts.data)
        op_copy(step->device,
                &(struct op_copy){.dst = counts, .src = tensor_rows(batch->batch.counts, 0, COUNT_SHARE)});
}

// The block of a micro-batch, or a free one if it has none yet.
static struct step_batch *find_batch(struct step *step, int micro_batch, bool is_used) {
    for (int i = 0; i < step->pipeline.batch_count; i++) {
        struct step_batch *batch = &step->pipeline.batches[i];
        if (batch->is_used == is_used && (!is_used || batch->micro_batch == micro_batch))
            return batch;
    }
    die("no inputs of micro-batch %d", micro_batch);
}

// A loader reads ahead, so this takes time only if it is too slow.
static int take_batch(struct list_run *run, struct batch *batch) {
    struct step_span span = span_begin(run->step, "await a micro-batch");
    double started = clock_seconds();
    if (run->is_learning)
        (void)fault_at(FAULT_AT_DATA);
    int status = run->source->next(run->source->context, batch);
    if (run->is_learning)
        run->step->data_seconds += clock_seconds() - started;
    span_end_part(run->step, span, STEP_TAG_DATA);
    return status;
}

static int load_batch(struct list_run *run, int micro_batch) {
    struct step *step = run->step;
    struct step_batch *spare = find_batch(step, micro_batch, false);
    struct batch batch;
    TRY(take_batch(run, &batch));
    spare->form = batch_form(&batch);
    struct step_upload upload = {.has_weights = run->is_learning,
                                 .divisor = (double)run->source->count * mesh_count(&step->mesh, MESH_SAMPLES),
                                 .positions = step_positions(step),
                                 .counts = run->counts};
    step_upload_batch(step, spare->block, &batch, &upload);
    run->counts = upload.counts;
    spare->batch = step_device_batch(step, &spare->form, spare->block);
    if (!run->is_learning)
        spare->batch.loss_weights = spare->batch.pair_weights = spare->batch.depth_weights = (struct tensor){0};
    scaler_scale_loss(&step->updates.scaler, step->device, spare->batch.loss_weights);
    scaler_scale_loss(&step->updates.scaler, step->device, spare->batch.pair_weights);
    scaler_scale_loss(&step->updates.scaler, step->device, spare->batch.depth_weights);
    if (run->is_learning && step_balances(step) > 0)
        scaler_scale_loss(&step->updates.scaler, step->device, spare->batch.balance_share);
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

static void end_flight(struct step *step, struct step_flight *flight) {
    arena_release(&flight->activations, 0);
    arena_release(&step->input_offload.arena, 0);
    flight->is_used = false;
}

static struct pass pass_of(const struct list_run *run, const struct step_batch *batch, struct step_flight *flight) {
    struct pass pass = step_pass(run->step, batch->form.B, batch->form.T);
    pass.activations = &flight->activations;
    pass.is_training = run->is_learning;
    pass.is_first = batch->micro_batch == 0;
    // If the backward comes in halves, the weight gradients come later than the blocks' backward.
    bool is_halved = run->schedule->shape.kind == SCHEDULE_ZERO_BUBBLE;
    pass.is_last = is_last(run, batch) && !is_halved;
    pass.reducer = &run->step->reducer;
    return pass;
}

static struct tensor keep(const struct step *step, struct arena *arena, struct tensor x) {
    if (!x.data)
        return x;
    struct tensor kept = arena_2d(arena, x.dtype, x.shape[0], x.shape[1]);
    op_copy(step->device, &(struct op_copy){.dst = kept, .src = x});
    return kept;
}

// Receives the previous chunk's message into the flight.
static struct handover receive(struct list_run *run, struct schedule_item item, struct step_flight *flight) {
    struct step *step = run->step;
    struct channel *channel = &step->pipeline.channels[LINK_FORWARD_IN];
    struct message message = pipeline_message(step, LINK_FORWARD_IN, item.chunk);
    if (message.elements == 0)
        return (struct handover){0};
    struct step_span span = span_begin(step, "receive activations");
    struct tensor arrived = channel_take(channel);
    span_end_part(step, span, item.is_paired ? STEP_TAG_PAIR_RECEIVE : STEP_TAG_FORWARD_RECEIVE);
    struct handover in = pipeline_view(step, arrived, &message);
    in.x = keep(step, &flight->activations, in.x);
    in.memory = keep(step, &flight->activations, in.memory);
    channel_release(channel);
    expect_messages(run, LINK_FORWARD_IN);
    return in;
}

static void send(struct list_run *run, struct schedule_item item, struct handover out) {
    struct step *step = run->step;
    struct channel *channel = &step->pipeline.channels[LINK_FORWARD_OUT];
    struct message message = pipeline_message(step, LINK_FORWARD_OUT, item.chunk);
    if (message.elements == 0)
        return;
    struct step_span span = span_begin(step, "send activations");
    struct handover to = pipeline_view(step, channel_outgoing(channel), &message);
    if (to.x.data)
        op_copy(step->device, &(struct op_copy){.dst = to.x, .src = out.x});
    if (to.memory.data)
        op_copy(step->device, &(struct op_copy){.dst = to.memory, .src = out.memory});
    channel_send(channel, message.elements);
    span_end_part(step, span, item.is_paired ? STEP_TAG_PAIR_SEND : STEP_TAG_FORWARD_SEND);
}

// A pass of a micro-batch through a chunk, from what it receives to what it sends.
struct list_pass {
    struct list_run *run;
    struct schedule_item item;
    struct step_chunk *chunk;
    struct step_batch *batch;
    struct step_flight *flight;
    struct pass pass;
    struct handover in, out;           // of a forward
    struct model_gradients gradients;  // of a backward
};

// A forward that may overlap with a backward has separate scratch memory.
static struct list_pass begin_forward(struct list_run *run, struct schedule_item item) {
    struct step *step = run->step;
    struct step_chunk *chunk = &step->chunks[item.chunk];
    struct list_pass forward = {.run = run,
                                .item = item,
                                .chunk = chunk,
                                .batch = find_batch(step, item.micro_batch, true),
                                .flight = find_flight(chunk, item.micro_batch, false)};
    forward.flight->micro_batch = item.micro_batch;
    forward.flight->is_used = true;
    forward.pass = pass_of(run, forward.batch, forward.flight);
    if (step->coroutine)
        forward.pass.scratch = &step->beside;
    set_counts(run, forward.batch);
    forward.in = receive(run, item, forward.flight);
    return forward;
}

static void compute_forward(void *context) {
    struct list_pass *forward = context;
    forward->out = model_forward(&forward->chunk->model, &forward->pass, &forward->flight->model,
                                 &forward->batch->batch, forward->in);
}

static void end_forward(const struct list_pass *forward) {
    send(forward->run, forward->item, forward->out);
    if (!forward->run->is_learning)
        end_flight(forward->run->step, forward->flight);
}

static void run_forward(struct list_run *run, struct schedule_item item) {
    struct list_pass forward = begin_forward(run, item);
    compute_forward(&forward);
    end_forward(&forward);
}

static struct deferred *take_deferred(struct step_chunk *chunk) {
    for (int i = 0; i < chunk->deferred_count; i++)
        if (!chunk->deferred[i].is_used) {
            chunk->deferred[i].is_used = true;
            return &chunk->deferred[i];
        }
    die("more backward passes are cut in halves than the schedule has");
}

static struct tensor await_gradients(const struct step *step, struct channel *in) {
    struct step_span span = span_begin(step, "receive gradients");
    struct tensor arrived = channel_take(in);
    span_end_part(step, span, STEP_TAG_BACKWARD_RECEIVE);
    return arrived;
}

static void send_gradients(const struct step *step, struct channel *out, int64_t elements) {
    struct step_span span = span_begin(step, "send gradients");
    channel_send(out, elements);
    span_end_part(step, span, STEP_TAG_BACKWARD_SEND);
}

static struct list_pass begin_backward(struct list_run *run, struct schedule_item item) {
    struct step *step = run->step;
    struct step_chunk *chunk = &step->chunks[item.chunk];
    struct message comes = pipeline_message(step, LINK_BACKWARD_IN, item.chunk);
    struct message goes = pipeline_message(step, LINK_BACKWARD_OUT, item.chunk);
    struct list_pass backward = {.run = run,
                                 .item = item,
                                 .chunk = chunk,
                                 .batch = find_batch(step, item.micro_batch, true),
                                 .flight = find_flight(chunk, item.micro_batch, true)};
    backward.pass = pass_of(run, backward.batch, backward.flight);
    backward.flight->deferred = item.work == WORK_BACKWARD_INPUT ? take_deferred(chunk) : NULL;
    backward.pass.deferred = backward.flight->deferred;
    if (comes.elements > 0)
        backward.gradients.dout =
            pipeline_view(step, await_gradients(step, &step->pipeline.channels[LINK_BACKWARD_IN]), &comes);
    if (goes.elements > 0)
        backward.gradients.din =
            pipeline_view(step, channel_outgoing(&step->pipeline.channels[LINK_BACKWARD_OUT]), &goes);
    return backward;
}

static void compute_backward(void *context) {
    struct list_pass *backward = context;
    struct step_flight *flight = backward->flight;
    size_t forward_peak = flight->activations.peak;
    if (backward->pass.coroutine)
        span_enter_second();
    model_backward(&backward->chunk->model, &backward->pass, &flight->model, &backward->batch->batch,
                   &backward->gradients);
    backward->chunk->grows_backward |= flight->activations.peak > forward_peak;
}

static void end_backward(const struct list_pass *backward) {
    struct step *step = backward->run->step;
    int chunk = backward->item.chunk;
    int64_t goes = pipeline_message(step, LINK_BACKWARD_OUT, chunk).elements;
    if (goes > 0)
        send_gradients(step, &step->pipeline.channels[LINK_BACKWARD_OUT], goes);
    if (pipeline_message(step, LINK_BACKWARD_IN, chunk).elements > 0) {
        channel_release(&step->pipeline.channels[LINK_BACKWARD_IN]);
        expect_messages(backward->run, LINK_BACKWARD_IN);
    }
    if (backward->item.work == WORK_BACKWARD)
        end_flight(step, backward->flight);
}

static void run_backward(struct list_run *run, struct schedule_item item) {
    struct list_pass backward = begin_backward(run, item);
    compute_backward(&backward);
    end_backward(&backward);
}

// Runs a forward overlapped with the next backward: while rows of one are sent to experts of other ranks, the other
// computes. Returns the number of the next item.
static int run_pair(struct list_run *run, int first) {
    struct step *step = run->step;
    struct step_span span = span_begin_pair(step);
    struct list_pass forward = begin_forward(run, run->list->items[first]);
    struct list_pass backward = begin_backward(run, run->list->items[first + 1]);
    forward.pass.coroutine = backward.pass.coroutine = step->coroutine;
    coroutine_run(step->coroutine, (struct coroutine_task){compute_forward, &forward},
                  (struct coroutine_task){compute_backward, &backward});
    end_forward(&forward);
    end_backward(&backward);
    span_end_pair(step, span, backward.item);
    return first + 2;
}

// Runs the deferred half of a backward.
static void run_weights(struct list_run *run, struct schedule_item item) {
    struct step *step = run->step;
    struct step_flight *flight = find_flight(&step->chunks[item.chunk], item.micro_batch, true);
    struct batch_form form = step->options.largest;
    struct pass pass = step_pass(step, form.B, form.T);
    pass.is_first = item.micro_batch == 0;
    deferred_run(flight->deferred, &pass);
    end_flight(run->step, flight);
}

// fp8 weights are made from the parameters before the first pass.
static void prepare(struct list_run *run) {
    results_send_rates(run->step, run->paces);
    if (run->schedule->shape.has_ranges)
        step_settle(run->step);
}

static void flush_messages(struct step *step) {
    channel_flush(&step->pipeline.channels[LINK_FORWARD_OUT]);
    channel_flush(&step->pipeline.channels[LINK_BACKWARD_OUT]);
}

static void report(struct list_run *run) {
    if (run->is_learning)
        updates_count(&run->step->updates);
    results_queue(run->step, run->is_learning, run->source->count * mesh_count(&run->step->mesh, MESH_SAMPLES));
}

// Returns -1 only if inputs cannot be loaded.
static int do_item(struct list_run *run, struct schedule_item item) {
    struct step *step = run->step;
    switch (item.work) {
    case WORK_PREPARE:
        prepare(run);
        break;
    case WORK_LOAD:
        return load_batch(run, item.micro_batch);
    case WORK_BEGIN:
        step_begin(step, run->is_learning);
        break;
    case WORK_FORWARD:
        run_forward(run, item);
        break;
    case WORK_BACKWARD:
    case WORK_BACKWARD_INPUT:
        run_backward(run, item);
        break;
    case WORK_BACKWARD_WEIGHT:
        run_weights(run, item);
        break;
    case WORK_REDUCE:
        flush_messages(step);
        step_reduce_gradients(step);
        break;
    case WORK_TOTALS:
        flush_messages(step);
        step_sum_totals(step);
        if (run->is_learning)
            step_balance_experts(step);
        break;
    case WORK_CLIP:
        step_clip(step);
        break;
    case WORK_UPDATE:
        step_update(step, item.bucket);
        break;
    case WORK_GATHER:
        reducer_gather(&step->reducer, item.bucket);
        break;
    case WORK_RANGES:
        for (int i = 0; i < step->chunk_count; i++)
            fp8_end_step(&step->chunks[i].model.fp8, step->device, &step->mesh);
        break;
    case WORK_REPORT:
        report(run);
        break;
    case WORK_COUNT:
        break;
    }
    return 0;
}

static int run_item(struct list_run *run, struct schedule_item item) {
    struct step_span span = span_begin_item(run->step, item);
    int status = do_item(run, item);
    span_end_item(run->step, span, item);
    return status;
}

// Items [first, end) of the list.
struct list_range {
    struct list_run *run;
    int first, end;
};

// Only queues work on the device, because it may be recorded.
static void run_range(void *context) {
    const struct list_range *range = context;
    for (int i = range->first; i < range->end; i++)
        (void)run_item(range->run, range->run->list->items[i]);
}

// Runs or replays a range, which has the passes of one micro-batch.
static void replay_passes(struct list_range *range) {
    struct list_run *run = range->run;
    const struct step_batch *batch = find_batch(run->step, run->list->items[range->first].micro_batch, true);
    replay_run(run->step, &(struct replay_range){.batch = batch,
                                                 .is_first = batch->micro_batch == 0,
                                                 .is_last = is_last(run, batch),
                                                 .run = run_range,
                                                 .context = range});
}

static void end_batch(struct list_run *run, struct schedule_item item) {
    if (schedule_ends_batch(&run->schedule->shape, item))
        find_batch(run->step, item.micro_batch, true)->is_used = false;
}

static int begin_run(struct list_run *run, const struct step_source *source) {
    run->source = source;
    run->schedule = pipeline_schedule(run->step, source->count, run->is_learning);
    if (!run->schedule)
        return -1;
    run->list = pipeline_list(run->step, run->schedule);
    expect_messages(run, LINK_FORWARD_IN);
    expect_messages(run, LINK_BACKWARD_IN);
    return 0;
}

// Digest of the gradients as computed by this rank. Uses the memory of the rates, which are sent later.
static int64_t digest_gradients(struct step *step) {
    int64_t digest = 0;
    struct tensor sum = tensor_1d(step->updates.rate.data, DTYPE_I64, 1);
    device_zero(step->device, sum);
    op_digest(step->device, &(struct op_digest){.out = sum, .x = step->grads});
    device_copy_out(step->device, &digest, sum);
    return digest;
}

int64_t step_digest_passes(struct step *step, const struct step_source *source, int *status) {
    struct list_run run = {.step = step, .is_learning = true};
    step_settle(step);
    *status = begin_run(&run, source);
    for (int i = 0; *status == 0 && i < run.list->count; i++) {
        struct schedule_item item = run.list->items[i];
        bool is_pass = item.work == WORK_LOAD || item.work == WORK_BEGIN || item.work == WORK_FORWARD ||
                       item.work == WORK_BACKWARD_WEIGHT || work_is_backward(item.work);
        if (!is_pass)
            continue;
        *status = do_item(&run, item);
        end_batch(&run, item);
    }
    flush_messages(step);
    return *status == 0 ? digest_gradients(step) : 0;
}

// Tells all ranks whether one of them has computed other gradients than before.
static int compare_gradients(struct step *step) {
    int status = 0;
    if (digest_gradients(step) != step->expected_gradients)
        status = error_set_code(EXIT_CODE_CORRUPT,
                                "recomputing the gradients gave other values: memory or the device of "
                                "this rank is faulty, on %s; resume without that machine if it happens again",
                                group_host(step->mesh.all, step->mesh.rank));
    return comm_agree(step->mesh.all, status, "gradients computed twice");
}

int step_run(struct step *step, const struct step_source *source, const struct pace *paces) {
    struct list_run run = {.step = step, .paces = paces, .is_learning = paces != NULL};
    TRY(begin_run(&run, source));
    for (int i = 0; i < run.list->count;) {
        bool has_faults = run.is_learning && fault_is_on();
        // A replay would skip the phases within it.
        bool has_phases = has_faults || (run.is_learning && step->expects_gradients);
        struct list_range range = {&run, i, has_phases ? i : replay_range_end(step, run.schedule, i)};
        bool is_pair = run.list->items[i].is_paired;
        for (int k = i; has_faults && k <= i + is_pair; k++)
            step_reach_faults(step, run.list->items[k].work);
        if (has_phases && step->expects_gradients && run.list->items[i].work == WORK_REDUCE)
            TRY(compare_gradients(step));
        if (range.end > i)
            replay_passes(&range);
        else if (is_pair)
            range.end = run_pair(&run, i);
        else
            TRY(run_item(&run, run.list->items[range.end++]));
        for (; i < range.end; i++)
            end_batch(&run, run.list->items[i]);
    }
    return 0;
}
