// Small formulas that all backends compute alike. Private to ops/ and its tests.
#ifndef OPS_FORMULAS_H
#define OPS_FORMULAS_H

#include "ops/ops.h"
#include "ops/ops_float8.h"
#include <math.h>
#include <stdint.h>

// For functions that kernels call too.
#ifdef __CUDACC__
#define FORMULA_INLINE static __host__ __device__ __forceinline__
#else
#define FORMULA_INLINE static inline
#endif

// The buckets into which T5 sorts distances (Raffel et al. 2020): small distances have a bucket each, larger ones share
// buckets whose borders grow geometrically up to max_distance. The borders are computed in fp32, in the order of
// operations that trained models used, on the host for all backends.
//
// The rule as borders: on one side, bucket b holds the distances from first[b] up to first[b + 1].
struct relative_borders {
    int32_t side;  // buckets on one side
    int32_t first[RELATIVE_MOST_BUCKETS];
};

void relative_borders(struct relative_borders *borders, const struct relative_rule *rule);
// The bucket of a distance (key position minus query position).
int64_t relative_bucket(const struct relative_borders *borders, bool is_bidirectional, int64_t distance);

// The slopes of ALiBi (Press et al. 2022), for both backends. If the number of heads n is a power of two, slopes are
// the geometric sequence from 2^(-8 / n) to 2^-8. Otherwise n is the next smaller power of two: the first n heads have
// its slopes, the others every second slope of 2 n heads, from the first one on.
FORMULA_INLINE float alibi_slope(int64_t head, int64_t heads) {
    int64_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    double exponent = head < n ? 8 * (double)(head + 1) / (double)n : 4 * (double)(2 * (head - n) + 1) / (double)n;
    return (float)exp2(-exponent);
}

// The digest of op_digest: the sum, modulo 2^64, of a hash of each word of a tensor and its place. Words have eight
// bytes in the machine's order; the last one is padded with zeros. At a given place, different words have different
// hashes (both steps are invertible), so a single different word always changes the sum. Integer sums do not depend on
// order, so all backends agree.
FORMULA_INLINE uint64_t digest_word(uint64_t word, uint64_t place, uint64_t seed) {
    uint64_t mixed = (word ^ (seed + place * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
    return mixed ^ (mixed >> 32);
}

// The threshold of a dropout rate above 0 and below 1, and the factor of kept elements, see struct dropout in ops.h.
static inline uint32_t dropout_threshold(float rate) {
    double exact = (double)rate * 65536;
    uint32_t threshold = (uint32_t)exact;
    if ((double)threshold < exact)
        threshold++;
    return threshold > 65535 ? 65535 : threshold;
}
static inline float dropout_scale(float rate) {
    return 65536.0f / (float)(65536 - dropout_threshold(rate));
}

// ---- NVFP4: see enum scaling, struct stochastic and op_quantize_blocks in ops_float8.h ----

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
