// Named parameters. A model declares its parameters; the list lays them out in one flat buffer, and gradients,
// optimizer state and master weights in buffers of the same layout.
//
// Parameters belong to groups: those of a group are held by the same ranks and updated in the same way. Each group has
// its own range in the flat buffers; gradients are reduced, the optimizer split, norms summed and replicas compared
// group by group. Within a group the order is chosen so that each user finds what it needs in one range:
//  - Parameters with weight decay come first, so the optimizer works on two long ranges, not on hundreds of tensors.
//  - Those that every tensor-parallel rank holds whole lie together in the middle, so a norm counts them once.
//  - A parameter that several pipeline stages hold (tied embeddings) is a copy on all but the first of them. Copies
//    come before everything else, and norms leave them out. A parameter that has copies elsewhere comes first of its
//    kind, so that no gradient reduction that overlaps the backward pass includes it.
// Each parameter starts at a multiple of 64 elements; the gaps stay zero.
#ifndef PARALLEL_PARAM_H
#define PARALLEL_PARAM_H

#include "parallel/mesh.h"
#include "parallel/shard.h"

enum init_kind { INIT_ZERO, INIT_ONE, INIT_NORMAL };
enum { PARAM_ALIGNMENT = 64, PARAM_MOST_GROUPS = 5, PARAM_MOST_CLIPS = 2 };

// Rows of this rank's slice of a matrix that an update scales down if their heads had large scores, see op_clip_rows
// and model/qk_clip.h.
struct param_clip {
    const struct tensor *largest;  // (layers * all heads) fp32; laid out after the parameters
    int64_t first_head, heads;     // the heads of the rows
    int64_t first_row, units;      // units of unit_rows rows each, from first_row on
    int64_t unit_rows;
    int64_t first, count;  // the rows within a unit
    double threshold, power;
};

struct param {
    char *name;          // global, the same for every layout: "decoder.layers.0.mlp.linear_fc1.weight"
    struct shard shard;  // the whole shape, and this rank's slice of it
    enum init_kind init;
    double standard_deviation;  // for INIT_NORMAL
    bool has_decay;             // true for matrices and embeddings, false for biases and norms
    bool is_vocabulary;         // one row per word: may have a separate learning rate
    bool is_table;              // rows are looked up or added: positions, types, relative positions
    bool is_gain;               // of a norm
    bool is_centered;           // a gain stored as its distance from 1
    bool sums_gradient;         // held whole, but each rank that shares layers computes only part of its gradient
    bool is_shared;             // held by several pipeline stages: its gradient is final after the sum over them
    bool is_copy;               // also held by an earlier stage, which saves and counts it
    int group;                  // its number in the list; 0 unless the declarer sets it
    int factors;                // 0: usual factors; n: the list's factors[n - 1]
    int64_t offset;             // in the flat buffers, after param_list_layout
    struct tensor value;        // after param_list_bind: local shape, activation dtype
    struct tensor grad;         // local shape, fp32; none if nothing is trained
    struct param_clip clips[PARAM_MOST_CLIPS];
    int clip_count;
};

struct param_group {
    const char *name;  // not copied
    // Axes of the mesh. Together they are MESH_STAGE: along the pipeline, ranks hold other parameters.
    unsigned replicas;      // ranks along them hold the same values, and their gradients are summed
    unsigned slices;        // a tensor is split over all ranks along them, or all of them hold it whole
    const char *optimizer;  // a row of the table of optimizers; NULL for the run's
    double lr_multiplier;   // of the run's learning rate
    // If an optimizer of matrices leaves the rest to another one: the name of the group of parameters that are not
    // matrices, which may be this one. Not copied; NULL if all are matrices.
    const char *rest;
    // Constraints of the layout, set before it by the code that splits the group; 0 for none.
    int64_t multiple;  // the number of elements is a multiple of this
    int64_t unit;      // no parameter crosses a multiple of this, counted from `first`
    // Set by the layout: ranges of elements in the flat buffers.
    int64_t first, end;                // all of the group, including gaps
    int64_t counted_first;             // [first, counted_first) belong to copies
    int64_t decayed;                   // [first, decayed) have weight decay
    int64_t whole_first, whole_end;    // belong to parameters that are not split
    int64_t summed_first, summed_end;  // of those, the range with sums_gradient
};

// Factors of the learning rate and the weight decay. Usual: 1 and 1, or without has_decay 1 and 0.
struct param_factors {
    double lr, decay;
};

struct param_list {
    struct param **items;    // in order of declaration
    struct param **ordered;  // after the layout: in the order of the flat buffers
    int count, capacity;
    struct param_group groups[PARAM_MOST_GROUPS];
    int group_count;
    struct param_factors *factors;  // of parameters without the usual factors
    int factors_count;
    int64_t total;      // all elements, including gaps
    const char *scope;  // prefix of the names declared from now on; NULL: none; not copied
};

// The number of the group of this name, which is added if missing; all pipeline stages add the same groups in the same
// order.
int param_list_group(struct param_list *list, const struct param_group *group);
// Group number 0, the default of parameters; a list without parameters has it too. It has replicas along MESH_REPLICAS,
// slices along the tensor axis, and the run's optimizer and learning rate.
struct param_group *param_list_usual(struct param_list *list);
// Returns a parameter that will not move in memory; `name` is copied.
struct param *param_add(struct param_list *list, const char *name, struct shard shard, enum init_kind init,
                        double standard_deviation);
// The parameter of this name if the list has it, otherwise as above.
struct param *param_obtain(struct param_list *list, const char *name, struct shard shard, enum init_kind init,
                           double standard_deviation);
struct param *param_find(const struct param_list *list, const char *name);  // or NULL
// Sets the offsets, and the ranges of the groups.
void param_list_layout(struct param_list *list);
// Points the value and gradient of every parameter into the flat buffers; grads may be none.
void param_list_bind(struct param_list *list, struct tensor values, struct tensor grads);
// Points the values to those of another list with the same parameters in the same order; leaves out gradients.
void param_list_share(struct param_list *list, const struct param_list *owner);
// The local slice of a parameter in a flat buffer of the same layout; param_at: beginning at another element.
struct tensor param_in(const struct param *param, struct tensor flat);
struct tensor param_at(const struct param *param, struct tensor buffer, int64_t offset);
// Sets the parameter's factors, which only affect updates.
void param_set_factors(struct param_list *list, struct param *param, struct param_factors factors);
struct param_factors param_factors(const struct param_list *list, const struct param *param);
// End of a parameter in the flat buffers, including the gap after it.
int64_t param_end(const struct param *param);
// The index in `ordered` of the first parameter that ends after this element; the count if none does.
int param_list_beyond(const struct param_list *list, int64_t element);
int64_t param_list_elements(const struct param_list *list);  // local elements without gaps
void param_list_free(struct param_list *list);

#endif
