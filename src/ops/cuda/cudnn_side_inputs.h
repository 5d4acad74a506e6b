// Side inputs for the kernel that writes them; independent of cuDNN's headers. See cudnn_side.h.
#ifndef OPS_CUDA_CUDNN_SIDE_INPUTS_H
#define OPS_CUDA_CUDNN_SIDE_INPUTS_H

#include "ops/ops.h"

// In device memory; NULL members are not written.
struct side_inputs {
    int64_t B, Tq, Tk;
    int64_t part_samples, part_heads, parts;  // the operation is done in parts, those of a sample's heads one by one
    int64_t head_parts;                       // of a sample
    int32_t *first;                           // (B * Tq): the first key that each query sees
    int32_t *end;                             // (B * Tq): the key after the last that is not padding
    int64_t *draw;                            // (parts, 2): the part's seed, and an offset, which is 0
};

void side_kernel(void *stream, const struct side_inputs *to, const struct attention_mask *mask,
                 const struct dropout *dropout);

#endif
