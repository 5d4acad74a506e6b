// Assigns Muon's matrices to ranks and rounds, and lays out the slices in the buffers of the exchanges. For
// muon_shared.c.
#ifndef OPTIM_MUON_SHARING_H
#define OPTIM_MUON_SHARING_H

#include "optim/muon.h"

struct shared_item {
    struct muon_matrix *matrix;
    int owner;
    bool is_split;
    // Offsets of its slice in the data sent to the owner and received from it. For a matrix that all ranks hold:
    // offsets after the data of split matrices that the owner receives, and after all results of those.
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

// Matrices of one shape that this rank orthogonalizes together.
struct shared_batch {
    struct shared_item *items[OPTIMIZER_MOST_TOGETHER];
    int64_t count;
    struct tensor x;        // (count, M, N)
    struct tensor squares;  // (count) fp32
};

struct sharing {
    const struct config *config;
    const struct optimizer_run *run;  // the first run, for members that are the same in all
    struct group *group;
    int size, rank;
    struct shared_item *items;
    struct shared_round *rounds;
    int64_t *counts;  // memory of in, out and whole of all rounds
    int64_t round_count;
    // Sized for the longest round.
    struct tensor in_sent, in_received;    // (n) fp32
    struct tensor out_sent, out_received;  // (n), in muon_result_dtype
    struct tensor squares;                 // (matrices of a round) fp32: of this rank's matrices that all ranks hold
    struct comm_request in_way, out_way;
    struct comm_request *broadcasts;  // one for each matrix of a round that all ranks hold
    int64_t broadcast_count;
    struct shared_batch *batches;  // this rank's matrices of a round
    int64_t batch_count;
};

// Deals out the matrices of a list, whose slices are held by the ranks of the first matrix's group, and takes buffers
// from its scratch memory. The buffers are sized for the longest round of any rank, equally on all ranks.
void sharing_open(struct sharing *sharing, const struct config *config, struct muon_matrix *list, int64_t total);
void sharing_close(struct sharing *sharing);

// Rounds up to the alignment of slices.
int64_t sharing_align(int64_t count);
int64_t sharing_slice(const struct muon_matrix *matrix);  // elements
int64_t sharing_sum(const int64_t *counts, int size);

#endif
