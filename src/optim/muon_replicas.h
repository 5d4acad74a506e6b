// Muon's updates on ranks that hold the same slices with the same states: data-parallel ranks without a distributed
// optimizer. Each of them, or its tensor-parallel group, orthogonalizes its share of the matrices and broadcasts the
// results while it works on the next ones. Every rank keeps the whole state: it updates all momenta and applies all
// results. Checkpoints, moving averages and replica checks are therefore not affected, and only results are sent (2
// bytes per element in bf16), not weights, momenta or masters.
//
// Results overwrite the gradients of their matrices, so they need no buffer. --log-num-zeros-in-grad reads gradients
// after the update; with it, results go to scratch memory.
#ifndef OPTIM_MUON_REPLICAS_H
#define OPTIM_MUON_REPLICAS_H

#include "optim/muon.h"

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

#endif
