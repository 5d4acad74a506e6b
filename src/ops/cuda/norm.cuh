// What the norm kernels share. A row is held by the threads (x) of a block's row of threads (y), eight neighbouring
// columns (16 bytes of bf16) at a time; the rows of a block meet at the same barriers. Blocks walk over many rows.
// Aligned rows of up to 4096 columns come through a queue in shared memory, two rows ahead of the one at work: that,
// and not the number of threads, keeps enough bytes on their way.
#ifndef OPS_CUDA_NORM_CUH
#define OPS_CUDA_NORM_CUH

#include "ops/cuda/cuda.cuh"

enum {
    NORM_THREADS = 512,   // most threads of a block
    SHORT_THREADS = 256,  // of a block where a row needs no more
    NORM_STAGES = 3,      // rows in a queue
    MOST_NORM_COLUMNS = 8 * 8 * NORM_THREADS,
};

// Threads (x) of a row with so many groups of eight columns each.
static inline unsigned threads_of_row(int64_t columns, int groups) {
    return (unsigned)(divide_up(divide_up(columns, 8 * groups), 32) * 32);
}

static inline int groups_of_row(int64_t columns) {
    if (columns > MOST_NORM_COLUMNS)
        die("norm: %lld columns are beyond the %d of the CUDA backend", (long long)columns, (int)MOST_NORM_COLUMNS);
    return columns <= 8 * NORM_THREADS ? 1 : columns <= 16 * NORM_THREADS ? 2 : 8;
}

// Runs the statement with GROUPS standing for the groups of a row that is too long, or not aligned, for the queue.
#define WITH_GROUPS(columns, GROUPS, ...)                                                                              \
    do {                                                                                                               \
        switch (groups_of_row(columns)) {                                                                              \
        case 1: {                                                                                                      \
            enum { GROUPS = 1 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        case 2: {                                                                                                      \
            enum { GROUPS = 2 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        default: {                                                                                                     \
            enum { GROUPS = 8 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        }                                                                                                              \
    } while (0)

// A place of the queue: `tensor` of so many tensors, for this thread.
template <typename T, int TENSORS>
static __device__ __forceinline__ eight<T> *queue_place(eight<T> *queue, int stage, int tensor) {
    int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    return queue + (stage * TENSORS + tensor) * threads + thread;
}

template <typename T> static __device__ __forceinline__ void queue_fetch(eight<T> *place, const T *from) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(eight<T>) / 16; i++)
        async_copy16(&place->word[i], (const uint4 *)from + i);
}

// Lets a kernel have that much shared memory.
template <typename Kernel> static void norm_take_shared(Kernel kernel, size_t bytes) {
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
}

#endif
