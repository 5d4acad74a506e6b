// What the files of Muon share, see muon.c. Not for others.
#ifndef OPTIM_MUON_H
#define OPTIM_MUON_H

#include "optim/optimizer.h"

// Rows of this rank's slice that belong to a matrix of their own: all, a segment, or those of one of several matrices.
struct matrix_part {
    int64_t first, rows;
};

// One matrix of an update.
struct muon_matrix {
    struct optimizer_run run;  // its part of the parameter's
    struct matrix_part part;
    int64_t M, N;  // of the whole
    bool is_done;
    struct muon_bundle *bundle;  // if replicas share out the updates, see muon_replicas.h; else NULL
};

// This rank's slice of a matrix that was made orthogonal, and what NorMuon knows of the whole.
struct muon_piece {
    struct tensor own;      // (rows, columns), contiguous, fp32 or bf16; overwritten if it is fp32
    struct tensor before;   // (1) fp32: the sum of squares of the whole; none: own is the whole
    struct tensor squares;  // (rows, columns) fp32: see muon_needs_means; none: those of own
    struct tensor after;    // (1) fp32 += the sum of squares of own after the division
};

int64_t muon_columns(const struct muon_matrix *matrix);
// Whether ranks hold slices of it. Otherwise all of them hold it whole.
bool muon_is_split(const struct muon_matrix *matrix);
// Whether the slices of all ranks, one after the other, are the whole matrix.
bool muon_slices_follow(const struct muon_matrix *matrix);
// Where a rank's slice lies in the whole matrix.
struct tensor muon_place(const struct muon_matrix *matrix, struct tensor whole, int rank);

// Moves the momentum on. Sets y (n) to what is followed of this rank's slice, and adds its squares if asked to.
void muon_move_momentum(const struct config *config, const struct muon_matrix *matrix, struct tensor y,
                        struct tensor squares);
// Sets x to the direction of y, both (M, N), y in fp32: divided by its norm, unless muon_orthogonalize does that.
void muon_direct(const struct config *config, const struct muon_matrix *matrix, struct tensor x, struct tensor y,
                 struct tensor squares);
// Makes the matrices of x (n, M, N) orthogonal; squares (n) are of what muon_direct was given. Returns where they are.
struct tensor muon_orthogonalize(const struct config *config, const struct optimizer_run *run, struct tensor x,
                                 struct tensor squares);
// How many matrices of this shape are made orthogonal together. If states visit the device, no more than it has room
// for.
int64_t muon_most_together(const struct config *config, const struct muon_matrix *matrix);

// Whether it is NorMuon. Then muon_adapt divides the piece before muon_follow; ranks that hold slices of a matrix add
// up `after` in between. What muon_adapt leaves in the piece lies in scratch memory.
bool muon_keeps_norm(const struct config *config);
void muon_adapt(const struct config *config, const struct muon_matrix *matrix, struct muon_piece *piece);
// Whether the mean squares of the rows or columns that a slice lies in are not those of the slice; and what they are in
// y (M, N) fp32, of a whole matrix x (M, N) fp32.
bool muon_needs_means(const struct muon_matrix *matrix);
void muon_mean_squares(const struct muon_matrix *matrix, struct tensor y, struct tensor x);
// The piece is the result of the matrix: this rank's slice of the weights moves along it, or it is kept for that.
void muon_deliver(const struct config *config, const struct muon_matrix *matrix, const struct muon_piece *piece);
// The dtype of results that travel: of the iteration, but NorMuon's are divided in fp32.
enum dtype muon_result_dtype(const struct config *config);
// Moves this rank's slice of the weights along x (rows, columns), which is overwritten if it is fp32.
void muon_follow(const struct config *config, const struct muon_matrix *matrix, struct tensor x);

// Updates matrices whose slices, or copies, other ranks hold too: see muon_shared.c.
void muon_update_shared(const struct config *config, struct muon_matrix *list, int64_t total);

#endif
