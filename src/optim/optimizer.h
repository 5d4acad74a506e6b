// Optimizers, one for each group of parameters. A rule is a row of the table in optimizer.c: the rates of an update,
// how a run of parameters is updated, and the numbers kept for every parameter (a list of named states, which
// optimizer_build allocates and checkpoints store). Clipping (updates.h) and the loss scale (updates.h) are separate;
// updates.h combines them.
//
// In fp32 the parameters are their own master copy. In fp16 the master copy is stored here, and the parameters are its
// rounded image. In bf16 the parameters are the upper half of the master copy, and the lower 16 bits are stored here:
// with Adam 16 bytes per parameter in all, instead of 18 with a whole copy. Only the last place of a tie is lost, see
// tensor/half.h.
//
// The optimizer may be split among the ranks that hold the same parameters. Then each rank has states and masters for
// its own pieces only and updates those parameters, and the caller gathers the other ranks' pieces afterwards.
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H

#include "config/config.h"
#include "ops/ops.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "parallel/pieces.h"
#include "tensor/arena.h"
#include "tensor/moment8.h"

// A rule has at most one less: the last state may be the moving average of the weights.
enum { OPTIMIZER_MOST_STATES = 3 };
// Matrices that a rule updates together.
enum { OPTIMIZER_MOST_TOGETHER = 64 };

// Inputs and outputs of an update.
struct update {
    struct device *device;
    const struct mesh *mesh;
    const struct param_list *params;
    struct tensor values;     // (n): the parameters, flat
    struct tensor grads;      // (n) fp32: reduced over the data-parallel ranks, at least within this rank's pieces
    struct tensor tokens;     // (1) fp32: gradients, sums over tokens / positions, become means over tokens; or none
    double positions;         // with tokens
    struct tensor scale;      // (1) fp32: factor of the gradients; NaN skips the update
    struct tensor rate;       // (updates_rate_count) fp32, see updates.h
    struct arena *scratch;    // for rules that take matrices
    struct offload *offload;  // for states in host memory; NULL if there are none
};

// Parameters that are updated in the same way and are contiguous in the flat buffers and in this rank's own.
struct optimizer_run {
    struct device *device;
    struct tensor master;                         // (n) fp32; int16 if the copy is bf16, see op_split
    struct tensor copy;                           // (n): the parameters; none if they are fp32 (then master is)
    struct tensor grad;                           // (n) fp32
    struct tensor states[OPTIMIZER_MOST_STATES];  // (n), in the rule's dtypes
    // For states in 8 bits: (n / MOMENT8_SHARE, rounded up) uint8; else none.
    struct tensor exponents[OPTIMIZER_MOST_STATES];
    struct tensor scale;         // (1) fp32
    struct tensor rate;          // (RATE_GROUP) fp32
    const struct param *matrix;  // with takes_matrices: the parameter of this slice, else NULL
    struct group *slices;        // ranks that hold the other slices; for experts, of the same experts
    struct group *replicas;      // ranks that hold the same slice and the same states; NULL if states are split
    struct arena *scratch;       // memory during the update of a run
    bool is_decayed;
    const struct optimizer *optimizer;
    struct offload *offload;  // where states in host memory visit the device; NULL if all are there
};

struct optimizer_rule {
    const char *name;                           // --optimizer
    const char *states[OPTIMIZER_MOST_STATES];  // names in a checkpoint, in front of a parameter's; NULL for none
    // The dtype of a state in memory: fp32, bf16, or uint8 for codes of moment8.h (of second moments if the state's
    // number is 1). NULL: all are fp32. A checkpoint in one dtype can be read into another; codes are saved in bf16 or
    // fp32, which hold them exactly.
    enum dtype (*dtype)(const struct config *config, int state);
    bool takes_matrices;  // a run is this rank's slice of one parameter; needs keeps_whole
    bool leaves_rest;     // embeddings and vectors, to --muon-scalar-optimizer
    // Sets the rates of update number t, counted from 1: the rule's own numbers, from RATE_OWN on, which `apply` reads.
    void (*begin)(const struct config *config, double lr, double weight_decay, int64_t t, float rate[RATE_GROUP]);
    // Updates a run, or with takes_matrices several runs; then it calls optimizer_bring and optimizer_return itself.
    void (*apply)(const struct config *config, const struct optimizer_run *run);
    void (*apply_all)(const struct config *config, const struct optimizer_run *runs, int64_t count);
};
extern const struct optimizer_rule optimizer_adam, optimizer_sgd, optimizer_lion, optimizer_muon,
    optimizer_adaptive_muon;
// The rule of that name; every name that --optimizer accepts has one.
const struct optimizer_rule *optimizer_find(const char *name);
// Their bytes for one element, in memory and in checkpoints.
double optimizer_state_bytes(const struct optimizer_rule *rule, const struct config *config);
double optimizer_saved_bytes(const struct optimizer_rule *rule, const struct config *config);
#define OPTIMIZER_AVERAGE "ema"

struct optimizer_state {
    const char *name;
    struct tensor tensor;     // (n / parts) fp32, bf16 or uint8
    struct tensor exponents;  // (n / parts / MOMENT8_SHARE) uint8, of codes in uint8; else none
    enum moment8_kind kind;   // of such codes
    bool is_hosted;           // both lie in host memory, see offload.h
};

// The exponents of elements [first, first + count) of a state in 8 bits; parameters and pieces begin where an exponent
// does.
struct tensor optimizer_exponents(const struct optimizer_state *state, int64_t first, int64_t count);

struct optimizer {
    const struct optimizer_rule *rule;
    const struct config *config;
    int group;  // of the list of parameters; it has n elements
    double lr_multiplier;
    struct pieces pieces;  // this rank's elements
    struct tensor master;  // (n / parts) fp32; int16 if the parameters are bf16, none if they are fp32
    struct optimizer_state states[OPTIMIZER_MOST_STATES];
    int state_count;
    struct tensor average;  // (n / parts) fp32: the moving average, the last of the states; none without --ema-decay
    bool has_hosted_master;
    // Elements that visit the device at once, at least a matrix with takes_matrices; 0: no state is in host memory.
    int64_t hosted_piece;
};

struct optimizer_options {
    const struct optimizer_rule *rule;
    const struct config *config;
    int group;
    double lr_multiplier;
    struct pieces pieces;
    enum dtype dtype;  // of the parameters
    // With --optimizer-cpu-offload: page-locked memory for states, and the number of elements that visit the device at
    // once, a multiple of MOMENT8_SHARE; 0 for enough to keep the bus busy.
    struct arena *host;
    int64_t hosted_piece;
    const struct param_list *params;  // needed with takes_matrices and a host, or if the list has factors
};
// Takes its tensors from the arena without setting them; optimizer_reset clears them.
void optimizer_build(struct optimizer *optimizer, struct arena *arena, const struct optimizer_options *options);
void optimizer_reset(struct optimizer *optimizer, struct device *device);
// Bytes of its states in a slot, see offload.h; 0 if none is in host memory.
size_t optimizer_hosted_bytes(const struct optimizer *optimizer);

// Updates this rank's elements of the group in [first, end) of the flat buffers. Only queues work on the device.
void optimizer_apply(const struct optimizer *optimizer, const struct update *update, int64_t first, int64_t end);

// Whether ranks that hold slices of the group's matrices share out their updates. Then all of them call optimizer_apply
// for the same ranges.
bool optimizer_shares_matrices(const struct optimizer *optimizer, const struct update *update);

// Whether other ranks hold slices of the run's matrix, or all of it.
bool optimizer_has_sharers(const struct optimizer_run *run);

// Called around the update of up to OPTIMIZER_MOST_TOGETHER runs of the same optimizer with at most hosted_piece
// elements. optimizer_bring copies states in host memory to the device and points the runs there. optimizer_return
// updates the moving averages and copies the states back.
void optimizer_bring(struct optimizer_run *const *runs, int64_t count);
void optimizer_return(struct optimizer_run *const *runs, int64_t count);

// The master copies of this rank's pieces, (n / parts) fp32; none if the parameters are fp32. Masters in halves are
// assembled in the memory of the group's gradients, which they occupy until optimizer_close_masters clears it. They are
// read-only; optimizer_take_weights sets masters.
struct tensor optimizer_open_masters(const struct optimizer *optimizer, const struct update *update);
void optimizer_close_masters(const struct optimizer *optimizer, const struct update *update);
// Takes whole weights from the memory of the group's gradients: rounds the parameters from them, sets the master copies
// of this rank's pieces, and clears the memory. Not for parameters in fp32.
void optimizer_take_weights(const struct optimizer *optimizer, const struct update *update);

// Sets the moving average to the master copies. Does nothing if there is none.
void optimizer_begin_average(const struct optimizer *optimizer, const struct update *update);
// Swaps the moving average and the master copies of this rank's pieces, and rounds the parameters from the new masters;
// a second call restores all bits. Overwrites the gradients, and clears them.
void optimizer_exchange_average(const struct optimizer *optimizer, const struct update *update);

#endif
