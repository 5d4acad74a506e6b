// Rows on their way to experts that other ranks hold. Of E experts, each of the P ranks that share them out holds E / P
// neighbours. Every rank sorts the slots of its own rows by expert (op_sort_slots), so what it sends to another rank is
// one range of places. What arrives is ordered by the rank that sent it and there by expert; it is sorted by expert
// again, and within one it stays in order of the senders, and so of the samples. Then everything an expert does with
// its rows is as on one rank, where each arrived row has one slot. The way back is the same in reverse.
//
// How many rows go where, the ranks tell each other first, and the host waits for that. So tensors have as many rows as
// have arrived, but their memory is taken for as many as may arrive: the arenas are measured on paper, where experts
// get equally many rows.
#ifndef MODEL_DISPATCH_H
#define MODEL_DISPATCH_H

#include "model/choices.h"

struct dispatch {
    int64_t sent[EXPERT_RANKS_MOST], received[EXPERT_RANKS_MOST];  // rows to each rank and from it
    int64_t rows, room;     // A: those that have arrived, rounded up, but at least 1; and how many may arrive
    int64_t places_room;    // how many places they may take; R: those that they take, A if these are not aligned
    struct tensor experts;  // (A, 1) i32, the arrived rows' numbers among the experts of this rank; until forward ends
    struct tensor weights;  // (A, 1) fp32, by which the arrived rows' results are multiplied; once they are there
    struct tensor offsets;  // (E / P + 1) i32: see op_sort_slots
    struct tensor sources;  // (R) i32
    struct tensor places;   // (A, 1) i32
    struct comm_request weights_way;  // on which the weights are, until dispatch_await_weights
};

// What this rank has sorted: the first place of each of all experts (E + 1), the slots at R places, the slots' weights
// (N, K), and how many rows a rank may send to another one at most. A of what arrives is made a multiple of `step`: the
// last rows have no slot. Its places are aligned, see op_sort_slots.
struct dispatch_slots {
    struct tensor offsets, sources, weights;
    int64_t usual;  // rows that this rank sends, on paper
    int64_t most, step, aligned;
};
// Exchanges the numbers of rows, and starts to send their weights, whose copy in scratch stays until they are there.
// All ranks that share out the experts call.
void dispatch_open(struct dispatch *dispatch, const struct pass *pass, const struct expert_choices *choices,
                   const struct dispatch_slots *slots);
// A tensor of one row for each that has arrived, with memory for all that may.
struct tensor dispatch_take(const struct dispatch *dispatch, struct arena *arena, enum dtype dtype, int64_t columns);
void dispatch_await_weights(struct dispatch *dispatch);
// Sends rows from this rank's places (of all experts) to those who hold the experts, and back.
void dispatch_send(const struct dispatch *dispatch, const struct pass *pass, struct tensor arrived,
                   struct tensor places, const char *name);
struct comm_request dispatch_return_start(const struct dispatch *dispatch, const struct pass *pass,
                                          struct tensor places, struct tensor arrived, const char *name);
// Waits until rows have arrived. If another pass goes beside this one, it computes meanwhile.
void dispatch_await(const struct pass *pass, struct comm_request *requests, int count);

#endif
