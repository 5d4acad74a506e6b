// The side inputs of cuDNN's attention: what a plan reads beside the operands, in device memory. The range of keys that
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

// What cuDNN gets of an operation: `part` of `whole`, one after the other. Both have the same strides.
struct attention_cut {
    struct plan_key whole, part;
    int64_t count;  // of parts
};

// Pieces of a workspace begin at multiples of this.
enum { CUDNN_ALIGNMENT = 256 };
static inline int64_t cudnn_align(int64_t bytes) {
    return (bytes + CUDNN_ALIGNMENT - 1) / CUDNN_ALIGNMENT * CUDNN_ALIGNMENT;
}

// The memory that they take at the beginning of a workspace; 0 if the plan has none.
int64_t side_bytes(const struct attention_cut *cut);
// Lays them out there and queues the kernel that writes them on a cudaStream_t.
struct side_inputs side_write(const struct attention_cut *cut, const struct attention_inputs *in, void *stream,
                              void *memory);
// Binds them for a plan whose first sample and head of queries are these of the operation, and the scalars that come
// with them.
void side_bind(struct cudnn_bindings *bindings, const struct plan_key *key, const struct side_inputs *side,
               const int64_t at[2]);

#endif
