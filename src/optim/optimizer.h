// Optimizers, one for each group of parameters. A rule of updates is a row of the table in optimizer.c: the rates of
// an update, how a run of parameters is updated, and which numbers it keeps for every parameter (a list of named
// states, which optimizer_build takes and checkpoints store). Clipping (clip.h) and the loss scale (scaler.h) stand
// beside it; updates.h puts them together.
//
// In fp32 the parameters are their own master copy. In fp16 the master copy is stored here, and the parameters are its
// rounded image. In bf16 the parameters are the upper half of the master copy, and the 16 bits that they lack are
// stored here: with Adam 16 bytes per parameter in all, instead of 18 with a whole copy. Nothing is lost but the last
// place of a tie, see tensor/half.h.
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

// A rule has at most one less: the last may be the moving average of the weights.
enum { OPTIMIZER_MOST_STATES = 3 };
// Matrices that a rule updates together.
enum { OPTIMIZER_MOST_TOGETHER = 64 };

// What an update works on.
struct update {
    struct device *device;
    const struct mesh *mesh;
    const struct param_list *params;
    struct tensor values;  // (n): the parameters, flat
    struct tensor grads;   // (n) fp32: reduced over the data-parallel ranks, at least within this rank's pieces
    struct tensor tokens;  // (1) fp32: gradients are sums over tokens / positions, and become means over these; or none
    double positions;      // with tokens
    struct tensor scale;   // (1) fp32, by which gradients are multiplied; if it is NaN nothing changes
    struct tensor rate;    // (updates_rate_count) fp32, see updates.h
    struct arena *scratch;    // for rules that take matrices
    struct offload *offload;  // for states in host memory; NULL if there are none
};

// Parameters that are updated alike and lie together in the flat buffers and in this rank's own.
struct optimizer_run {
    struct device *device;
    struct tensor master;                         // (n) fp32; int16 if the copy is bf16, see op_split
    struct tensor copy;                           // (n): the parameters; none if they are fp32 (then master is)
    struct tensor grad;                           // (n) fp32
    struct tensor states[OPTIMIZER_MOST_STATES];  // (n), in the dtypes that the rule says
    // Of states in 8 bits, (n / MOMENT8_SHARE, rounded up) uint8; else none.
    struct tensor exponents[OPTIMIZER_MOST_STATES];
    struct tensor scale;         // (1) fp32
    struct tensor rate;          // (RATE_GROUP) fp32
    const struct param *matrix;  // with takes_matrices: whose slice this is, else NULL
    struct group *slices;        // ranks that hold the other slices; of experts, of the same ones
    struct group *replicas;      // ranks that hold the same slice and the same states; NULL if states are split
    struct arena *scratch;       // memory for as long as the update of a run takes
    bool is_decayed;
    const struct optimizer *optimizer;
    struct offload *offload;  // where states in host memory visit the device; NULL if all are there
};

struct optimizer_rule {
    const char *name;                           // --optimizer
    const char *states[OPTIMIZER_MOST_STATES];  // names in a checkpoint, in front of a parameter's; NULL for none
    // Of a state in memory: fp32, bf16, or uint8 for codes of moment8.h, of second moments if the state's number is 1.
    // NULL: all are fp32. Checkpoints of one are read as the other; those of codes have bf16 or fp32, which hold them
    // exactly.
    enum dtype (*dtype)(const struct config *config, int state);
    bool takes_matrices;  // a run is this rank's slice of one parameter; needs keeps_whole
    bool leaves_rest;     // embeddings and vectors, to --muon-scalar-optimizer
    // Sets the rates of update number t, counted from 1: the rule's own numbers, from RATE_OWN on, which `apply` reads.
    void (*begin)(const struct config *config, double lr, double weight_decay, int64_t t, float rate[RATE_GROUP]);
    // Updates a run, or with takes_matrices several; the latter calls optimizer_bring and optimizer_return itself.
    void (*apply)(const struct config *config, const struct optimizer_run *run);
    void (*apply_all)(const struct config *config, const struct optimizer_run *runs, int64_t count);
};
extern const struct optimizer_rule optimizer_adam, optimizer_sgd, optimizer_lion, optimizer_muon,
    optimizer_adaptive_muon;
// The rule of that name; every name that --optimizer accepts has one.
const struct optimizer_rule *optimizer_find(const char *name);
// How many states a run has: the rule's and, with --ema-decay, OPTIMIZER_AVERAGE.
int optimizer_state_count(const struct optimizer_rule *rule, const struct config *config);
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

// The exponents of elements [first, first + count) of a state in 8 bits; where parameters and pieces begin, an exponent
// does.
struct tensor optimizer_exponents(const struct optimizer_state *state, int64_t first, int64_t count);

struct optimizer {
    const struct optimizer_rule *rule;
    const struct config *config;
    int group;  // of the list of parameters; it has n elements
    double lr_multiplier;
    struct pieces pieces;  // what this rank holds of them
    struct tensor master;  // (n / parts) fp32; int16 if the parameters are bf16, none if they are fp32
    struct optimizer_state states[OPTIMIZER_MOST_STATES];
    int state_count;
    struct tensor average;  // (n / parts) fp32: the moving average, the last of the states; none without --ema-decay
    bool has_hosted_master;
    // How many elements visit the device at once, with takes_matrices no fewer than a matrix has; 0: no state is in
    // host memory.
    int64_t hosted_piece;
};

struct optimizer_options {
    const struct optimizer_rule *rule;
    const struct config *config;
    int group;
    double lr_multiplier;
    struct pieces pieces;
    enum dtype dtype;  // of the parameters
    // With --optimizer-cpu-offload: page-locked memory for states, and how many elements visit the device at once, a
    // multiple of MOMENT8_SHARE; 0 for as many as keep the bus busy.
    struct arena *host;
    int64_t hosted_piece;
    const struct param_list *params;  // with takes_matrices and a host, or with factors of its own
};
// Takes its tensors from the arena without setting them; optimizer_reset clears them.
void optimizer_build(struct optimizer *optimizer, struct arena *arena, const struct optimizer_options *options);
void optimizer_reset(struct optimizer *optimizer, struct device *device);
// Bytes of its states in a slot, see offload.h; 0 if none is in host memory.
size_t optimizer_hosted_bytes(const struct optimizer *optimizer);

// Updates what this rank holds of the group in [first, end) of the flat buffers. Only queues work on the device.
void optimizer_apply(const struct optimizer *optimizer, const struct update *update, int64_t first, int64_t end);

// Whether ranks that hold slices of the group's matrices share out their updates. Then all of them call optimizer_apply
// for the same ranges.
bool optimizer_shares_matrices(const struct optimizer *optimizer, const struct update *update);

// Whether other ranks hold slices of the run's matrix, or all of it.
bool optimizer_has_sharers(const struct optimizer_run *run);

// Around the update of runs of the same optimizer that are updated together, up to OPTIMIZER_MOST_TOGETHER and with no
// more elements than hosted_piece: states in host memory come to the device, where the runs then have them. Afterwards
// moving averages follow the weights, and the states go back.
void optimizer_bring(struct optimizer_run *const *runs, int64_t count);
void optimizer_return(struct optimizer_run *const *runs, int64_t count);

// The master copies of this rank's pieces, (n / parts) fp32; none if the parameters are fp32. Masters in halves are put
// together where the group's gradients begin, which they occupy until optimizer_close_masters clears them. They are for
// reading; optimizer_take_weights sets them.
struct tensor optimizer_open_masters(const struct optimizer *optimizer, const struct update *update);
void optimizer_close_masters(const struct optimizer *optimizer, const struct update *update);
// Rounds the group's parameters from whole weights where its gradients are, takes the master copies of this rank's
// pieces from there, and clears them. Not for parameters in fp32.
void optimizer_take_weights(const struct optimizer *optimizer, const struct update *update);

// Begins the moving average at the master copies. Does nothing if there is none.
void optimizer_begin_average(const struct optimizer *optimizer, const struct update *update);
// Exchanges the moving average and the master copies of this rank's pieces, and rounds the parameters from what are now
// the masters; a second call undoes it to the bit. Overwrites the gradients, and clears them.
void optimizer_exchange_average(const struct optimizer *optimizer, const struct update *update);

#endif
