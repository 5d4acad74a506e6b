// Code common to the norm kernels. The threads (x) of a block's row of threads (y) hold a row, eight neighbouring
// columns (16 bytes of bf16) at a time; all rows of a block share barriers.
#ifndef OPS_CUDA_NORM_CUH
#define OPS_CUDA_NORM_CUH

#include "ops/cuda/cuda.cuh"

enum {
    NORM_THREADS = 512,   // most threads of a block
    SHORT_THREADS = 256,  // of a block if a row needs no more
    MOST_GROUPS = 8,      // groups of eight columns of a row per thread
    MOST_NORM_COLUMNS = 8 * MOST_GROUPS * NORM_THREADS,
};

// The first of the eight columns of this thread's group g.
static __device__ __forceinline__ int group_column(int g) {
    return 8 * (int)(threadIdx.x + g * blockDim.x);
}

// Threads (x) of a row with this many groups of eight columns each.
static inline unsigned threads_of_row(int64_t columns, int groups) {
    return (unsigned)(divide_up(divide_up(columns, 8 * groups), 32) * 32);
}

// Groups per thread if a row takes as many threads as allowed; more than four are rounded up to eight.
static inline int groups_of_row(int64_t columns) {
    if (columns > MOST_NORM_COLUMNS)
        die("norm: %lld columns are beyond the %d of the CUDA backend", (long long)columns, (int)MOST_NORM_COLUMNS);
    int64_t groups = divide_up(columns, 8 * NORM_THREADS);
    return groups <= 4 ? (int)groups : MOST_GROUPS;
}

#endif
