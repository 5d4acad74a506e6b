// Schedules as data. Every stage holds `chunks` chunks of the model; its i-th one has number i * stages + stage. With
// several chunks, a micro-batch goes around the ring of stages once per chunk. A schedule has for every stage a list of
// its work in a step, in order. The lists are pure functions of the shape: every rank can compute its neighbours' work,
// and tests and pictures read the same lists that training runs.
//
// A list has the passes of the pipeline, the inputs of each micro-batch just before its first pass, and before and
// after all passes the work that a step does once. Collective work after the passes is in the same order on all stages.
//
// Dependencies: forward (m, number) comes after forward (m, number - 1); backward (m, number) after backward (m, number
// + 1) and after its own forward; a weight half after its input half. Messages between two stages are sent in the order
// of the sender's list, and the receiver takes them in that order.
//
// A list may have pairs: a forward and the backward after it in the list, of another micro-batch. They begin and end
// together, and each computes while the other waits for ranks of its own stage.
#ifndef PARALLEL_SCHEDULE_H
#define PARALLEL_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum work {
    WORK_PREPARE,  // sends the rates of the update to the device
    WORK_LOAD,     // brings the inputs of a micro-batch
    WORK_BEGIN,    // clears sums and gradients; after the first inputs, so that it can be one launch with the passes
    WORK_FORWARD,
    WORK_BACKWARD,         // gradients of the input and of the weights
    WORK_BACKWARD_INPUT,   // gradient of the input only, for which the previous stage waits
    WORK_BACKWARD_WEIGHT,  // gradients of the weights only, whenever there is time
    WORK_REDUCE,           // starts the reductions that no backward pass has started
    WORK_TOTALS,           // losses and counts of all ranks
    WORK_CLIP,             // waits for the reductions; norm and scale of the gradients
    WORK_UPDATE,           // updates the parameters of a bucket, or all of them
    WORK_GATHER,           // starts to send the parameters of a bucket to the ranks that do not update them
    WORK_RANGES,           // updates the ranges of fp8 tensors with the magnitudes seen
    WORK_REPORT,           // sends the results to the host
    WORK_COUNT
};

struct schedule_item {
    enum work work;
    int micro_batch, chunk;
    int bucket;      // of an update or gathering
    bool is_paired;  // a forward with the next item, a backward with the previous one
};

enum schedule_kind {
    SCHEDULE_1F1B,         // one forward, one backward; one chunk per stage
    SCHEDULE_INTERLEAVED,  // several chunks per stage: the bubble shrinks by that factor, messages multiply by it
    SCHEDULE_ZERO_BUBBLE,  // backward in two halves (ZB-H1): a third of the bubble with the memory of 1F1B
};

struct schedule_shape {
    enum schedule_kind kind;
    int stages, chunks, micro_batches;
    int group;           // interleaved: micro-batches that go through a chunk together; 0 for `stages`
    int buckets;         // buckets in which ranks gather updated parameters; 0 if each rank updates all
    bool has_ranges;     // fp8 tensors
    bool is_evaluation;  // no backward passes and no update
    bool has_pairs;      // only with one stage or interleaved
};

struct schedule_list {
    struct schedule_item *items;
    int count;
};

struct schedule {
    struct schedule_shape shape;
    struct schedule_list *stages;  // one list per stage
};

// Returns -1 if the shape has no schedule.
int schedule_build(struct schedule *schedule, const struct schedule_shape *shape);
void schedule_free(struct schedule *schedule);

// Fill in the passes of one kind. Called by schedule_build, with room for every pass of the stage.
void schedule_fill_1f1b(struct schedule *schedule);
void schedule_fill_interleaved(struct schedule *schedule);
void schedule_fill_zero_bubble(struct schedule *schedule);

// Whether the work is a pass that computes the gradient of the chunk's input. After it, a micro-batch's inputs are no
// longer needed.
bool work_is_backward(enum work work);
// Whether this pass is the last one of its micro-batch that reads its inputs on a stage.
bool schedule_ends_batch(const struct schedule_shape *shape, struct schedule_item item);

// The sender or receiver of a message between chunks.
struct schedule_message {
    int stage;                  // -1 if there is no such message
    struct schedule_item item;  // the work there that produces or awaits it
};
// The item of another chunk that this item waits for: it produces the input activation or the output gradient. The
// stage is -1 if there is none.
struct schedule_message schedule_origin(const struct schedule_shape *shape, int stage, struct schedule_item item);
// The item that waits for this item's result; the stage is -1 if none does.
struct schedule_message schedule_destination(const struct schedule_shape *shape, int stage, struct schedule_item item);

// Simulation of the lists. Every stage works through its list in order; an item starts when its stage is free and its
// inputs have arrived.
struct schedule_cost {
    double seconds[WORK_COUNT];  // per chunk
    double message_seconds;      // between two stages
    // For items of a kind with different times: seconds of one item, and of a message to it. NULL: as above. A pair
    // takes the sum of its two items' times.
    double (*of_item)(const void *context, int stage, struct schedule_item item);
    double (*of_message)(const void *context, int from, int to);
    const void *context;
};
struct schedule_run {
    double seconds;     // until the last item ends
    double bubble;      // the longest idle time of a stage until then
    double idle;        // the shortest
    int max_in_flight;  // the most forwards of one chunk that a stage holds before their backward is complete
};
// Called with the begin and end of every item, for pictures and planners.
struct schedule_span {
    int stage;
    struct schedule_item item;
    double start, end;
    int in_flight;  // forwards that the stage holds during it
};
// The part of the span that counts as this item's: half for each of a pair.
double schedule_span_seconds(const struct schedule_span *span);
struct schedule_watcher {
    void (*see)(void *context, const struct schedule_span *span);
    void *context;
};
// Returns -1 if the lists cannot be run to their end. The watcher may be NULL.
int schedule_simulate(const struct schedule *schedule, const struct schedule_cost *cost, struct schedule_run *run,
                      const struct schedule_watcher *watcher);

#endif
