// Exchanges rows with the ranks that hold their experts (expert parallelism). Each of P ranks holds E / P consecutive
// experts. Every rank sorts the slots of its own rows by expert (op_sort_slots), so it sends each rank one range of
// places. Arriving rows are ordered by sender, then by expert. They are sorted by expert again; within an expert they
// stay in order of senders, and so of samples. Experts then work as on a single rank, with one slot per arrived row.
// Results return the same way in reverse.
//
// Ranks first exchange the numbers of rows, and the host waits for them. Tensors have as many rows as arrived, but
// their memory has room for as many as may arrive: the arenas are measured on paper, where all experts get equally many
// rows.
#ifndef MODEL_DISPATCH_H
#define MODEL_DISPATCH_H

#include "model/choices.h"

struct dispatch {
    int64_t sent[EXPERT_RANKS_MOST], received[EXPERT_RANKS_MOST];  // rows to each rank and from it
    int64_t rows, room;     // A: rows that arrived, rounded up, at least 1; most that may arrive
    int64_t places_room;    // most places they may take; R: places taken, A if not aligned
    struct tensor experts;  // (A, 1) i32, the arrived rows' experts, counted within this rank; until forward ends
    struct tensor weights;  // (A, 1) fp32, factors of the arrived rows' results; valid after dispatch_await_weights
    struct tensor offsets;  // (E / P + 1) i32: see op_sort_slots
    struct tensor sources;  // (R) i32
    struct tensor places;   // (A, 1) i32
    struct comm_request weights_way;  // transfer of the weights, until dispatch_await_weights
};

// This rank's sorted slots: the first place of each of all experts (E + 1), the slots at R places, and the slots'
// weights (N, K). `most`: rows that a rank may send to another. A, the number of arriving rows, is rounded up to a
// multiple of `step`; the added rows have no slot. Places of arriving rows are aligned, see op_sort_slots.
struct dispatch_slots {
    struct tensor offsets, sources, weights;
    int64_t usual;  // rows that this rank sends, on paper
    int64_t most, step, aligned;
};
// Exchanges the numbers of rows and starts to send their weights, from a copy in scratch that stays until they have
// arrived. Called by all expert-parallel ranks.
void dispatch_open(struct dispatch *dispatch, const struct pass *pass, const struct expert_choices *choices,
                   const struct dispatch_slots *slots);
// A tensor with one row per arrived row, and memory for all that may arrive.
struct tensor dispatch_take(const struct dispatch *dispatch, struct arena *arena, enum dtype dtype, int64_t columns);
void dispatch_await_weights(struct dispatch *dispatch);
// Sends rows from this rank's places (of all experts) to the ranks that hold the experts, and back.
void dispatch_send(const struct dispatch *dispatch, const struct pass *pass, struct tensor arrived,
                   struct tensor places, const char *name);
struct comm_request dispatch_return_start(const struct dispatch *dispatch, const struct pass *pass,
                                          struct tensor places, struct tensor arrived, const char *name);
// Waits until rows have arrived. Another pass that runs beside this one computes meanwhile.
void dispatch_await(const struct pass *pass, struct comm_request *requests, int count);

#endif
