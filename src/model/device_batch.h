// A micro-batch in device memory: the fields of data/batch.h as tensors of the same names; none for fields that the
// batch lacks. If ranks share sequences, it is this rank's part.
#ifndef MODEL_DEVICE_BATCH_H
#define MODEL_DEVICE_BATCH_H

#include "data/batch.h"
#include "tensor/tensor.h"

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

#endif
