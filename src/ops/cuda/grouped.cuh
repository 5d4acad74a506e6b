// Tiles of matmuls over ragged groups. Rows of all experts are cut into tiles, each of one expert; their offsets are
// known on the device only, so every block counts them itself.
#ifndef OPS_CUDA_GROUPED_CUH
#define OPS_CUDA_GROUPED_CUH

#include "ops/cuda/slots.cuh"

struct grouped_args {
    void *d;
    const void *a, *b;
    const int32_t *offsets;
    int experts;
    int64_t outputs, inputs;  // O and I
    int64_t row_tiles;        // at most, of all experts together
    bool adds;                // beta is 1
};

// before[e] = tiles of `size` rows that belong to experts before e; before[experts] is the number of all. The block has
// THREADS threads.
template <int THREADS>
static __device__ __forceinline__ void count_tiles(int *before, const struct grouped_args &args, int size) {
    constexpr int PER_THREAD = (ROUTER_MOST_EXPERTS + THREADS - 1) / THREADS;
    __shared__ int shared[32];
    int first = threadIdx.x * PER_THREAD, own[PER_THREAD], sum = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        int e = first + i, rows = e < args.experts ? args.offsets[e + 1] - args.offsets[e] : 0;
        own[i] = sum;
        sum += (rows + size - 1) / size;
    }
    int start = scan_block(sum, shared);
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
        if (first + i < args.experts)
            before[first + i] = start + own[i];
    if (threadIdx.x == THREADS - 1)
        before[args.experts] = start + sum;
    __syncthreads();
}

// A tile's expert and rows.
struct group_tile {
    int expert;
    int64_t row, end;  // its first row, and where those of the expert end
};
static __device__ __forceinline__ struct group_tile find_tile(const int *before, const struct grouped_args &args,
                                                              int tile, int size) {
    struct group_tile found;
    found.expert = expert_at(before, args.experts, tile);
    found.row = args.offsets[found.expert] + (int64_t)(tile - before[found.expert]) * size;
    found.end = args.offsets[found.expert + 1];
    return found;
}

// The 16-bit matmuls whose rows are aligned to 16 bytes, by tensor cores.
void grouped_run_tensor(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args args);
// 16-bit matmuls on compute capability 9.0; false: not on this GPU, or not for this shape.
bool grouped_run_hopper(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args args);
// fp8 matmuls, on compute capability 9.0.
void grouped_run_float8(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args args);

#endif
