// Code shared by all schedules: shapes, memory, dependencies, and simulation of the lists. See schedule.h.
#include "parallel/schedule.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

// The configuration refuses flags that lead to an unsound shape, with a remedy.
static int check_shape(const struct schedule_shape *shape) {
    int P = shape->stages, V = shape->chunks, M = shape->micro_batches, group = shape->group ? shape->group : P;
    bool is_interleaved = shape->kind == SCHEDULE_INTERLEAVED, is_sound = P >= 1 && V >= 1 && M >= 1;
    is_sound = is_sound && is_interleaved == (V > 1);
    if (is_sound && is_interleaved)  // groups fill all stages; rehearsals have a single micro-batch
        is_sound = P >= 2 && group >= P && (M == 1 || M % group == 0 || M % group >= P);
    is_sound = is_sound && (!shape->has_pairs || is_interleaved || (shape->kind == SCHEDULE_1F1B && P == 1));
    if (is_sound)
        return 0;
    return error_set("there is no such schedule of %d stages, %d chunks a stage and %d micro-batches in groups of %d",
                     P, V, M, group);
}

bool work_is_backward(enum work work) {
    return work == WORK_BACKWARD || work == WORK_BACKWARD_INPUT;
}

bool schedule_ends_batch(const struct schedule_shape *shape, struct schedule_item item) {
    return shape->is_evaluation ? item.work == WORK_FORWARD && item.chunk == shape->chunks - 1
                                : work_is_backward(item.work) && item.chunk == 0;
}

static void append(struct schedule_list *list, enum work work) {
    list->items[list->count++] = (struct schedule_item){.work = work};
}

// Appends the items after the passes. Gradients are reduced while the totals are summed.
static void append_end(struct schedule_list *list, const struct schedule_shape *shape) {
    if (!shape->is_evaluation)
        append(list, WORK_REDUCE);
    append(list, WORK_TOTALS);
    if (!shape->is_evaluation)
        append(list, WORK_CLIP);
    for (int n = 0; !shape->is_evaluation && n < (shape->buckets > 0 ? shape->buckets : 1); n++) {
        list->items[list->count++] = (struct schedule_item){.work = WORK_UPDATE, .bucket = n};
        if (shape->buckets > 0)
            list->items[list->count++] = (struct schedule_item){.work = WORK_GATHER, .bucket = n};
    }
    if (!shape->is_evaluation && shape->has_ranges)
        append(list, WORK_RANGES);
    append(list, WORK_REPORT);
}

// The list of the whole step around its passes.
static struct schedule_list complete(const struct schedule_list *passes, const struct schedule_shape *shape) {
    enum { ONCE = 7 };
    int room = passes->count + shape->micro_batches + 2 * (shape->buckets > 0 ? shape->buckets : 1) + ONCE, loaded = 0;
    struct schedule_list list = {.items = memory_alloc(sizeof(struct schedule_item) * (size_t)room)};
    if (!shape->is_evaluation)
        append(&list, WORK_PREPARE);
    for (int i = 0; i < passes->count; i++) {
        struct schedule_item item = passes->items[i];
        if (shape->is_evaluation && item.work != WORK_FORWARD)
            continue;
        if (item.micro_batch == loaded) {
            list.items[list.count++] = (struct schedule_item){.work = WORK_LOAD, .micro_batch = loaded};
            if (loaded++ == 0)
                append(&list, WORK_BEGIN);
        }
        item.is_paired = item.is_paired && !shape->is_evaluation;
        list.items[list.count++] = item;
    }
    append_end(&list, shape);
    CHECK(list.count <= room && loaded == shape->micro_batches);
    return list;
}

int schedule_build(struct schedule *schedule, const struct schedule_shape *shape) {
    TRY(check_shape(shape));
    *schedule = (struct schedule){.shape = *shape};
    if (!schedule->shape.group)
        schedule->shape.group = shape->stages;
    // In halves, a micro-batch's work has three items.
    size_t room =
        (shape->kind == SCHEDULE_ZERO_BUBBLE ? 3u : 2u) * (size_t)shape->micro_batches * (size_t)shape->chunks;
    schedule->stages = memory_alloc(sizeof *schedule->stages * (size_t)shape->stages);
    for (int stage = 0; stage < shape->stages; stage++)
        schedule->stages[stage].items = memory_alloc(sizeof(struct schedule_item) * room);
    switch (shape->kind) {
    case SCHEDULE_1F1B:
        schedule_fill_1f1b(schedule);
        break;
    case SCHEDULE_INTERLEAVED:
        schedule_fill_interleaved(schedule);
        break;
    case SCHEDULE_ZERO_BUBBLE:
        schedule_fill_zero_bubble(schedule);
        break;
    }
    for (int stage = 0; stage < shape->stages; stage++) {
        struct schedule_list passes = schedule->stages[stage];
        schedule->stages[stage] = complete(&passes, &schedule->shape);
        free(passes.items);
    }
    return 0;
}

void schedule_free(struct schedule *schedule) {
    for (int stage = 0; schedule->stages && stage < schedule->shape.stages; stage++)
        free(schedule->stages[stage].items);
    free(schedule->stages);
    *schedule = (struct schedule){0};
}

static const struct schedule_message no_message = {.stage = -1};

// The same kind of work on the next chunk (`step` is 1) or the previous one (-1).
static struct schedule_message neighbour(const struct schedule_shape *shape, int stage, struct schedule_item item,
                                         int step) {
    int number = item.chunk * shape->stages + stage + step;
    if (number < 0 || number >= shape->stages * shape->chunks)
        return no_message;
    item.chunk = number / shape->stages;
    return (struct schedule_message){.stage = number % shape->stages, .item = item};
}

struct schedule_message schedule_origin(const struct schedule_shape *shape, int stage, struct schedule_item item) {
    if (item.work != WORK_FORWARD && !work_is_backward(item.work))
        return no_message;
    return neighbour(shape, stage, item, item.work == WORK_FORWARD ? -1 : 1);
}

struct schedule_message schedule_destination(const struct schedule_shape *shape, int stage, struct schedule_item item) {
    if (item.work != WORK_FORWARD && !work_is_backward(item.work))
        return no_message;
    return neighbour(shape, stage, item, item.work == WORK_FORWARD ? 1 : -1);
}

// A stage's progress in a simulation.
struct stage_clock {
    int next;             // position in the list
    int held, most_held;  // activations of chunks
    double free_at, busy;
};

// The state of a simulation.
struct timed_run {
    const struct schedule *schedule;
    const struct schedule_cost *cost;
    double *ends;  // (WORK_COUNT, M, chunks of all stages): when each item ended, negative if it has not
    struct stage_clock *clocks;
    const struct schedule_watcher *watcher;
};

static double *end_of(const struct timed_run *run, enum work work, int stage, struct schedule_item item) {
    const struct schedule_shape *shape = &run->schedule->shape;
    int row = (int)work * shape->micro_batches + item.micro_batch;
    return &run->ends[((size_t)row * (size_t)shape->chunks + (size_t)item.chunk) * (size_t)shape->stages +
                      (size_t)stage];
}

static double item_seconds(const struct schedule_cost *cost, int stage, struct schedule_item item) {
    return cost->of_item ? cost->of_item(cost->context, stage, item) : cost->seconds[item.work];
}

static double message_seconds(const struct schedule_cost *cost, int from, int to) {
    if (from == to)
        return 0;
    return cost->of_message ? cost->of_message(cost->context, from, to) : cost->message_seconds;
}

// The time when all inputs of the item have arrived; negative if they have not.
static double ready_at(const struct timed_run *run, int stage, struct schedule_item item) {
    const struct schedule_shape *shape = &run->schedule->shape;
    double ready = 0;
    struct schedule_message origin = schedule_origin(shape, stage, item);
    if (origin.stage >= 0) {
        double end = *end_of(run, item.work, origin.stage, origin.item);
        if (end < 0)
            return -1;
        ready = end + message_seconds(run->cost, origin.stage, stage);
    }
    if (work_is_backward(item.work) || item.work == WORK_BACKWARD_WEIGHT) {
        enum work before = item.work == WORK_BACKWARD_WEIGHT ? WORK_BACKWARD_INPUT : WORK_FORWARD;
        double end = *end_of(run, before, stage, item);
        if (end < 0)
            return -1;
        ready = end > ready ? end : ready;
    }
    return ready;
}

// Records that the stage is busy with an item.
static void note_item(struct timed_run *run, int stage, struct schedule_item item, double start, double end) {
    struct stage_clock *clock = &run->clocks[stage];
    *end_of(run, item.work, stage, item) = end;
    clock->held += item.work == WORK_FORWARD && !run->schedule->shape.is_evaluation;
    clock->most_held = clock->held > clock->most_held ? clock->held : clock->most_held;
    if (run->watcher)
        run->watcher->see(run->watcher->context, &(struct schedule_span){stage, item, start, end, clock->held});
    clock->held -= item.work == WORK_BACKWARD || item.work == WORK_BACKWARD_WEIGHT;
}

// Runs the items that the stage can run now; returns whether it made progress.
static bool advance(struct timed_run *run, int stage) {
    const struct schedule_list *list = &run->schedule->stages[stage];
    struct stage_clock *clock = &run->clocks[stage];
    int before = clock->next, together;
    for (; clock->next < list->count; clock->next += together) {
        const struct schedule_item *items = &list->items[clock->next];
        double start = clock->free_at, seconds = 0;
        bool is_ready = true;
        together = items[0].is_paired ? 2 : 1;
        for (int i = 0; i < together; i++) {
            double ready = ready_at(run, stage, items[i]);
            is_ready = is_ready && ready >= 0;
            start = ready > start ? ready : start;
            seconds += item_seconds(run->cost, stage, items[i]);
        }
        if (!is_ready)
            break;
        clock->free_at = start + seconds;
        clock->busy += seconds;
        for (int i = 0; i < together; i++)
            note_item(run, stage, items[i], start, clock->free_at);
    }
    return clock->next > before;
}

double schedule_span_seconds(const struct schedule_span *span) {
    return (span->end - span->start) / (span->item.is_paired ? 2 : 1);
}

static int run_to_end(struct timed_run *run) {
    int stages = run->schedule->shape.stages;
    for (bool is_moving = true; is_moving;) {
        is_moving = false;
        for (int stage = 0; stage < stages; stage++)
            is_moving |= advance(run, stage);
    }
    for (int stage = 0; stage < stages; stage++)
        if (run->clocks[stage].next < run->schedule->stages[stage].count)
            return error_set("the pipeline schedule stops at item %d of stage %d", run->clocks[stage].next, stage);
    return 0;
}

int schedule_simulate(const struct schedule *schedule, const struct schedule_cost *cost, struct schedule_run *result,
                      const struct schedule_watcher *watcher) {
    const struct schedule_shape *shape = &schedule->shape;
    size_t slots = WORK_COUNT * (size_t)shape->stages * (size_t)shape->chunks * (size_t)shape->micro_batches;
    struct timed_run run = {.schedule = schedule,
                            .cost = cost,
                            .ends = memory_alloc(sizeof(double) * slots),
                            .clocks = memory_alloc(sizeof *run.clocks * (size_t)shape->stages),
                            .watcher = watcher};
    for (size_t i = 0; i < slots; i++)
        run.ends[i] = -1;
    int status = run_to_end(&run);
    *result = (struct schedule_run){0};
    for (int stage = 0; stage < shape->stages; stage++) {
        const struct stage_clock *clock = &run.clocks[stage];
        result->seconds = clock->free_at > result->seconds ? clock->free_at : result->seconds;
        result->max_in_flight = clock->most_held > result->max_in_flight ? clock->most_held : result->max_in_flight;
    }
    for (int stage = 0; stage < shape->stages; stage++) {
        double idle = result->seconds - run.clocks[stage].busy;
        result->bubble = idle > result->bubble ? idle : result->bubble;
        result->idle = stage == 0 || idle < result->idle ? idle : result->idle;
    }
    free(run.ends);
    free(run.clocks);
    return status;
}
