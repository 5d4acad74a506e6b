// Pipeline schedules as data. A model of L layers is cut into stages * chunks pieces. Piece chunk * stages + stage lies
// on that stage, so with several chunks a micro-batch goes around the ring of stages once per chunk. A schedule is a
// list for every stage of the pieces of work it does, in order. The lists are made by pure functions of the shape:
// every rank can work out what its neighbours do, and tests and pictures read the same lists that training runs.
//
// Dependencies: forward (m, piece) comes after forward (m, piece - 1); backward (m, piece) after backward (m, piece +
// 1) and after its own forward; a weight half after its input half. Messages between two stages travel in the order in
// which the sender's list produces them, and the receiver takes them in that order.
#ifndef PARALLEL_SCHEDULE_H
#define PARALLEL_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum work {
    WORK_FORWARD,
    WORK_BACKWARD,         // gradients of the input and of the weights
    WORK_BACKWARD_INPUT,   // only of the input, which the previous stage waits for
    WORK_BACKWARD_WEIGHT,  // only of the weights, whenever there is time
    WORK_COUNT
};

struct schedule_item {
    enum work work;
    int micro_batch, chunk;
};

enum schedule_kind {
    SCHEDULE_1F1B,         // one forward, one backward; one chunk per stage
    SCHEDULE_INTERLEAVED,  // several chunks per stage: the bubble shrinks by that factor, messages multiply by it
    SCHEDULE_ZERO_BUBBLE,  // backward in two halves (ZB-H1): a third of the bubble with the memory of 1F1B
};

struct schedule_shape {
    enum schedule_kind kind;
    int stages, chunks, micro_batches;
    int group;  // interleaved: how many micro-batches go through a chunk together; 0 for `stages`
};

struct schedule_list {
    struct schedule_item *items;
    int count;
};

struct schedule {
    struct schedule_shape shape;
    struct schedule_list *stages;  // one list per stage
};

// Returns -1, with a remedy, if the shape has no schedule.
int schedule_build(struct schedule *schedule, const struct schedule_shape *shape);
void schedule_free(struct schedule *schedule);

// Fill in the lists of one kind. Called by schedule_build, with room for every item of the stage.
void schedule_fill_1f1b(struct schedule *schedule);
void schedule_fill_interleaved(struct schedule *schedule);
void schedule_fill_zero_bubble(struct schedule *schedule);

// The sender or receiver of a message between pieces.
struct schedule_message {
    int stage;                  // -1 if there is no such message
    struct schedule_item item;  // the work there that produces or awaits it
};
// What this item waits for from another piece: the activation before it or the gradient after it. The stage is -1 if it
// waits for none.
struct schedule_message schedule_origin(const struct schedule_shape *shape, int stage, struct schedule_item item);
// Which item waits for this item's result; the stage is -1 if none does.
struct schedule_message schedule_destination(const struct schedule_shape *shape, int stage, struct schedule_item item);

// Runs the lists on paper. Every stage works through its list in order; an item starts when its stage is free and what
// it waits for has arrived.
struct schedule_cost {
    double seconds[WORK_COUNT];  // per chunk
    double message_seconds;      // between two stages
};
struct schedule_run {
    double seconds;     // until the last item ends
    double bubble;      // the longest idle time of a stage until then
    int max_in_flight;  // the most forwards of one chunk that a stage holds before their backward is complete
};
// Returns -1 if the lists cannot be run to their end. in_flight (stages), if not NULL, receives each stage's own
// maximum.
int schedule_simulate(const struct schedule *schedule, const struct schedule_cost *cost, struct schedule_run *run,
                      int *in_flight);
// The same, reporting when every item begins and ends: for pictures and planners.
struct schedule_span {
    int stage;
    struct schedule_item item;
    double start, end;
};
struct schedule_watcher {
    void (*see)(void *context, const struct schedule_span *span);
    void *context;
};
int schedule_watch(const struct schedule *schedule, const struct schedule_cost *cost, struct schedule_run *run,
                   const struct schedule_watcher *watcher);

#endif
