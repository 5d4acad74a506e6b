// The digest of op_digest: the sum, modulo 2^64, of a hash of each word of a tensor and its place. Words have eight
// bytes in the machine's order; the last one is padded with zeros. At a given place, different words have different
// hashes (both steps are invertible), so a single different word always changes the sum. Integer sums do not depend on
// order, so all backends agree. Private to ops/.
#ifndef OPS_DIGEST_H
#define OPS_DIGEST_H

#include <stdint.h>

#ifdef __CUDACC__
#define DIGEST_INLINE static __host__ __device__ __forceinline__
#else
#define DIGEST_INLINE static inline
#endif

DIGEST_INLINE uint64_t digest_word(uint64_t word, uint64_t place, uint64_t seed) {
    uint64_t mixed = (word ^ (seed + place * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
    return mixed ^ (mixed >> 32);
}

#endif
