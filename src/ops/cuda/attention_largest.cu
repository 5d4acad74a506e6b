// The largest score of each head, see op_largest_scores: attention forward without its values. A block keeps 64 queries
// and walks over the keys that they see; the next tile is copied while this one is used. On tensor cores in 16 bits;
// otherwise in tiles of fp32.
#include "ops/cuda/attention_tensor.cuh"
#include "ops/cuda/lanes.cuh"

// The first and last key that any of the block's queries sees: those of `rows` queries from `first` on.
static __device__ __forceinline__ struct key_range block_keys(const struct attention_args &args, int64_t batch,
                                                              int64_t first, int rows, int *shared) {
    if (threadIdx.x == 0) {
        shared[0] = INT32_MAX;
        shared[1] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < rows; i += blockDim.x) {
        struct key_range range = keys_of(args, batch, first + i);
        if (range.first < range.end) {
            atomicMin(&shared[0], range.first);
            atomicMax(&shared[1], range.end);
        }
    }
    __syncthreads();
    return {shared[0], shared[1]};
}

// Floats of at least 0 have the same order as their bits.
static __device__ __forceinline__ void keep_largest(float *largest, float own, float *shared) {
    own = block_max(own, shared);
    if (threadIdx.x == 0 && own > 0)
        atomicMax((int *)largest, __float_as_int(own));
}

// Grid (query tile, head, batch), as in attention forward.
template <typename T, int DP>
static __global__ void __launch_bounds__(TENSOR_THREADS)
    tensor_largest_kernel(struct attention_args args, float *largest) {
    extern __shared__ uint4 memory[];
    __shared__ int bounds[2];
    __shared__ float shared[32];
    const int TILE_ELEMENTS = TENSOR_ROWS * (DP + 8);
    T *queries = (T *)memory, *keys = queries + TILE_ELEMENTS;  // two tiles of keys
    int64_t batch = blockIdx.z, first_query = (int64_t)(gridDim.x - 1 - blockIdx.x) * TENSOR_ROWS;
    int head = blockIdx.y, key_head = head / (args.heads / args.key_heads), warp_row = (threadIdx.x >> 5) * 16;
    const T *k = view_head<T>(args.k, batch, key_head);
    int64_t query = first_query + warp_row + (threadIdx.x & 31) / 4;
    struct key_range range[2] = {keys_of(args, batch, query), keys_of(args, batch, query + 8)};
    struct key_range all = block_keys(args, batch, first_query, TENSOR_ROWS, bounds);
    int first_key = all.first < all.end ? all.first / TENSOR_ROWS * TENSOR_ROWS : all.end, turn = 0;
    float own = 0;
    start_rows<T, TENSOR_ROWS, DP>(queries, view_head<T>(args.q, batch, head), args.q.time, first_query, args.queries,
                                   args.head_size);
    if (first_key < all.end)
        start_rows<T, TENSOR_ROWS, DP>(keys, k, args.k.time, first_key, args.keys, args.head_size);
    async_commit();
    for (; first_key < all.end; first_key += TENSOR_ROWS, turn ^= 1) {
        float score[TENSOR_ROWS / 8][4];
        async_wait<0>();
        __syncthreads();  // these keys have arrived, and the previous ones have been read
        if (first_key + TENSOR_ROWS < all.end)
            start_rows<T, TENSOR_ROWS, DP>(keys + (turn ^ 1) * TILE_ELEMENTS, k, args.k.time, first_key + TENSOR_ROWS,
                                           args.keys, args.head_size);
        async_commit();
        clear_tiles<TENSOR_ROWS / 8>(score);
        add_row_products<T, DP, TENSOR_ROWS>(score, queries, warp_row, keys + turn * TILE_ELEMENTS);
        int column = first_key + 2 * (threadIdx.x & 3);
#pragma unroll
        for (int j = 0; j < TENSOR_ROWS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int key = column + 8 * j + (i & 1);
                if (sees(range[i / 2], key))
                    own = fmaxf(own, score[j][i] * args.scale);
            }
    }
    async_wait<0>();
    keep_largest(&largest[head], own, shared);
}

template <int R, int NC>
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    tiled_largest_kernel(struct attention_args args, float *largest) {
    using shape = tile<R, NC>;
    extern __shared__ float tiles[];
    __shared__ int bounds[2];
    __shared__ float shared[32];
    float *queries = tiles, *keys = queries + shape::FLOATS;
    int64_t batch = blockIdx.z, first_query = (int64_t)(gridDim.x - 1 - blockIdx.x) * shape::ROWS;
    int head = blockIdx.y, key_head = head / (args.heads / args.key_heads);
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    struct any_head k = any_head(args, args.k, batch, key_head);
    struct key_range all = block_keys(args, batch, first_query, shape::ROWS, bounds);
    float own = 0;
    load_tile<R, NC>(queries, any_head(args, args.q, batch, head), first_query, args.queries, args.head_size);
    for (int64_t first_key = all.first; first_key < all.end; first_key += shape::ROWS) {
        float score[R][R];
        __syncthreads();  // the keys of the last tile have been read
        load_tile<R, NC>(keys, k, first_key, args.keys, args.head_size);
        __syncthreads();
        row_products<R, NC>(score, queries, keys);
#pragma unroll
        for (int r = 0; r < R; r++) {
            struct key_range range = keys_of(args, batch, first_query + R * ty + r);
#pragma unroll
            for (int c = 0; c < R; c++) {
                int64_t key = first_key + R * tx + c;
                if (key >= range.first && key < range.end)
                    own = fmaxf(own, score[r][c] * args.scale);
            }
        }
    }
    keep_largest(&largest[head], own, shared);
}

template <typename T, int DP>
static void tensor_launch(struct cuda_device *cuda, const struct attention_args *args, float *largest) {
    int bytes = 3 * TENSOR_ROWS * (DP + 8) * (int)sizeof(T);
    attention_take_shared(cuda, tensor_largest_kernel<T, DP>, bytes, args->head_size);
    dim3 grid(grid_x(divide_up(args->queries, TENSOR_ROWS)), grid_yz(args->heads), grid_yz(args->batches));
    LAUNCH(cuda, (tensor_largest_kernel<T, DP>), grid, TENSOR_THREADS, (size_t)bytes, *args, largest);
}

template <int R, int NC>
static void tiled_launch(struct cuda_device *cuda, const struct attention_args *args, float *largest) {
    using shape = tile<R, NC>;
    int bytes = 2 * shape::FLOATS * (int)sizeof(float);
    attention_take_shared(cuda, tiled_largest_kernel<R, NC>, bytes, args->head_size);
    dim3 grid(grid_x(divide_up(args->queries, shape::ROWS)), grid_yz(args->heads), grid_yz(args->batches));
    LAUNCH(cuda, (tiled_largest_kernel<R, NC>), grid, ATTENTION_THREADS, (size_t)bytes, *args, largest);
}

extern "C" void cuda_largest_scores(struct device *device, const struct op_largest_scores *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct attention_args args = attention_inputs(op->q, op->k, op->k);
    float *largest = (float *)op->largest.data;
    args.window = op->mask.window;
    args.key_counts = (const int32_t *)op->mask.key_counts.data;
    args.first_keys = (const int32_t *)op->mask.first_keys.data;
    args.scale = op->scale;
    args.is_causal = op->is_causal;
    if (tensor_count(op->q) == 0)
        return;
#define TILED(R, NC) tiled_launch<R, NC>(cuda, &args, largest)
#define ON_TENSOR_CORES(T, DP) tensor_launch<T, DP>(cuda, &args, largest)
    if (tensor_takes(op->q) && tensor_takes(op->k) && tensor_has_room(cuda, args.widest))
        WITH_TENSOR_SHAPE(op->q.dtype, args.widest, ON_TENSOR_CORES);
    else
        WITH_ATTENTION_SHAPE(args.widest, TILED);
#undef ON_TENSOR_CORES
#undef TILED
}
