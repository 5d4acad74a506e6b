// Zero bubble, in the form with the memory of 1F1B (ZB-H1; Qi et al., "Zero Bubble Pipeline Parallelism"). The backward
// is split into the gradient of the input, for which the previous stage waits, and the gradient of the weights, for
// which nothing waits and which fills otherwise idle time.
//
// The lists come from simulating the pipeline with all three kinds of work equally long. A free stage takes, in this
// order: a forward that has arrived, while fewer than 1F1B's stages - stage micro-batches wait for their gradient and
// fewer than `stages` are held in all; a gradient that has arrived; a weight half, oldest first. The simulation, and
// with it the list, is the same on every rank.
#include "base/error.h"
#include "base/memory.h"
#include "parallel/schedule.h"

#include <stdlib.h>

// A stage in the simulation: its number of finished items of each kind (in the order of micro-batches).
struct player {
    int done[WORK_COUNT];
};

// The next work of a free stage, given the items that all stages had finished when the tick began.
static enum work choose(const struct schedule_shape *shape, const struct player *players, int stage, bool *is_idle) {
    const struct player *me = &players[stage];
    int M = shape->micro_batches, last = shape->stages - 1;
    int forwards = me->done[WORK_FORWARD], inputs = me->done[WORK_BACKWARD_INPUT];
    int weights = me->done[WORK_BACKWARD_WEIGHT];
    int arrived = stage == 0 ? M : players[stage - 1].done[WORK_FORWARD];
    int gradients = stage == last ? forwards : players[stage + 1].done[WORK_BACKWARD_INPUT];
    *is_idle = false;
    bool has_forward = forwards < arrived && forwards < M && forwards - weights < shape->stages;
    if (has_forward && forwards - inputs < shape->stages - stage)
        return WORK_FORWARD;
    if (inputs < gradients)
        return WORK_BACKWARD_INPUT;
    if (weights < inputs)
        return WORK_BACKWARD_WEIGHT;
    *is_idle = true;
    return WORK_FORWARD;
}

void schedule_fill_zero_bubble(struct schedule *schedule) {
    const struct schedule_shape *shape = &schedule->shape;
    size_t bytes = sizeof(struct player) * (size_t)shape->stages;
    struct player *players = memory_alloc(bytes), *after = memory_alloc(bytes);
    int left = 3 * shape->micro_batches * shape->stages;
    while (left > 0) {
        int before = left;
        for (int stage = 0; stage < shape->stages; stage++) {
            bool is_idle;
            enum work work = choose(shape, players, stage, &is_idle);
            after[stage] = players[stage];
            if (is_idle)
                continue;
            struct schedule_list *list = &schedule->stages[stage];
            list->items[list->count++] =
                (struct schedule_item){.work = work, .micro_batch = after[stage].done[work]++, .chunk = 0};
            left--;
        }
        CHECK(left < before);
        struct player *spare = players;
        players = after;
        after = spare;
    }
    free(players);
    free(after);
}
