// One forward, one backward. A stage first does as many forwards as there are stages after it, so that it is free when
// the first gradient arrives. From then on forwards and backwards alternate, and the stage never holds more than stages
// - stage micro-batches. Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training".
//
// The interleaved form (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM") goes through chunks in groups of micro-batches: a group through chunk 0, then through chunk 1, …;
// backwards take the chunks in reverse. It is the same alternation over a longer list.
//
// With pairs there is one more forward before the first backward, so that a forward and the next backward are of
// different micro-batches and do not wait for each other, as in Megatron-LM's overlap_moe_expert_parallel_comm.
#include "base/error.h"
#include "parallel/schedule.h"

// The micro-batch and chunk of virtual micro-batch k of a direction.
static struct schedule_item virtual_item(const struct schedule_shape *shape, int k, enum work work) {
    int V = shape->chunks, G = shape->group;
    int first = k / (G * V) * G;  // first micro-batch of the group
    int members = shape->micro_batches - first < G ? shape->micro_batches - first : G;
    int within = k - first * V;
    int chunk = within / members;
    return (struct schedule_item){
        .work = work, .micro_batch = first + within % members, .chunk = work == WORK_FORWARD ? chunk : V - 1 - chunk};
}

// `warmup` forwards, then pairs, then the remaining backwards.
static void alternate(struct schedule *schedule, int stage, int warmup) {
    struct schedule_list *list = &schedule->stages[stage];
    int total = schedule->shape.micro_batches * schedule->shape.chunks;
    bool has_pairs = schedule->shape.has_pairs;
    warmup += has_pairs;
    warmup = warmup < total ? warmup : total;
    for (int k = 0; k < warmup; k++)
        list->items[list->count++] = virtual_item(&schedule->shape, k, WORK_FORWARD);
    for (int k = 0; k < total; k++) {
        bool is_pair = warmup + k < total;
        if (is_pair)
            list->items[list->count++] = virtual_item(&schedule->shape, warmup + k, WORK_FORWARD);
        list->items[list->count++] = virtual_item(&schedule->shape, k, WORK_BACKWARD);
        for (int i = 1; i <= 2 && is_pair && has_pairs; i++)
            list->items[list->count - i].is_paired = true;
    }
}

void schedule_fill_1f1b(struct schedule *schedule) {
    for (int stage = 0; stage < schedule->shape.stages; stage++)
        alternate(schedule, stage, schedule->shape.stages - 1 - stage);
}

void schedule_fill_interleaved(struct schedule *schedule) {
    const struct schedule_shape *shape = &schedule->shape;
    for (int stage = 0; stage < shape->stages; stage++)
        alternate(schedule, stage, (shape->stages - 1 - stage) * 2 + (shape->chunks - 1) * shape->group);
}
