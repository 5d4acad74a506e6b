// Checks that copies of parameters are equal on all ranks: split parameters over the replicas of their group, others
// over all ranks that share their layers. A flipped bit, or a collective that gave ranks different sums, shows up here
// instead of in a drifting loss curve.
#ifndef PARALLEL_REPLICAS_H
#define PARALLEL_REPLICAS_H

#include "base/buffer.h"
#include "ops/device.h"
#include "parallel/param.h"

enum { REPLICAS_MOST_NAMED = 8 };

// The first parameter that differs among the ranks that hold it, as far as this rank's peers know, or none.
struct replicas_fault {
    const struct param *param;
    const char *holders;  // ranks that should hold the same value
    int64_t element;      // the first of its value that differs; -1 if the value is the same, and only a state differs
    // The ranks that differ from the majority; without a majority, all holders, of which at least one is wrong.
    int ranks[REPLICAS_MOST_NAMED], count;
    const char *hosts[REPLICAS_MOST_NAMED];  // their hosts, see group_host
    bool has_majority;
};
// `digests` has for each parameter a number that differs if this rank's part of it does. All ranks call.
struct replicas_lab {
    struct device *device;
    struct tensor sum;  // (1) i64, to compute digests in
};
struct replicas_fault replicas_compare(const struct replicas_lab *lab, const struct mesh *mesh,
                                       const struct param_list *params, const int64_t *digests);
// Finds the ranks of a group along these axes whose digests differ, see struct replicas_fault; is_held: this rank holds
// the compared value. All of them call.
void replicas_blame(const struct mesh *mesh, unsigned axes, struct group *group, int64_t digest, bool is_held,
                    struct replicas_fault *fault);
// "rank 3 (node7)", "ranks 1 (a) and 5 (b)".
void replicas_name(const struct replicas_fault *fault, struct buffer *text);
// Number of ranks that hold the parameter with the most replicas.
int replicas_count(const struct mesh *mesh, const struct param_list *params);

#endif
