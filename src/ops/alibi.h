// The slopes of ALiBi (Press et al. 2022), for both backends. If the number of heads n is a power of two, slopes are
// the geometric sequence from 2^(-8 / n) to 2^-8. Otherwise n is the next smaller power of two: the first n heads have
// its slopes, the others every second slope of 2 n heads, from the first one on.
#ifndef OPS_ALIBI_H
#define OPS_ALIBI_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ALIBI_INLINE static __host__ __device__ __forceinline__
#else
#define ALIBI_INLINE static inline
#endif

ALIBI_INLINE float alibi_slope(int64_t head, int64_t heads) {
    int64_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    double exponent = head < n ? 8 * (double)(head + 1) / (double)n : 4 * (double)(2 * (head - n) + 1) / (double)n;
    return (float)exp2(-exponent);
}

#endif
