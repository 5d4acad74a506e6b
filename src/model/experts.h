// The parts of a layer of experts: rows sorted by expert, the router, the exchange of rows between ranks, operands of
// matmuls, and experts that every token visits. Internal to the files of experts.
#ifndef MODEL_EXPERTS_H
#define MODEL_EXPERTS_H

#include "model/choices.h"
#include "model/fp8.h"
#include "model/layer.h"
#include "model/sublayer.h"

// ---- matmuls ----

// Matmuls of experts: rows are sorted by expert, and each expert multiplies its rows by its own matrix. Only the device
// knows an expert's rows; `offsets` (E + 1) i32 tells where they begin (ops/ops_experts.h). Matmuls are in the pass's
// dtype or, while training, in fp8 (expert_operands.c makes the operands): with one range for all experts' matrices, or
// by blocks, none of which spans two experts.

struct grouped {
    struct param *weight;  // (E, out, in)
    struct fp8 *fp8;       // not NULL: matmuls are in fp8 while training, with the next
    int fp8_layer;
};

// y (R, out) = x (R, in) W^T.
void grouped_forward(const struct grouped *grouped, const struct pass *pass, struct tensor y, struct operand x,
                     struct tensor offsets);
// dx (R, in) = dy W.
void grouped_backward_input(const struct grouped *grouped, const struct pass *pass, struct tensor dx, struct operand dy,
                            struct tensor offsets);
// dW += dy^T x, or dW = dy^T x in the first pass of a step. Deferred if the pass says so; then memory is taken for
// `room` rows, the most of any pass.
void grouped_backward_weight(const struct grouped *grouped, const struct pass *pass, struct operand dy,
                             struct operand x, struct tensor offsets, int64_t room);

// The number N of rows.
int64_t expert_rows_count(const struct pass *pass);
// Whether these are the rows of all tensor-parallel ranks.
bool expert_rows_are_whole(const struct pass *pass);
// Whether this is the first of the ranks that split the same experts; it adds terms that are not split.
bool expert_rows_is_first(const struct pass *pass);
// (N, …) from this rank's (n, …), in memory from the arena; x itself if nothing is gathered.
struct tensor expert_rows_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name);
// All ranks' rows of a micro-batch from this rank's (n, …), in scratch and in the order of one rank that has them all;
// x itself if it has them.
struct tensor expert_rows_gather_all(const struct pass *pass, struct tensor x, const char *name);
// Sums `whole` (N, …) over the ranks that split the same experts: `out` gets this rank's (n, …), and is `whole` if
// nothing was gathered.
void expert_rows_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name);

// Most slots of a micro-batch that an expert takes, counted as in Megatron; 0: all. Evaluation and generation drop
// nothing, or results would depend on padding and on which sequences share a batch.
int64_t expert_rows_capacity(const struct pass *pass, const struct expert_choices *choices);
// Whether other ranks have other rows of the micro-batch, so that an expert's capacity is shared by them.
bool expert_rows_share_capacity(const struct pass *pass);
// Drops slots beyond the capacity, which counts all ranks' slots in the order of one rank that has them all: from
// experts (n, K) i32 with weights (n, K) fp32, returns experts, negative for dropped slots, in scratch.
struct tensor expert_rows_keep(const struct pass *pass, const struct expert_choices *choices, struct tensor experts,
                               struct tensor weights);

// The router of a mixture of experts: it scores all E experts for each row, and each row goes to its K best. It also
// has the losses that balance experts; they are part of the model's gradient, never of its loss.
//
// If ranks share layers and split the residual stream, each routes its own rows. If they do not split it, each routes
// all rows alike and has only its experts' part of the gradient of the weights; the first adds the gradient of the
// losses. In both cases all gradients of the router are partial and are summed over those ranks.
//
// The loss over the global batch is E / (K T^2) * sum over experts of (tokens that chose it * sum of its shares), over
// all T tokens of a step. The numbers of tokens are known only after the step's last micro-batch is routed, so its
// gradient uses the previous step's: the mean of an expert's shares is multiplied by its load in that step. The loss is
// therefore the same on every layout. It has no gradient in the first step.
struct router {
    struct linear linear;  // weight (E, C), bias (E)
    const struct expert_choices *choices;
    int64_t number;         // of its layer among those with experts
    int64_t dropout_layer;  // a number that keys the noise of its input
};

// Saved activations of one micro-batch, for backward.
struct router_saved {
    struct tensor logits;   // (N, E) fp32
    struct tensor experts;  // (N, K) i32
    struct tensor weights;  // (N, K) fp32
    // For the losses over the micro-batch and over each sequence: sums of shares and slopes of the loss, both (1, E) or
    // (B, E) fp32; none without that loss.
    struct tensor sums[BALANCE_COUNT], slopes[BALANCE_COUNT];
};

void router_build(struct router *router, struct param_list *params, const char *name,
                  const struct sublayer_options *options);
// x (N, C): this rank's rows of the stream. In training, adds to the step's counts of the rows that each expert gets.
void router_forward(const struct router *router, const struct pass *pass, struct router_saved *saved, struct tensor x);
// Adds to dx (N, C) the gradient of x, and adds to the gradient of the bias. Returns the gradient of the logits (N, E),
// in scratch and in the pass's dtype. Adds the losses to the micro-batch's sums.
struct first_gradients router_backward(const struct router *router, const struct pass *pass,
                                       const struct router_saved *saved, struct tensor dx, struct tensor dweights);

// Exchanges rows with the ranks that hold their experts (expert parallelism). Each of P ranks holds E / P consecutive
// experts. Every rank sorts the slots of its own rows by expert (op_sort_slots), so it sends each rank one range of
// places. Arriving rows are ordered by sender, then by expert. They are sorted by expert again; within an expert they
// stay in order of senders, and so of samples. Experts then work as on a single rank, with one slot per arrived row.
// Results return the same way in reverse.
//
// Ranks first exchange the numbers of rows, and the host waits for them. Tensors have as many rows as arrived, but
// their memory has room for as many as may arrive: the arenas are measured on paper, where all experts get equally many
// rows.
struct dispatch {
    int64_t sent[EXPERT_RANKS_MOST], received[EXPERT_RANKS_MOST];  // rows to each rank and from it
    int64_t rows, room;     // A: rows that arrived, rounded up, at least 1; most that may arrive
    int64_t places_room;    // most places they may take; R: places taken, A if not aligned
    struct tensor experts;  // (A, 1) i32, the arrived rows' experts, counted within this rank; until forward ends
    struct tensor weights;  // (A, 1) fp32, factors of the arrived rows' results; valid after dispatch_await_weights
    struct tensor offsets;  // (E / P + 1) i32: see op_sort_slots
    struct tensor sources;  // (R) i32
    struct tensor places;   // (A, 1) i32
    struct comm_request weights_way;  // transfer of the weights, until dispatch_await_weights
};

// This rank's sorted slots: the first place of each of all experts (E + 1), the slots at R places, and the slots'
// weights (N, K). `most`: rows that a rank may send to another. A, the number of arriving rows, is rounded up to a
// multiple of `step`; the added rows have no slot. Places of arriving rows are aligned, see op_sort_slots.
struct dispatch_slots {
    struct tensor offsets, sources, weights;
    int64_t usual;  // rows that this rank sends, on paper
    int64_t most, step, aligned;
};
// Exchanges the numbers of rows and starts to send their weights, from a copy in scratch that stays until they have
// arrived. Called by all expert-parallel ranks.
void dispatch_open(struct dispatch *dispatch, const struct pass *pass, const struct expert_choices *choices,
                   const struct dispatch_slots *slots);
// A tensor with one row per arrived row, and memory for all that may arrive.
struct tensor dispatch_take(const struct dispatch *dispatch, struct arena *arena, enum dtype dtype, int64_t columns);
void dispatch_await_weights(struct dispatch *dispatch);
// Sends rows from this rank's places (of all experts) to the ranks that hold the experts, and back.
void dispatch_send(const struct dispatch *dispatch, const struct pass *pass, struct tensor arrived,
                   struct tensor places, const char *name);
struct comm_request dispatch_return_start(const struct dispatch *dispatch, const struct pass *pass,
                                          struct tensor places, struct tensor arrived, const char *name);
// Waits until rows have arrived. Another pass that runs beside this one computes meanwhile.
void dispatch_await(const struct pass *pass, struct comm_request *requests, int count);

// Operands of the experts' matmuls: rows at their places, and the values between the two matmuls. They are in the
// pass's dtype or in fp8; storing fp8 is fused with the step before, unless the range is measured just before use or
// experts have biases. Ranks measure the rows they hold, since rows are stored after they have arrived.
//
// Weight gradients in fp8 read rows transposed, so R is then a multiple of 16. With scaling by blocks, blocks of the
// transpose lie along R, so each expert's places begin at a multiple of a block (op_sort_slots). Of the first matmul's
// input only the transpose is kept; that of the second is recomputed from the activation's input.
// The alignment of an expert's first place, and of R.
int64_t expert_rows_aligned(const struct grouped *grouped, const struct pass *pass);
int64_t expert_rows_step(const struct grouped *grouped);

// Input of this rank's experts: R rows, its own or received from other ranks.
struct experts_work {
    struct tensor offsets, sources, weights;  // see op_sort_slots; the weights of the slots
    int64_t rows, room;                       // R, and the most there may be
};

struct tensor work_take(const struct experts_work *work, struct arena *arena, enum dtype dtype, int64_t columns);

// Memory for rows at their places as a matmul's input: values for backward in the pass's activations, values for the
// matmul itself possibly in scratch.
struct operand work_take_input(const struct experts_work *work, const struct grouped *to, const struct pass *pass);
struct operand work_take_value(const struct experts_work *work, const struct grouped *to, const struct pass *pass,
                               struct operand input);
// Memory for the gradient of a matmul's output: in scratch, or in `plain` (R, C) if it is not in fp8.
struct operand work_take_gradient(const struct experts_work *work, const struct grouped *of, const struct pass *pass,
                                  struct tensor plain);
// op_gather_slots to an operand of either kind; op->y is not read.
void work_gather(const struct experts_work *work, const struct grouped *grouped, const struct pass *pass,
                 enum fp8_role role, struct operand to, const struct op_gather_slots *op);

// The two matmuls of experts and the activation between them.
struct expert_stage {
    const struct grouped *fc1, *fc2;
    const struct param *bias;  // of the first; or NULL
    const struct choices *choices;
};
// From `before` (R, F) or (R, 2F) to the input of the second matmul, in scratch.
struct operand expert_activate(const struct expert_stage *unit, const struct pass *pass,
                               const struct experts_work *work, struct tensor before);
// Computes the gradient of `before`, which it may replace, and `dweights` from the gradient of that input, (R, F) in
// `after`. Sets `after` to the input itself, in the form that the second matmul's weight gradient reads.
struct operand expert_activate_backward(const struct expert_stage *unit, const struct pass *pass,
                                        const struct experts_work *work, struct tensor before, struct operand *after,
                                        struct tensor dweights);

// Shared experts: the MLP beside a mixture of experts that every row goes through, with or without a gate. A gate is a
// router with one expert to choose from: the sigmoid of its logit is the weight of the MLP's result.
struct shared_experts {
    struct linear fc1, fc2;  // as an MLP's
    struct activation_step step;
    struct linear gate;  // weight (1, C); NULL without a gate
    const struct choices *choices;
};

struct shared_experts_saved {
    struct tensor x;                     // (n, C): this rank's rows of the input, kept by the caller
    struct activation_saved activation;  // without a gate
    // With a gate: the weight of each row, and input of the activation (N, F) or (N, 2F), which backward overwrites.
    struct tensor logits, weights;   // (N, 1) fp32
    struct tensor experts, places;   // (N, 1) i32: all 0; 0, 1, …
    struct tensor offsets, sources;  // (2) i32: 0, N; (N) i32: 0, 1, …
    struct tensor before;
};

void shared_experts_build(struct shared_experts *shared, struct param_list *params, const char *name,
                          const struct sublayer_options *options);
// out (N, C) = this rank's part of the result. x has all rows.
void shared_experts_forward(const struct shared_experts *shared, const struct pass *pass,
                            struct shared_experts_saved *saved, struct tensor out, struct tensor x);
// Recomputes a forward pass's saved activations, but not its result.
void shared_experts_again(const struct shared_experts *shared, const struct pass *pass,
                          struct shared_experts_saved *saved, struct tensor x);
// Adds to dx (N, C) this rank's part of the gradient; dy has all rows.
void shared_experts_backward(const struct shared_experts *shared, const struct pass *pass,
                             const struct shared_experts_saved *saved, struct tensor dx, struct tensor dy);

#endif
