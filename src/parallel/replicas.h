// Whether what several ranks hold is the same on all of them: parameters that are split, over the replicas of their
// group; and those that are not, over all ranks that share their layers. A flipped bit, or a collective that gave ranks
// different sums, shows up here instead of in a drifting loss curve.
#ifndef PARALLEL_REPLICAS_H
#define PARALLEL_REPLICAS_H

#include "base/buffer.h"
#include "ops/device.h"
#include "parallel/param.h"

enum { REPLICAS_MOST_NAMED = 8 };

// The first parameter that is not the same on all ranks that hold it, as far as this rank's peers know, or none.
struct replicas_fault {
    const struct param *param;
    const char *holders;  // ranks that should hold the same value
    int64_t element;      // the first of its value that differs; -1 if the value is the same, and only a state differs
    // The ranks that differ from the majority; without a majority, those that hold it, of which at least one is wrong.
    int ranks[REPLICAS_MOST_NAMED], count;
    const char *hosts[REPLICAS_MOST_NAMED];  // where they are, see group_host
    bool has_majority;
};
// `digests` has a number for each parameter that differs if what this rank holds of it does. All ranks call.
struct replicas_lab {
    struct device *device;
    struct tensor sum;  // (1) i64, to compute digests in
};
struct replicas_fault replicas_compare(const struct replicas_lab *lab, const struct mesh *mesh,
                                       const struct param_list *params, const int64_t *digests);
// The ranks of a group along these axes that differ in one number, see struct replicas_fault; -1 stands for a rank that
// does not hold what is compared. All of them call.
void replicas_blame(const struct mesh *mesh, unsigned axes, struct group *group, int64_t digest, bool is_held,
                    struct replicas_fault *fault);
// "rank 3 (node7)", "ranks 1 (a) and 5 (b)".
void replicas_name(const struct replicas_fault *fault, struct buffer *text);
// On how many ranks the parameter with the most replicas is.
int replicas_count(const struct mesh *mesh, const struct param_list *params);

#endif
