// Side inputs of cuDNN's attention, which a plan reads besides the operands, in device memory: the range of keys that
// each query sees, and the seed of its dropout. For attention_cudnn.c alone.
#ifndef OPS_CUDA_CUDNN_SIDE_H
#define OPS_CUDA_CUDNN_SIDE_H

#include "ops/cuda/cudnn_sketch.h"
#include "ops/cuda/cudnn_side_inputs.h"

struct attention_inputs {
    struct tensor q, k, v, out;
    bool is_causal;
    const struct attention_mask *mask;
    const struct dropout *dropout;
};

// The cut of an operation into parts that cuDNN computes one after the other. `part` has the strides of `whole`.
struct attention_cut {
    struct plan_key whole, part;
    int64_t count;  // of parts
};

// Pieces of a workspace begin at multiples of this.
enum { CUDNN_ALIGNMENT = 256 };
static inline int64_t cudnn_align(int64_t bytes) {
    return (bytes + CUDNN_ALIGNMENT - 1) / CUDNN_ALIGNMENT * CUDNN_ALIGNMENT;
}

// Bytes of side inputs at the start of a workspace; 0 if the plan has none.
int64_t side_bytes(const struct attention_cut *cut);
// Lays them out in `memory` and queues the kernel that writes them on a cudaStream_t.
struct side_inputs side_write(const struct attention_cut *cut, const struct attention_inputs *in, void *stream,
                              void *memory);
// Binds side inputs and their scalars, for a part that begins at this sample and query head of the operation.
void side_bind(struct cudnn_bindings *bindings, const struct plan_key *key, const struct side_inputs *side,
               const int64_t at[2]);

#endif
