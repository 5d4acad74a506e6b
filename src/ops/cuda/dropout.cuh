// Dropout on the device: what an element is multiplied by follows from the seed, the place in the model and the number
// of its row and column alone, as on the host (see struct dropout in ops.h), so any kernel may work it out again.
#ifndef OPS_CUDA_DROPOUT_CUH
#define OPS_CUDA_DROPOUT_CUH

#include "ops/cuda/cuda.cuh"

// struct dropout as kernels take it: by value, with what the rate means worked out.
struct cuda_dropout {
    bool is_on;
    uint32_t threshold;  // a word below it drops its element
    float scale;         // of the kept ones
    uint64_t seed;
    uint32_t site;
    const int64_t *row_ids;  // (N)
};

static inline struct cuda_dropout cuda_dropout(const struct dropout *dropout) {
    struct cuda_dropout out = {};
    if (dropout->rate > 0) {
        out.is_on = true;
        double threshold = ceil((double)dropout->rate * 4294967296.0);
        out.threshold = threshold > 4294967295.0 ? UINT32_MAX : (uint32_t)threshold;
        out.scale = 1.0f / (1.0f - dropout->rate);
        out.seed = dropout->seed;
        out.site = dropout->site;
        out.row_ids = (const int64_t *)dropout->row_ids.data;
    }
    return out;
}

// philox4x32 of base/rng.h for the device. The masks of the CPU and CUDA backends are compared in the tests.
static __device__ __forceinline__ uint4 philox4x32(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

// What columns [column, column + 4) of a row are multiplied by: 0 or the scale. column is a multiple of 4.
static __device__ __forceinline__ void dropout_factors(float factor[4], struct cuda_dropout dropout, uint32_t site,
                                                       int64_t row_id, int64_t column) {
    uint4 word =
        philox4x32(dropout.seed, (uint32_t)(column / 4), (uint32_t)row_id, (uint32_t)((uint64_t)row_id >> 32), site);
    factor[0] = word.x >= dropout.threshold ? dropout.scale : 0.0f;
    factor[1] = word.y >= dropout.threshold ? dropout.scale : 0.0f;
    factor[2] = word.z >= dropout.threshold ? dropout.scale : 0.0f;
    factor[3] = word.w >= dropout.threshold ? dropout.scale : 0.0f;
}

// x[i] through the dropout of (row, column + i); does nothing if the dropout is off.
static __device__ __forceinline__ void dropout_apply(float x[4], struct cuda_dropout dropout, int64_t row,
                                                     int64_t column) {
    if (!dropout.is_on)
        return;
    float factor[4];
    dropout_factors(factor, dropout, dropout.site, dropout.row_ids[row], column);
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i] *= factor[i];
}

#endif
