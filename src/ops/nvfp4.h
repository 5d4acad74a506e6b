// NVFP4 constants common to all backends: see enum scaling, struct stochastic and op_quantize_blocks in ops_float8.h.
#ifndef OPS_NVFP4_H
#define OPS_NVFP4_H

#include "ops/ops_float8.h"

// Signs of the 16 numbers that are mixed, one bit each, the same in all tensors and runs.
enum { FLOAT4_MIX_SIGNS = 0x9E37 };

// Offset in bytes of a tensor's factor in its scales.
static inline int64_t float4_factor_place(struct tensor scales) {
    return (scales.shape[0] - 1) * scales.shape[1];
}

// The site of stochastic rounding. No dropout's site has the first bit, so rounding draws different bits.
static inline uint32_t stochastic_site(uint32_t site, bool is_transposed) {
    return site | 1u << 31 | (is_transposed ? 1u << 30 : 0);
}

#endif
