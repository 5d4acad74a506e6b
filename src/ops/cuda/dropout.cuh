// Dropout on the device: an element's factor depends only on the seed, the place in the model and its row and column,
// as on the host (see struct dropout in ops.h), so any kernel can recompute it.
#ifndef OPS_CUDA_DROPOUT_CUH
#define OPS_CUDA_DROPOUT_CUH

#include "ops/cuda/cuda.cuh"

extern "C" {
#include "ops/formulas.h"
}

// struct dropout for kernels: by value, with the rate converted to threshold and scale.
struct cuda_dropout {
    bool is_on;
    uint32_t threshold;  // a half of a word below it drops its element
    float scale;         // of the kept ones
    uint64_t seed;
    uint32_t site;
    const int64_t *row_ids;  // (N)
};

static inline struct cuda_dropout cuda_dropout(const struct dropout *dropout) {
    struct cuda_dropout out = {};
    if (dropout->rate > 0) {
        out.is_on = true;
        out.threshold = dropout_threshold(dropout->rate);
        out.scale = dropout_scale(dropout->rate);
        out.seed = dropout->seed;
        out.site = dropout->site;
        out.row_ids = (const int64_t *)dropout->row_ids.data;
    }
    return out;
}

enum { PHILOX_ROUNDS = 7 };
static const uint32_t PHILOX_STEP_0 = 0x9E3779B9u, PHILOX_STEP_1 = 0xBB67AE85u;  // of the keys, after a round

static __device__ __forceinline__ uint4 philox_round(uint4 c, uint32_t k0, uint32_t k1) {
    uint32_t high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    uint32_t high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    return make_uint4(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
}

// philox4x32_7 of base/rng.h for the device. The masks of the CPU and CUDA backends are compared in the tests.
static __device__ __forceinline__ uint4 philox4x32_7(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint4 c = make_uint4(c0, c1, c2, c3);
#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        c = philox_round(c, k0, k1);
        k0 += PHILOX_STEP_0;
        k1 += PHILOX_STEP_1;
    }
    return c;
}

// The words of the group of eight columns that contains `column`.
static __device__ __forceinline__ uint4 dropout_words(const struct cuda_dropout &dropout, uint32_t site, int64_t row_id,
                                                      int64_t column) {
    return philox4x32_7(dropout.seed, (uint32_t)((uint64_t)column / 8), (uint32_t)row_id,
                        (uint32_t)((uint64_t)row_id >> 32), site);
}

// The factors of the two columns of a word: 0 or the scale.
static __device__ __forceinline__ void word_factors(float factor[2], const struct cuda_dropout &dropout,
                                                    uint32_t word) {
    uint32_t least = dropout.threshold << 16;  // halves are compared in the upper position
    factor[0] = word << 16 >= least ? dropout.scale : 0.0f;
    factor[1] = word >= least ? dropout.scale : 0.0f;
}

// x[i] through the dropout of (row, column + i), COUNT of them: eight, or four that waste half of a call. column is a
// multiple of COUNT. Does nothing if the dropout is off.
template <int COUNT>
static __device__ __forceinline__ void dropout_apply(float x[COUNT], const struct cuda_dropout &dropout, int64_t row,
                                                     int64_t column) {
    static_assert(COUNT == 4 || COUNT == 8, "columns share calls by eight");
    if (!dropout.is_on)
        return;
    uint4 word = dropout_words(dropout, dropout.site, dropout.row_ids[row], column);
    bool is_upper = COUNT == 4 && (column & 4);
    float factor[8];
    word_factors(factor, dropout, is_upper ? word.z : word.x);
    word_factors(factor + 2, dropout, is_upper ? word.w : word.y);
    word_factors(factor + 4, dropout, word.z);
    word_factors(factor + 6, dropout, word.w);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        x[i] *= factor[i];
}

// ---- Masks as bits ----
// Kernels whose threads need each other's masks draw them as bits: element e of eight columns has bit kept_bit(e) + 2 *
// place, so four calls, at places 0 to 3, fill a word.

static __device__ __forceinline__ int kept_bit(int e) {
    return 8 * (e % 4) + e / 4;
}

// The most significant bits of bytes 1 and 3 of x, then of y, each over a byte of its own.
static __device__ __forceinline__ uint32_t spread_signs(uint32_t x, uint32_t y) {
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, 0xFDB9;" : "=r"(out) : "r"(x), "r"(y));
    return out;
}

// Kept bits of the eight columns that contain `column`. A half h is at least t if the average of h and 65536 - t,
// rounded down, has its highest bit set; __vhaddu2 averages both halves at once.
static __device__ __forceinline__ uint32_t dropout_kept(const struct cuda_dropout &dropout, uint32_t site,
                                                        int64_t row_id, int64_t column, int place) {
    uint32_t other = (65536 - dropout.threshold) * 0x10001u;
    uint4 word = dropout_words(dropout, site, row_id, column);
    uint32_t first = spread_signs(__vhaddu2(word.x, other), __vhaddu2(word.y, other));
    uint32_t second = spread_signs(__vhaddu2(word.z, other), __vhaddu2(word.w, other));
    return (first & 0x01010101u << 2 * place) | (second & 0x02020202u << 2 * place);
}

#endif
