// A layer consists of its parameters, a forward pass that saves activations, and the backward pass, written by hand
// beside its forward pass. All layers are written against the table of operations and know no backend.
//
// A `struct pass` takes one micro-batch through a stack of layers. Tensors that the backward pass needs come from
// `activations` and live until the micro-batch is done; temporaries come from `scratch` and live until the function
// that took them returns. The residual stream, activations and their gradients are (N, C) with N = B * T rows, in the
// pass's dtype.
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include "data/batch.h"
#include "ops/device.h"
#include "ops/ops.h"
#include "parallel/shard.h"
#include "parallel/param.h"
#include "parallel/reducer.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

// ---- a micro-batch in device memory ----

// A micro-batch in device memory: the fields of data/batch.h as tensors of the same names; none for fields that the
// batch lacks. If ranks share sequences, it is this rank's part.

// The losses that balance experts: over a micro-batch, over each of its sequences, over the global batch; and the
// z-loss, which keeps logits small.
enum balance_kind { BALANCE_BATCH, BALANCE_SEQUENCE, BALANCE_GLOBAL, BALANCE_Z, BALANCE_COUNT };

// What became of each token's label, (rows) fp32 each, or none: its loss, the largest logit, and the label's logit.
struct token_scores {
    struct tensor losses, largest, target;
};

struct device_batch {
    struct batch_form form;
    union {
        struct {
#define DEVICE_BATCH_MEMBER(id, name, ...) struct tensor name;
            BATCH_FIELDS(DEVICE_BATCH_MEMBER)
#undef DEVICE_BATCH_MEMBER
        };
        struct tensor fields[BATCH_FIELD_COUNT];  // each flat
    };
    struct tensor loss_sum, pair_loss_sum;     // (1) fp32: the heads add their losses to them
    struct tensor depth_losses, depth_counts;  // fp32, one for each depth, or none: sums of losses, numbers of tokens
    struct tensor top_hits;                    // fp32, one for each of ICT's top-k accuracies, or none: sums of hits
    struct tensor balance_sums;                // (BALANCE_COUNT) fp32 or none: routers add their losses to them
    struct tensor expert_counts;               // fp32, E for each layer with experts, or none: rows per expert
    struct tensor expert_bias;  // same shape, or none: biases that routers add to scores to choose experts
    // Shaped like the counts, for the loss over the global batch, else none: sums of shares, and rows with an expert
    // among their largest logits (routers add to both); each expert's load in the last step, see op_balance_load.
    struct tensor global_sums, global_counts, expert_load;
    struct token_scores scores;   // the head overwrites them
    struct tensor balance_share;  // (1) fp32 or none: factor of the gradients of routers' losses
};

// The batch in a block of memory with the layout of batch_in_block. The sums are left to the caller.
struct device_batch device_batch_in_block(const struct batch_form *form, void *block);

// ---- inputs in host memory ----

// Keeps inputs of recomputed blocks in host memory (--cpu-offloading). They are not read between the forward pass and
// the recompute, and with long sequences they take most of a device's memory.
//
// Two device tensors (slots) alternate. While a block computes, its input is copied to the host on a separate stream;
// the next block writes to the other slot. In the backward pass, the previous block's input is copied back while a
// block computes. Results do not change by a bit. One micro-batch is in flight at a time.

enum { OFFLOAD_SLOTS = 2 };

struct input_offload {
    struct arena arena;  // page-locked host memory, the owner's; empty between micro-batches
    struct device *device;
    struct event *queued;                  // work on the compute stream that a copy must follow
    struct event *left[OFFLOAD_SLOTS];     // a tensor is in host memory
    struct event *arrived[OFFLOAD_SLOTS];  // a tensor is on the device
    bool is_leaving[OFFLOAD_SLOTS];
};

void input_offload_open(struct input_offload *offload, struct device *device);
void input_offload_close(struct input_offload *offload);  // a zeroed one is fine
// Queues a copy of x, in this slot, to host memory; returns it there.
struct tensor input_offload_send(struct input_offload *offload, struct tensor x, int slot);
// Later work on the compute stream waits until the slot's tensor is in host memory, and may overwrite the slot.
void input_offload_await_left(struct input_offload *offload, int slot);
// Queues a copy of `home` from host memory, after all work enqueued on the compute stream so far.
void input_offload_bring(struct input_offload *offload, struct tensor to, struct tensor home, int slot);
// Later work on the compute stream waits until the slot's tensor is back on the device.
void input_offload_await_arrived(struct input_offload *offload, int slot);

// The encoder's output, to which a decoder cross-attends.
struct memory {
    struct tensor x;   // (B * T, C), with the encoder's T
    struct tensor dx;  // same shape: the gradients are accumulated here
    int64_t T;         // rows per sample
};

struct pass {
    struct device *device;
    const struct mesh *mesh;
    struct arena *activations, *scratch;
    enum dtype dtype;
    int64_t B, T;             // sequences, and how many tokens of each this rank holds
    bool is_training;         // dropout is on, and a backward pass follows
    bool keeps_results;       // keeps results of norms and activations for backward, see pass_keeps_results
    bool is_again;            // recompute: operations that happen once per row are not repeated
    bool holds_attention;     // keeps results of attention for the recompute, see attention_hold
    bool is_first;            // first pass of a step: matmuls write their weight gradients instead of adding to them
    bool is_last;             // last pass of a step: after its backward the gradients are final
    struct reducer *reducer;  // learns when gradients are final and provides parameters; NULL for neither
    bool splits_rows;         // sequence parallelism, see pass_stream_rows
    bool leaves_sums;         // sublayers do not sum their outputs over the ranks that share them: the block does
    uint64_t seed;            // for the dropout masks
    const struct device_batch *batch;                   // see pass_input
    bool is_over_encoder;                               // the stack is a decoder over an encoder
    bool attends_memory;                                // keys of attention are the encoder's
    struct tensor relative_bias[CONTEXT_MOST_STRIPS];   // (H, Tq + Tk - 1) fp32 or none, for each strip of queries
    struct tensor drelative_bias[CONTEXT_MOST_STRIPS];  // (B, H, Tq + Tk - 1) fp32 or none
    // For generation: the flight has caches (model_take_cache), which hold this many earlier tokens.
    bool has_cache;
    int64_t cached;
    struct memory memory;  // for cross-attention
    // Collects the weight gradients of the blocks to be computed later, see deferred.h; NULL to compute them at once.
    struct deferred *deferred;
    struct input_offload *input_offload;  // where inputs of recomputed blocks go, or NULL: they stay on the device
    // Shared with the pass of another micro-batch, which computes while this one's rows are sent to experts of other
    // ranks; NULL: none.
    struct coroutine *coroutine;
};

// The places where dropout is applied. Masks are keyed by layer and place, so all differ.
enum dropout_place { DROPOUT_EMBEDDING, DROPOUT_ATTENTION, DROPOUT_AFTER_ATTENTION, DROPOUT_AFTER_MLP, DROPOUT_PLACES };

// A field of the batch for the pass's stack: a decoder over an encoder has its own tokens.
struct tensor pass_input(const struct pass *pass, enum batch_field field);
struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place);
int64_t pass_rows(const struct pass *pass);
// Whether to keep results that backward could recompute on its way at the cost of a second store.
bool pass_keeps_results(const struct pass *pass);
// With splits_rows (sequence parallelism), the ranks that share layers also split the residual stream: through norms,
// dropout and residual additions each holds N / parts of its rows, and all rows are gathered only for the matmuls of a
// layer. These return the number of rows of the residual stream on this rank, and this rank's rows of a tensor with one
// row per token.
int64_t pass_stream_rows(const struct pass *pass);
struct tensor pass_own_rows(const struct pass *pass, struct tensor x);
// Gathers all rows of the residual stream from this rank's x (n, C), into memory from the arena. Returns x itself if
// it is not split.
struct tensor pass_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name);
// Sums `whole` (N, C) over the ranks that share each layer: in place if the residual stream is not split (`out` is
// `whole`), else `out` receives this rank's rows of the sum. Does nothing if this rank holds its layers alone.
void pass_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name);
// A pass whose saved activations are in scratch. With is_again it is the recompute of a forward pass, for the backward
// pass that follows.
struct pass pass_in_scratch(const struct pass *pass, bool is_again);
// Called before this parameter, or any parameter declared before it, is read: a distributed optimizer may still be
// sending their values. NULL is fine.
void pass_await_param(const struct pass *pass, const struct param *param);
// Reports that the backward of everything declared from this matrix on is done.
void pass_gradients_final(const struct pass *pass, const struct param *param);
// Number of ranks that share each layer.
int pass_parts(const struct pass *pass);

// A matrix that is not quantized.
static inline struct operand operand_of(struct tensor value) {
    return (struct operand){.value = value};
}

// LayerNorm or RMSNorm.
struct norm {
    enum norm_kind kind;
    struct param *gain, *bias;  // (C), or a row for each head; bias may be NULL
    float gain_offset;          // stored gains are the difference to this
    float epsilon;
};
struct norm_options {
    enum norm_kind kind;
    int64_t C;
    double epsilon;
    bool has_no_bias;    // of a LayerNorm
    bool is_centered;    // stored gains are the distance from 1, which is more precise in 16 bits
    bool sums_gradient;  // see struct param
    struct shard heads;  // shard of gains with a row of C per head; zeroed for one row
};
void norm_build(struct norm *norm, struct param_list *params, const char *name, const struct norm_options *options);

struct norm_saved {
    struct tensor mean, rstd;  // (N) fp32; no mean with RMS
    struct operand y;          // (N, C): the result; if not kept, backward recomputes it
};
// Takes memory for the saved activations of a norm of `rows` rows. The result goes to y; if y is none, it is kept too.
void norm_take(const struct norm *norm, const struct pass *pass, struct norm_saved *saved, int64_t rows,
               struct operand y);

// Addition to the residual stream before the norm; zeroed for none.
struct residual {
    struct tensor delta, bias;  // (N, C), (C) or none
    struct tensor sum;          // (N, C) out
    struct dropout dropout;
};
void norm_forward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved, struct tensor x,
                  const struct residual *residual);
// Gradients of that addition; zeroed for none.
struct residual_gradient {
    struct tensor ddelta, dbias;  // (N, C) out, (C) accumulated or none
    struct dropout dropout;
};
struct norm_gradient {
    struct tensor dx, dy;     // (N, C): out, in
    struct tensor x;          // (N, C): the input of the norm, after the addition
    struct tensor dresidual;  // (N, C) or none: added to dx
    struct tensor y;          // (N, C) out or none: the recomputed result; may be dy
    struct residual_gradient residual;
};
void norm_backward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved,
                   const struct norm_gradient *gradient);

#endif
