// Code common to the attention kernels on tensor cores. They support bf16 and fp16, heads up to 256 wide in multiples
// of 8, any lengths, all masks, biases by distance, caps, sinks and dropout, for operations that cuDNN does not support
// or only without our masks.
//
// A block has four warps. A warp owns 16 rows of a (query, key) tile, or of its transpose, in the layout of
// mma.m16n8k16: of each 8 columns a thread holds columns 2 (lane % 4) and the next, of rows lane / 4 and 8 below. The
// same registers, rounded to 16 bits, are the first operand of the next matmul. Tiles in shared memory have rows of DP
// + 8 elements, where DP is the zero-padded head size: rows are 16 bytes apart in the banks, as ldmatrix needs.
#ifndef OPS_CUDA_ATTENTION_TENSOR_CUH
#define OPS_CUDA_ATTENTION_TENSOR_CUH

#include "ops/cuda/attention.cuh"
#include "ops/cuda/mma.cuh"

enum {
    TENSOR_THREADS = 128,
    TENSOR_ROWS = 64,
    TENSOR_HEAD = 256,
    PAIR_STRIDE = TENSOR_ROWS + 1,  // of a tile of score gradients: a diagonal touches all banks
};

static const float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

// ---- Fragments ----

// Rows [row, row + 16) and columns [column, column + 16) of a tile as a first operand.
template <typename T, int DP>
static __device__ __forceinline__ void load_first(uint32_t out[4], const T *tile, int row, int column) {
    int lane = threadIdx.x & 31;
    load_matrices(out, tile + (row + lane % 16) * (DP + 8) + column + lane / 16 * 8);
}

// sum[j] += the warp's 16 rows of `first` (from `row` on) times rows 8 j … of `second`, over all columns: N rows of it.
template <typename T, int DP, int N>
static __device__ __forceinline__ void add_row_products(float sum[N / 8][4], const T *first, int row, const T *second) {
    constexpr int UNROLLED = DP <= 128 ? DP / 16 : 2;  // wide heads would make long code
    int lane = threadIdx.x & 31, matrix = lane / 8;
#pragma unroll UNROLLED
    for (int k = 0; k < DP; k += 16) {
        uint32_t a[4];
        load_first<T, DP>(a, first, row, k);
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            uint32_t b[4];
            load_matrices(b, second + (n + lane % 8 + matrix / 2 * 8) * (DP + 8) + k + matrix % 2 * 8);
            mma(sum[n / 8], a, b, T());
            mma(sum[n / 8 + 1], a, b + 2, T());
        }
    }
}

// sum += weight (16, K), as its registers lie, times the K rows of `rows`.
template <typename T, int DP, int K>
static __device__ __forceinline__ void add_weighted_rows(float sum[DP / 8][4], const float weight[K / 8][4],
                                                         const T *rows) {
    int lane = threadIdx.x & 31, matrix = lane / 8;
#pragma unroll
    for (int k = 0; k < K; k += 16) {
        const float *low = weight[k / 8], *high = weight[k / 8 + 1];
        uint32_t a[4] = {pack2(low[0], low[1], T()), pack2(low[2], low[3], T()), pack2(high[0], high[1], T()),
                         pack2(high[2], high[3], T())};
#pragma unroll
        for (int n = 0; n < DP; n += 16) {
            uint32_t b[4];
            load_turned(b, rows + (k + lane % 8 + matrix % 2 * 8) * (DP + 8) + n + matrix / 2 * 8);
            mma(sum[n / 8], a, b, T());
            mma(sum[n / 8 + 1], a, b + 2, T());
        }
    }
}

template <int COUNT> static __device__ __forceinline__ void clear_tiles(float sum[COUNT][4]) {
#pragma unroll
    for (int j = 0; j < COUNT; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[j][i] = 0;
}

// ---- Memory ----

// Starts the copy of ROWS rows to a tile; rows beyond `rows` and columns beyond the head size become 0.
template <typename T, int ROWS, int DP>
static __device__ __forceinline__ void start_rows(T *to, const T *from, int64_t stride, int64_t first, int64_t rows,
                                                  int head_size) {
    constexpr int CHUNKS = DP / 8;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += TENSOR_THREADS) {
        int row = i / CHUNKS, column = i % CHUNKS * 8;
        int bytes = first + row < rows && column < head_size ? 16 : 0;
        const T *source = bytes ? from + (first + row) * stride + column : from;
        uint32_t address = (uint32_t)__cvta_generic_to_shared(to + row * (DP + 8) + column);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(bytes)
                     : "memory");
    }
}

// Writes the warp's 16 rows, from `row` on, of factor[half] * sum; half tells rows lane / 4 from those 8 below.
template <typename T, int DP>
static __device__ __forceinline__ void store_rows(T *to, int64_t stride, int64_t row, int64_t rows, int head_size,
                                                  const float sum[DP / 8][4], const float factor[2]) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t at = row + lane / 4 + 8 * half;
        if (at >= rows)
            continue;
#pragma unroll
        for (int j = 0; j < DP / 8; j++)
            if (8 * j < head_size)
                *(uint32_t *)(to + at * stride + 8 * j + 2 * (lane % 4)) =
                    pack2(sum[j][2 * half] * factor[half], sum[j][2 * half + 1] * factor[half], T());
    }
}

// ---- Weights ----

// 2^x by the hardware instruction. exp2f needs three more instructions for results below 2^-126, which are 0 here;
// weights are at most 1, so such results are negligible.
static __device__ __forceinline__ float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// The maximum over the four threads that hold a row.
static __device__ __forceinline__ float quad_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, 2));
}

static __device__ __forceinline__ float quad_sum(float value) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
    return value + __shfl_xor_sync(0xFFFFFFFFu, value, 2);
}

// ---- Masks ----

// The first and last key that any of the block's queries sees, in shared memory.
static __device__ __forceinline__ struct key_range block_range(const struct key_range range[2], int *shared) {
    if (threadIdx.x == 0) {
        shared[0] = INT32_MAX;
        shared[1] = 0;
    }
    __syncthreads();
    for (int half = 0; half < 2; half++)
        if (threadIdx.x % 4 == 0 && range[half].first < range[half].end) {
            atomicMin(&shared[0], range[half].first);
            atomicMax(&shared[1], range[half].end);
        }
    __syncthreads();
    return {shared[0], shared[1]};
}

// The number of queries, at least `low`, before the first one that sees no key before `end`. The first visible key
// never decreases from one query to the next. Each warp tries 32 queries at a time; all warps find the same.
static __device__ __forceinline__ int64_t queries_before(const struct attention_args &args, int64_t batch, int64_t low,
                                                         int end) {
    int64_t high = args.queries;
    while (low < high) {
        int64_t step = (high - low + 31) / 32, query = low + (int64_t)(threadIdx.x & 31) * step;
        int seeing = __popc(__ballot_sync(~0u, query < high && keys_of(args, batch, query).first < end));
        if (seeing == 0)
            return low;
        low += (seeing - 1) * step + 1;
        high = min(high, low + step - 1);
    }
    return low;
}

// ---- Caps and biases, before scores are scaled ----

// The bias of a distance. Values for masked scores do not matter.
static __device__ __forceinline__ float bias_of(const struct attention_args &args, int head, int64_t query,
                                                int64_t key) {
    int64_t columns = args.queries + args.keys - 1, column = key - query + args.queries - 1;
    return column >= 0 && column < columns ? args.bias[head * columns + column] / args.scale : 0.0f;
}

// Adds biases to a warp's tile of 16 queries by 64 keys; `query` is that of the thread's upper row.
static __device__ __forceinline__ void add_bias(float score[TENSOR_ROWS / 8][4], const struct attention_args &args,
                                                int head, int64_t query, int first_key) {
    int column = first_key + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int j = 0; j < TENSOR_ROWS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            score[j][i] += bias_of(args, head, query + 8 * (i / 2), column + 8 * j + (i & 1));
}

// tanh has an error of 3e-7, small beside that of a score's 16-bit operands.
static __device__ __forceinline__ float capped(const struct attention_args &args, float score) {
    float most = args.cap / args.scale;
    return most - __fdividef(2 * most, 1 + power_of_two(2 * LOG2_E * args.scale / args.cap * score));
}

template <int N>
static __device__ __forceinline__ void cap_scores(float score[N][4], const struct attention_args &args) {
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            score[j][i] = capped(args, score[j][i]);
}

// The slope of the cap at a capped score; exactly 1 without one.
static __device__ __forceinline__ float cap_slope(const struct attention_args &args, float score) {
    float t = args.cap > 0 ? score * (args.scale / args.cap) : 0.0f;
    return 1 - t * t;
}

// ---- Dropout ----

// The dropout of 32 keys of a query as a word.
static __device__ __forceinline__ uint32_t draw_word(const struct attention_args &args, int head, int64_t row_id,
                                                     uint32_t first_key) {
    uint32_t word = 0;
#pragma unroll
    for (int n = 0; n < 4; n++)
        word |= dropout_kept(args.dropout, head_site(args, head), row_id, first_key + 8 * n, n);
    return word;
}

// The dropout of a warp's (query, key) tile of 64 keys as bits. Four lanes hold the same keys of two queries, two keys
// of each eight; each lane draws 32 keys of one query (drawn_row), and they exchange bits. kept[half][k] is of query
// lane / 4 or that 8 below, and of keys 0 … or 32 …; is_kept finds the bit of the score in register i of columns 8 j ….
static __device__ __forceinline__ void tile_kept(uint32_t kept[2][2], const struct attention_args &args, int head,
                                                 int64_t row_id, int first_key) {
    int lane = threadIdx.x & 31, part = lane % 4;
    uint32_t mine = draw_word(args, head, row_id, first_key + 32 * (part / 2));
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            kept[half][k] = __shfl_sync(0xFFFFFFFFu, mine, (lane & ~3) | k << 1 | half) >> kept_bit(2 * part);
}

static __device__ __forceinline__ bool is_kept(const uint32_t kept[2][2], int j, int i) {
    return kept[i / 2][j / 4] >> (kept_bit(i & 1) + 2 * (j % 4)) & 1;
}

// Multiplies a warp's tile by its dropout factors.
static __device__ __forceinline__ void drop(float value[TENSOR_ROWS / 8][4], const struct attention_args &args,
                                            int head, int64_t row_id, int first_key) {
    uint32_t kept[2][2];
    tile_kept(kept, args, head, row_id, first_key);
#pragma unroll
    for (int j = 0; j < TENSOR_ROWS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[j][i] *= is_kept(kept, j, i) ? args.dropout.scale : 0.0f;
}

// The row number whose keys this lane draws for tile_kept; `query` is that of its upper row.
static __device__ __forceinline__ int64_t drawn_row(const struct attention_args &args, int64_t batch, int64_t query) {
    int64_t row = query + 8 * (threadIdx.x & 1);
    return args.dropout.is_on && row < args.queries ? args.dropout.row_ids[batch * args.queries + row] : 0;
}

// The dropout of a warp's (key, query) tile as bits, ROWS queries with these row numbers: eight lanes hold the same
// pairs of queries of two groups of eight keys, a key of each group. Each draws one query of the pairs and one group,
// for half of the pairs, and they exchange bits. is_kept_turned finds the bit of register i of columns 8 j ….
template <int ROWS>
static __device__ __forceinline__ void turned_kept(uint32_t kept[2][4], const int64_t *row_ids,
                                                   const struct attention_args &args, int head, int warp_key) {
    enum { DRAWS = ROWS / 16 };
    int lane = threadIdx.x & 31, part = lane / 4;  // part: this lane's key of the eight, and its share of the draws
    uint32_t mine = 0;
#pragma unroll
    for (int n = 0; n < DRAWS; n++) {
        int64_t row_id = row_ids[8 * (part / 4 * DRAWS + n) + 2 * (lane % 4) + part % 2];
        mine |= dropout_kept(args.dropout, head_site(args, head), row_id, warp_key + part / 2 % 2 * 8, n);
    }
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            kept[k][i] = __shfl_sync(0xFFFFFFFFu, mine, (lane & 3) | i << 2 | k << 4) >> kept_bit(part);
}

template <int ROWS> static __device__ __forceinline__ bool is_kept_turned(const uint32_t kept[2][4], int j, int i) {
    return kept[j / (ROWS / 16)][i] >> 2 * (j % (ROWS / 16)) & 1;
}

// Whether a block has the shared memory of the largest of these kernels, which that of consumer GPUs is too small for.
static inline bool tensor_has_room(const struct cuda_device *cuda, int widest) {
    enum { NARROW = 128, BYTES = 4 * TENSOR_ROWS * (TENSOR_HEAD + 8) * 2 + TENSOR_ROWS * PAIR_STRIDE * 4 };
    int most = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->index));
    return widest <= NARROW || BYTES <= most;
}

// Whether the kernels on tensor cores take these tensors.
static inline bool tensor_takes(struct tensor t) {
    return (t.dtype == DTYPE_BF16 || t.dtype == DTYPE_F16) && t.shape[3] % 8 == 0 && t.shape[3] <= TENSOR_HEAD &&
           (uintptr_t)t.data % 16 == 0 && t.stride[0] % 8 == 0 && t.stride[1] % 8 == 0 && t.stride[2] % 8 == 0;
}

// Runs LAUNCH_SHAPE(T, DP).
#define WITH_TENSOR_SHAPE(dtype, head_size, LAUNCH_SHAPE)                                                              \
    do {                                                                                                               \
        if ((dtype) == DTYPE_BF16 && (head_size) <= 64)                                                                \
            LAUNCH_SHAPE(__nv_bfloat16, 64);                                                                           \
        else if ((dtype) == DTYPE_BF16 && (head_size) <= 96)                                                           \
            LAUNCH_SHAPE(__nv_bfloat16, 96);                                                                           \
        else if ((dtype) == DTYPE_BF16 && (head_size) <= 128)                                                          \
            LAUNCH_SHAPE(__nv_bfloat16, 128);                                                                          \
        else if ((dtype) == DTYPE_BF16)                                                                                \
            LAUNCH_SHAPE(__nv_bfloat16, 256);                                                                          \
        else if ((head_size) <= 64)                                                                                    \
            LAUNCH_SHAPE(__half, 64);                                                                                  \
        else if ((head_size) <= 128)                                                                                   \
            LAUNCH_SHAPE(__half, 128);                                                                                 \
        else                                                                                                           \
            LAUNCH_SHAPE(__half, 256);                                                                                 \
    } while (0)

#endif
