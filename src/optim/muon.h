// Internal to the files of Muon, see muon.c.
#ifndef OPTIM_MUON_H
#define OPTIM_MUON_H

#include "optim/optimizer.h"

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
    struct muon_bundle *bundle;  // if replicas share out the updates, see muon_replicas.h; else NULL
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

#endif
