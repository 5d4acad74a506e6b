// Named parameters. A model declares what it has; the list lays them out in one flat buffer (and gradients, optimizer
// state and master weights in buffers of the same layout), those with weight decay first, so that the optimizer works
// on two long ranges instead of hundreds of tensors. Those of which every rank of a tensor-parallel group holds the
// whole lie together in the middle, so that a norm can count them once. Each starts on a multiple of 64 elements; the
// gaps stay zero. What several stages of a pipeline hold (tied embeddings) is a copy on all but the first of them;
// copies come first of all, and norms leave them out. What has copies elsewhere comes before the others of its kind, so
// that no reduction of gradients under the backward pass takes it along.
#ifndef PARALLEL_PARAM_H
#define PARALLEL_PARAM_H

#include "parallel/shard.h"

enum init_kind { INIT_ZERO, INIT_ONE, INIT_NORMAL };
enum { PARAM_ALIGNMENT = 64 };

struct param {
    char *name;          // global, the same on every layout: "decoder.layers.0.mlp.linear_fc1.weight"
    struct shard shard;  // whole shape and this rank's slice of it
    enum init_kind init;
    double standard_deviation;  // of INIT_NORMAL
    bool has_decay;             // matrices and embeddings; not biases and norms
    bool sums_gradient;         // whole, but its gradient is one part of it on each rank that shares layers
    bool is_shared;             // several pipeline stages hold it: its gradient is final after they were summed
    bool is_copy;               // and an earlier one than this: it is saved and counted there
    int64_t offset;             // in the flat buffers, after param_list_layout
    struct tensor value;        // after param_list_bind: local shape, activation dtype
    struct tensor grad;         // local shape, fp32; none where there is no training
};

struct param_list {
    struct param **items;  // in order of declaration
    int count, capacity;
    int64_t counted_first;             // elements [0, counted_first) are of copies
    int64_t decayed;                   // elements [0, decayed) have weight decay
    int64_t whole_first, whole_end;    // elements [first, end) are of parameters that are not split
    int64_t summed_first, summed_end;  // and of those, these are of parameters with sums_gradient
    int64_t total;                     // elements in all, gaps included
};

// Returns a parameter that stays where it is; name is copied.
struct param *param_add(struct param_list *list, const char *name, struct shard shard, enum init_kind init,
                        double standard_deviation);
// The parameter of this name where the list has it, else as above.
struct param *param_obtain(struct param_list *list, const char *name, struct shard shard, enum init_kind init,
                           double standard_deviation);
struct param *param_find(const struct param_list *list, const char *name);  // or NULL
void param_list_layout(struct param_list *list);
// Makes the total a multiple of so many elements, with a gap at the end.
void param_list_pad(struct param_list *list, int64_t multiple);
// Points value and grad of every parameter into the flat buffers; grads may be none.
void param_list_bind(struct param_list *list, struct tensor values, struct tensor grads);
// The local slice of a parameter in a flat buffer of the same layout (Adam moments, master weights).
struct tensor param_in(const struct param *param, struct tensor flat);
int64_t param_list_elements(const struct param_list *list);  // local elements without gaps
void param_list_free(struct param_list *list);

#endif
