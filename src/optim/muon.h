// Internal to the files of Muon, see muon.c.
#ifndef OPTIM_MUON_H
#define OPTIM_MUON_H

#include "optim/optimizer.h"
#include <stdint.h>

// Rows of this rank's slice that form one matrix: all rows, a segment, or one of several matrices.
struct matrix_part {
    int64_t first, rows;
};

// One matrix of an update.
struct muon_matrix {
    struct optimizer_run run;  // the matrix's part of the parameter's run
    struct matrix_part part;
    int64_t M, N;  // of the whole
    bool is_done;
    struct muon_bundle *bundle;  // if replicas share out the updates; else NULL
};

// This rank's slice of an orthogonalized matrix, and NorMuon's sums over the whole matrix.
struct muon_piece {
    struct tensor own;      // (rows, columns), contiguous, fp32 or bf16; overwritten if it is fp32
    struct tensor before;   // (1) fp32: the sum of squares of the whole; none: own is the whole
    struct tensor squares;  // (rows, columns) fp32: see muon_needs_means; none: those of own
    struct tensor after;    // (1) fp32 += the sum of squares of own after the division
};

int64_t muon_columns(const struct muon_matrix *matrix);
// Whether ranks hold slices of the matrix; otherwise each holds it whole.
bool muon_is_split(const struct muon_matrix *matrix);
// Whether the whole matrix is the concatenation of all ranks' slices.
bool muon_slices_follow(const struct muon_matrix *matrix);
// View of a rank's slice in the whole matrix.
struct tensor muon_place(const struct muon_matrix *matrix, struct tensor whole, int rank);

// Updates the momentum. Sets y (n) to this rank's slice of the direction, and adds its squares if asked to.
void muon_move_momentum(const struct config *config, const struct muon_matrix *matrix, struct tensor y,
                        struct tensor squares);
// Sets x to the direction of y, both (M, N), y in fp32: divided by its norm, unless muon_orthogonalize does that.
void muon_direct(const struct config *config, const struct muon_matrix *matrix, struct tensor x, struct tensor y,
                 struct tensor squares);
// Orthogonalizes the matrices of x (n, M, N); squares (n) are of muon_direct's input. Returns the results.
struct tensor muon_orthogonalize(const struct config *config, const struct optimizer_run *run, struct tensor x,
                                 struct tensor squares);
// Number of matrices of this shape to orthogonalize together; limited by the slots if states visit the device.
int64_t muon_most_together(const struct config *config, const struct muon_matrix *matrix);

// Whether this is NorMuon. Then muon_adapt divides the piece before muon_follow; ranks that hold slices of a matrix sum
// `after` in between. The tensors that muon_adapt sets in the piece are in scratch memory.
bool muon_keeps_norm(const struct config *config);
void muon_adapt(const struct config *config, const struct muon_matrix *matrix, struct muon_piece *piece);
// muon_needs_means: whether the mean squares of the rows or columns of a slice need more than the slice. The other sets
// y (M, N) fp32 to them, at every element of a whole matrix x (M, N) fp32.
bool muon_needs_means(const struct muon_matrix *matrix);
void muon_mean_squares(const struct muon_matrix *matrix, struct tensor y, struct tensor x);
// Takes the matrix's result: updates this rank's slice of the weights by it, or keeps it for that.
void muon_deliver(const struct config *config, const struct muon_matrix *matrix, const struct muon_piece *piece);
// The dtype of results that are sent: the iteration's, but fp32 for NorMuon, which divides them.
enum dtype muon_result_dtype(const struct config *config);
// Updates this rank's slice of the weights by x (rows, columns), which is overwritten if it is fp32.
void muon_follow(const struct config *config, const struct muon_matrix *matrix, struct tensor x);

// Updates matrices of which other ranks hold slices or copies, see muon_shared.c.
void muon_update_shared(const struct config *config, struct muon_matrix *list, int64_t total);

// Muon's updates on ranks that hold the same slices with the same states: data-parallel ranks without a distributed
// optimizer. Each of them, or its tensor-parallel group, orthogonalizes its share of the matrices and broadcasts the
// results while it works on the next ones. Every rank keeps the whole state: it updates all momenta and applies all
// results. Checkpoints, moving averages and replica checks are therefore not affected, and only results are sent (2
// bytes per element in bf16), not weights, momenta or masters.
//
// Results overwrite the gradients of their matrices, so they need no buffer. --log-num-zeros-in-grad reads gradients
// after the update; with it, results go to scratch memory.
// Consecutive matrices of one shape and one parameter, whose results are sent together: several if they are small, e.g.
// some of a layer's experts.
struct muon_bundle {
    struct muon_replicas *replicas;
    struct muon_matrix *first;
    int64_t count;
    int owner;
    int64_t missing;              // own results not yet computed
    struct tensor x;              // (elements), in muon_result_dtype
    struct comm_request results;  // of x
    struct comm_request
        moments;  // of NorMuon's second moments, for which the owner needs the results of whole matrices
};

struct muon_replicas {
    const struct config *config;
    struct group *group;
    struct muon_matrix *list;  // this rank's own first; both in the order of the bundles
    int64_t own_count, total;
    struct muon_bundle *bundles;  // in the order of their broadcasts
    int64_t count;
    int64_t started;  // broadcasts started so far
};

// Whether replicas share out the update of a run's matrix. Not if states visit the device: each would be copied twice,
// for its momentum and for the result.
bool replicas_share(const struct optimizer_run *run);

// Deals out the matrices of a list and updates the momenta of other ranks' matrices. The caller then updates [list,
// list + own_count) and passes the results to replicas_keep.
void replicas_open(struct muon_replicas *replicas, const struct config *config, const struct muon_matrix *list,
                   int64_t total);
// Stores the result x (rows, columns) of a matrix of this rank, and broadcasts all bundles that are complete. All ranks
// broadcast in the same order.
void replicas_keep(const struct muon_matrix *matrix, struct tensor x);
// Waits for all results, and updates the weights by them.
void replicas_close(struct muon_replicas *replicas);

// Assigns Muon's matrices to ranks and rounds, and lays out the slices in the buffers of the exchanges. For
// muon_shared.c.
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

// ---- who does which work ----

// Assigns pieces of work to ranks, in an order. The most expensive piece is assigned first, each to the rank with the
// least work so far: no rank has more than 4/3 of the optimum, and little more than its share if there are many pieces.
// The result depends only on the arguments, so ranks with the same list agree without a message.
//
// The work is done in rounds; ranks exchange inputs before and results after each. A round has as many consecutive
// pieces as its limits allow, so that memory for two rounds is enough.

struct deal_item {
    double cost;
    int64_t room;    // its part of a rank's limit
    int64_t own;     // its part of the limit of all ranks together
    int64_t number;  // the caller's; items of the same cost are in its order
    // Set:
    int owner;
    int64_t round;
};

struct deal_limits {
    int ranks;
    int64_t most_room;   // of a rank in a round; a single item may have more
    int64_t most_own;    // of all items of a round, with the same exception; 0: no limit
    int64_t most_items;  // of a round; 0: any
};

// Sorts the items by round and cost, and sets owners: the first rank has the most work. Returns the number of rounds.
int64_t deal_work(struct deal_item *items, int64_t count, const struct deal_limits *limits);

#endif
