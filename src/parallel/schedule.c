// What all schedules share: shapes, memory, dependencies, and running the lists on paper. See schedule.h.
#include "parallel/schedule.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

static int check_shape(const struct schedule_shape *shape) {
    int P = shape->stages, V = shape->chunks, M = shape->micro_batches;
    if (P < 1 || V < 1 || M < 1)
        return error_set("a pipeline of %d stages, %d chunks and %d micro-batches; all must be at least 1", P, V, M);
    if ((shape->kind == SCHEDULE_INTERLEAVED) != (V > 1))
        return error_set("%d chunks a stage: only the interleaved schedule has, and needs, more than one; see "
                         "--num-layers-per-virtual-pipeline-stage",
                         V);
    if (shape->kind != SCHEDULE_INTERLEAVED)
        return 0;
    int group = shape->group ? shape->group : P;
    if (P < 2)
        return error_set("virtual pipeline stages need --pipeline-model-parallel-size of 2 or more");
    if (group < P)
        return error_set("--microbatch-group-size-per-virtual-pipeline-stage %d is below the %d stages; give %d or "
                         "more",
                         group, P, P);
    if (M % group != 0 && M % group < P)
        return error_set("%d micro-batches in groups of %d leave a last group of %d, which cannot fill %d stages; "
                         "change --global-batch-size so that the number of micro-batches is a multiple of %d",
                         M, group, M % group, P, P);
    return 0;
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
    return 0;
}

void schedule_free(struct schedule *schedule) {
    for (int stage = 0; schedule->stages && stage < schedule->shape.stages; stage++)
        free(schedule->stages[stage].items);
    free(schedule->stages);
    *schedule = (struct schedule){0};
}

static const struct schedule_message no_message = {.stage = -1};

// The same kind of work on the next piece (`step` +1) or the previous one (-1).
static struct schedule_message neighbour(const struct schedule_shape *shape, int stage, struct schedule_item item,
                                         int step) {
    int piece = item.chunk * shape->stages + stage + step;
    if (piece < 0 || piece >= shape->stages * shape->chunks)
        return no_message;
    item.chunk = piece / shape->stages;
    return (struct schedule_message){.stage = piece % shape->stages, .item = item};
}

struct schedule_message schedule_origin(const struct schedule_shape *shape, int stage, struct schedule_item item) {
    if (item.work == WORK_BACKWARD_WEIGHT)
        return no_message;
    return neighbour(shape, stage, item, item.work == WORK_FORWARD ? -1 : 1);
}

struct schedule_message schedule_destination(const struct schedule_shape *shape, int stage, struct schedule_item item) {
    if (item.work == WORK_BACKWARD_WEIGHT)
        return no_message;
    return neighbour(shape, stage, item, item.work == WORK_FORWARD ? 1 : -1);
}

// The state of a run on paper: when each piece of work ended, negative if it has not.
struct paper_run {
    const struct schedule *schedule;
    const struct schedule_cost *cost;
    double *ends[WORK_COUNT];  // (M, pieces)
    int *next;                 // (stages): position in the list
    double *free_at;           // (stages)
    double *busy;              // (stages)
    int *held, *most_held;     // (stages): activations of chunks
    const struct schedule_watcher *watcher;
};

static size_t slot(const struct schedule_shape *shape, int stage, struct schedule_item item) {
    size_t pieces = (size_t)shape->stages * (size_t)shape->chunks;
    return (size_t)item.micro_batch * pieces + (size_t)item.chunk * (size_t)shape->stages + (size_t)stage;
}

// When everything that the item waits for has arrived; negative if it has not.
static double ready_at(const struct paper_run *run, int stage, struct schedule_item item) {
    const struct schedule_shape *shape = &run->schedule->shape;
    double ready = 0;
    struct schedule_message origin = schedule_origin(shape, stage, item);
    if (origin.stage >= 0) {
        double end = run->ends[item.work][slot(shape, origin.stage, origin.item)];
        if (end < 0)
            return -1;
        ready = end + (origin.stage == stage ? 0 : run->cost->message_seconds);
    }
    if (item.work != WORK_FORWARD) {
        enum work before = item.work == WORK_BACKWARD_WEIGHT ? WORK_BACKWARD_INPUT : WORK_FORWARD;
        double end = run->ends[before][slot(shape, stage, item)];
        if (end < 0)
            return -1;
        ready = end > ready ? end : ready;
    }
    return ready;
}

// Runs what the stage can run now; returns whether it made progress.
static bool advance(struct paper_run *run, int stage) {
    const struct schedule_list *list = &run->schedule->stages[stage];
    int before = run->next[stage];
    for (; run->next[stage] < list->count; run->next[stage]++) {
        struct schedule_item item = list->items[run->next[stage]];
        double ready = ready_at(run, stage, item);
        if (ready < 0)
            break;
        double start = ready > run->free_at[stage] ? ready : run->free_at[stage];
        run->free_at[stage] = start + run->cost->seconds[item.work];
        run->busy[stage] += run->cost->seconds[item.work];
        if (run->watcher)
            run->watcher->see(run->watcher->context, &(struct schedule_span){stage, item, start, run->free_at[stage]});
        run->ends[item.work][slot(&run->schedule->shape, stage, item)] = run->free_at[stage];
        run->held[stage] += item.work == WORK_FORWARD ? 1 : item.work == WORK_BACKWARD_INPUT ? 0 : -1;
        if (run->held[stage] > run->most_held[stage])
            run->most_held[stage] = run->held[stage];
    }
    return run->next[stage] > before;
}

static int run_to_end(struct paper_run *run) {
    int stages = run->schedule->shape.stages;
    for (bool is_moving = true; is_moving;) {
        is_moving = false;
        for (int stage = 0; stage < stages; stage++)
            is_moving |= advance(run, stage);
    }
    for (int stage = 0; stage < stages; stage++)
        if (run->next[stage] < run->schedule->stages[stage].count)
            return error_set("the pipeline schedule stops at item %d of stage %d", run->next[stage], stage);
    return 0;
}

static int simulate(const struct schedule *schedule, const struct schedule_cost *cost, struct schedule_run *result,
                    int *in_flight, const struct schedule_watcher *watcher) {
    const struct schedule_shape *shape = &schedule->shape;
    size_t stages = (size_t)shape->stages, slots = stages * (size_t)shape->chunks * (size_t)shape->micro_batches;
    struct paper_run run = {.schedule = schedule, .cost = cost, .watcher = watcher};
    for (int work = 0; work < WORK_COUNT; work++) {
        run.ends[work] = memory_alloc(sizeof(double) * slots);
        for (size_t i = 0; i < slots; i++)
            run.ends[work][i] = -1;
    }
    run.next = memory_alloc(sizeof(int) * stages);
    run.held = memory_alloc(sizeof(int) * stages);
    run.most_held = memory_alloc(sizeof(int) * stages);
    run.free_at = memory_alloc(sizeof(double) * stages);
    run.busy = memory_alloc(sizeof(double) * stages);
    int status = run_to_end(&run);
    *result = (struct schedule_run){0};
    for (size_t stage = 0; stage < stages; stage++)
        result->seconds = run.free_at[stage] > result->seconds ? run.free_at[stage] : result->seconds;
    for (size_t stage = 0; stage < stages; stage++) {
        double idle = result->seconds - run.busy[stage];
        result->bubble = idle > result->bubble ? idle : result->bubble;
        if (run.most_held[stage] > result->max_in_flight)
            result->max_in_flight = run.most_held[stage];
        if (in_flight)
            in_flight[stage] = run.most_held[stage];
    }
    for (int work = 0; work < WORK_COUNT; work++)
        free(run.ends[work]);
    free(run.next);
    free(run.held);
    free(run.most_held);
    free(run.free_at);
    free(run.busy);
    return status;
}

int schedule_simulate(const struct schedule *schedule, const struct schedule_cost *cost, struct schedule_run *run,
                      int *in_flight) {
    return simulate(schedule, cost, run, in_flight, NULL);
}

int schedule_watch(const struct schedule *schedule, const struct schedule_cost *cost, struct schedule_run *run,
                   const struct schedule_watcher *watcher) {
    return simulate(schedule, cost, run, NULL, watcher);
}
