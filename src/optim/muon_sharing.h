// Which rank makes which of Muon's matrices orthogonal, in which round, and where their slices lie in what ranks send
// each other. For muon_shared.c.
#ifndef OPTIM_MUON_SHARING_H
#define OPTIM_MUON_SHARING_H

#include "optim/muon.h"

struct shared_item {
    struct muon_matrix *matrix;
    int owner;
    bool is_split;
    // Where its slice lies among what goes to the owner and comes from it. Of a matrix that all ranks hold: where it
    // lies behind what the owner receives of split ones, and behind all results of such.
    int64_t in, out;
};

struct shared_round {
    struct shared_item *items;
    int64_t count;
    int64_t *in, *out;  // (ranks): elements that every rank sends to the owner, and gets from it
    int64_t *whole;     // (ranks): elements of its matrices that all ranks hold
    int64_t all_whole;  // of all of them
    int64_t split;      // matrices of which ranks hold slices
};

// Matrices of one shape that this rank makes orthogonal together.
struct shared_batch {
    struct shared_item *items[OPTIMIZER_MOST_TOGETHER];
    int64_t count;
    struct tensor x;        // (count, M, N)
    struct tensor squares;  // (count) fp32
};

struct sharing {
    const struct config *config;
    const struct optimizer_run *run;  // the first: of what is the same in all
    struct group *group;
    int size, rank;
    struct shared_item *items;
    struct shared_round *rounds;
    int64_t *counts;  // memory of in, out and whole of all rounds
    int64_t round_count;
    // As long as the longest round needs them.
    struct tensor in_sent, in_received;    // (n) fp32
    struct tensor out_sent, out_received;  // (n), in muon_result_dtype
    struct tensor squares;                 // (matrices of a round) fp32: of those of this rank that all hold
    struct comm_request in_way, out_way;
    struct comm_request *broadcasts;  // one for each matrix of a round that all ranks hold
    int64_t broadcast_count;
    struct shared_batch *batches;  // this rank's matrices of a round
    int64_t batch_count;
};

// Deals out the matrices of a list, whose slices the ranks of the first one's group hold, and takes buffers from its
// scratch memory. They are as long as the longest round of any rank needs, so that all ranks have as much.
void sharing_open(struct sharing *sharing, const struct config *config, struct muon_matrix *list, int64_t total);
void sharing_close(struct sharing *sharing);

// Slices begin at multiples of a few elements.
int64_t sharing_align(int64_t count);
int64_t sharing_slice(const struct muon_matrix *matrix);  // elements
int64_t sharing_sum(const int64_t *counts, int size);

#endif
