// The digest of op_digest: the sum, modulo 2^64, over the words of a tensor of a number that depends on the word and
// its place. Words have eight bytes in the machine's order; zeros are added to the last one. For a given place
// different words give different numbers (both steps can be undone), so one word that differs always changes the sum.
// Sums of integers do not depend on their order, so every backend gets the same. Private to ops/.
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
