// Matmuls over ragged groups of rows on tensor cores, for bf16 and fp16. A block of four warps computes a tile of ROWS
// x 128 sums, one quarter per warp; smaller parts would be bound by loading fragments from shared memory. Operands
// arrive there by asynchronous copies, STAGES - 1 steps of the inner dimension ahead. Weight gradients have a block for
// every tile of every weight; otherwise blocks are persistent and take one tile after the other, all columns of a row
// tile together, so that the L2 cache serves both operands.
//
// An operand lies in shared memory as in global memory: "straight", lines of STEP steps, or "crossed", steps of as many
// lines as the tile has. Padding of 16 bytes keeps ldmatrix free of bank conflicts.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/grouped.cuh"
#include "ops/cuda/mma.cuh"

enum {
    TENSOR_THREADS = 128,
    COLUMNS = 128,
    WARP_COLUMNS = 64,
    STEP = 32,
    STAGES = 4,
    STRAIGHT_LINE = STEP + 8,
    OPERAND = COLUMNS * STRAIGHT_LINE,  // elements of the larger layout
    STAGE = 2 * OPERAND,
    TENSOR_BYTES = STAGES * STAGE * 2,
    HALF_LINE = COLUMNS + 8,   // of a 16-bit result in shared memory
    FLOAT_LINE = COLUMNS + 4,  // of an fp32 one
    BLOCKS_PER_PROCESSOR = 2,
};
static_assert(COLUMNS * FLOAT_LINE * 4 <= TENSOR_BYTES, "a result fits where the operands were");

// An operand of a matmul: lines are rows of the first or columns of the second.
template <typename T> struct tensor_operand {
    const T *from;         // element (line 0, step 0) of the tile
    int64_t stride;        // between lines if straight, between steps if crossed
    int64_t lines, inner;  // existing ones; beyond them are zeros
};

// Starts the copy of steps [step, step + STEP) of LINES lines.
template <typename T, int LINES, bool IS_CROSSED>
static __device__ __forceinline__ void start_copy(T *to, const tensor_operand<T> &operand, int64_t step) {
    constexpr int CHUNKS = LINES * STEP / 8, PER_ROW = IS_CROSSED ? LINES / 8 : STEP / 8;
    constexpr int LINE = IS_CROSSED ? LINES + 8 : STRAIGHT_LINE;
#pragma unroll
    for (int i = 0; i < CHUNKS / TENSOR_THREADS; i++) {
        int chunk = i * TENSOR_THREADS + threadIdx.x, row = chunk / PER_ROW, column = chunk % PER_ROW * 8;
        int64_t line = IS_CROSSED ? column : row, k = step + (IS_CROSSED ? row : column);
        int bytes = line < operand.lines && k < operand.inner ? 16 : 0;
        const T *source = operand.from;
        if (bytes)
            source += IS_CROSSED ? k * operand.stride + line : line * operand.stride + k;
        uint32_t address = (uint32_t)__cvta_generic_to_shared(to + row * LINE + column);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(bytes)
                     : "memory");
    }
}

// 16 lines from `line` on, 16 steps from `step` on, as a first operand.
template <typename T, int LINES, bool IS_CROSSED>
static __device__ __forceinline__ void load_rows(uint32_t out[4], const T *tile, int line, int step) {
    int lane = threadIdx.x & 31, matrix = lane / 8;
    if (IS_CROSSED)
        load_turned(out, tile + (step + lane % 8 + matrix / 2 * 8) * (LINES + 8) + line + matrix % 2 * 8);
    else
        load_matrices(out, tile + (line + lane % 16) * STRAIGHT_LINE + step + lane / 16 * 8);
}

// The same lines and steps as a second operand: two fragments of eight lines.
template <typename T, bool IS_CROSSED>
static __device__ __forceinline__ void load_columns(uint32_t out[4], const T *tile, int line, int step) {
    int lane = threadIdx.x & 31, matrix = lane / 8;
    if (IS_CROSSED)
        load_turned(out, tile + (step + lane % 8 + matrix % 2 * 8) * (COLUMNS + 8) + line + matrix / 2 * 8);
    else
        load_matrices(out, tile + (line + lane % 8 + matrix / 2 * 8) * STRAIGHT_LINE + step + matrix % 2 * 8);
}

// A warp has ROWS / 2 x WARP_COLUMNS sums, in fragments of 16 x 8.
template <int ROWS> struct tile_sums { float at[ROWS / 32][WARP_COLUMNS / 8][4]; };

template <typename T, int ROWS, bool A_CROSSED, bool B_CROSSED>
static __device__ __forceinline__ void multiply_stage(tile_sums<ROWS> &sums, const T *a, const T *b) {
    constexpr int DOWN = ROWS / 32, ACROSS = WARP_COLUMNS / 8;
    int warp = threadIdx.x / 32, row = warp % 2 * (ROWS / 2), column = warp / 2 * WARP_COLUMNS;
#pragma unroll
    for (int step = 0; step < STEP; step += 16) {
        uint32_t first[DOWN][4], second[ACROSS / 2][4];
#pragma unroll
        for (int i = 0; i < DOWN; i++)
            load_rows<T, ROWS, A_CROSSED>(first[i], a, row + 16 * i, step);
#pragma unroll
        for (int j = 0; j < ACROSS / 2; j++)
            load_columns<T, B_CROSSED>(second[j], b, column + 16 * j, step);
#pragma unroll
        for (int i = 0; i < DOWN; i++)
#pragma unroll
            for (int j = 0; j < ACROSS; j++)
                mma(sums.at[i][j], first[i], second[j / 2] + j % 2 * 2, T());
    }
}

template <typename T, int ROWS, bool A_CROSSED, bool B_CROSSED>
static __device__ __forceinline__ void multiply_tile(tile_sums<ROWS> &sums, T *shared, const tensor_operand<T> &a,
                                                     const tensor_operand<T> &b) {
    int steps = (int)((a.inner + STEP - 1) / STEP);
    // The last tile's result has been read from the memory that the operands overwrite.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < steps) {
            start_copy<T, ROWS, A_CROSSED>(shared + i * STAGE, a, (int64_t)i * STEP);
            start_copy<T, COLUMNS, B_CROSSED>(shared + i * STAGE + OPERAND, b, (int64_t)i * STEP);
        }
        async_commit();
    }
    for (int k = 0; k < steps; k++) {
        async_wait<STAGES - 2>();
        __syncthreads();  // step k has arrived, and all threads are done with step k - 1
        int next = k + STAGES - 1;
        if (next < steps) {
            T *stage = shared + next % STAGES * STAGE;
            start_copy<T, ROWS, A_CROSSED>(stage, a, (int64_t)next * STEP);
            start_copy<T, COLUMNS, B_CROSSED>(stage + OPERAND, b, (int64_t)next * STEP);
        }
        async_commit();
        const T *stage = shared + k % STAGES * STAGE;
        multiply_stage<T, ROWS, A_CROSSED, B_CROSSED>(sums, stage, stage + OPERAND);
    }
    async_wait<0>();
    __syncthreads();
}

// Destination of a tile of the result: at most `rows` by `columns` elements exist.
struct tile_place {
    int64_t stride, rows, columns;
};

// Stores through shared memory, so that whole lines are written.
template <typename T, int ROWS>
static __device__ __forceinline__ void store_halves(T *to, const struct tile_place &place, T *shared,
                                                    const tile_sums<ROWS> &sums) {
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    int row = warp % 2 * (ROWS / 2) + lane / 4, column = warp / 2 * WARP_COLUMNS + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < ROWS / 32; i++)
#pragma unroll
        for (int j = 0; j < WARP_COLUMNS / 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *(uint32_t *)(shared + (row + 16 * i + 8 * half) * HALF_LINE + column + 8 * j) =
                    pack2(sums.at[i][j][2 * half], sums.at[i][j][2 * half + 1], T());
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS / 8 / TENSOR_THREADS; i++) {
        int chunk = i * TENSOR_THREADS + threadIdx.x, m = chunk / (COLUMNS / 8), n = chunk % (COLUMNS / 8) * 8;
        if (m < place.rows && n < place.columns)
            store_words(to + m * place.stride + n, *(const uint4 *)(shared + m * HALF_LINE + n));
    }
}

template <int ROWS>
static __device__ __forceinline__ void store_floats(float *to, const struct tile_place &place, float *shared,
                                                    const tile_sums<ROWS> &sums, bool adds) {
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    int row = warp % 2 * (ROWS / 2) + lane / 4, column = warp / 2 * WARP_COLUMNS + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < ROWS / 32; i++)
#pragma unroll
        for (int j = 0; j < WARP_COLUMNS / 8; j++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *(float2 *)(shared + (row + 16 * i + 8 * half) * FLOAT_LINE + column + 8 * j) =
                    make_float2(sums.at[i][j][2 * half], sums.at[i][j][2 * half + 1]);
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < ROWS * COLUMNS / 4 / TENSOR_THREADS; i++) {
        int chunk = i * TENSOR_THREADS + threadIdx.x, m = chunk / (COLUMNS / 4), n = chunk % (COLUMNS / 4) * 4;
        if (m >= place.rows || n >= place.columns)
            continue;
        float x[4], old[4] = {};
        load4_aligned(x, shared + m * FLOAT_LINE + n);
        if (adds)
            load4_aligned(old, to + m * place.stride + n);
#pragma unroll
        for (int j = 0; j < 4; j++)
            x[j] += old[j];
        store4_aligned(to + m * place.stride + n, x);
    }
}

// d rows = a rows times w[e], transposed if forward.
template <typename T, int ROWS, bool IS_INPUT>
static __global__ void __launch_bounds__(TENSOR_THREADS, BLOCKS_PER_PROCESSOR)
    grouped_rows_tensor_kernel(struct grouped_args args) {
    extern __shared__ uint4 memory[];
    __shared__ int before[ROUTER_MOST_EXPERTS + 1];
    T *shared = (T *)memory;
    int64_t columns = IS_INPUT ? args.inputs : args.outputs, inner = IS_INPUT ? args.outputs : args.inputs;
    int64_t across = (columns + COLUMNS - 1) / COLUMNS;
    count_tiles<TENSOR_THREADS>(before, args, ROWS);
    for (int64_t at = blockIdx.x; at < before[args.experts] * across; at += gridDim.x) {
        struct group_tile tile = find_tile(before, args, (int)(at / across), ROWS);
        int64_t column = at % across * COLUMNS;
        tensor_operand<T> a, b;
        a.from = (const T *)args.a + tile.row * inner;
        a.stride = a.inner = b.inner = inner;
        a.lines = tile.end - tile.row;
        b.from = (const T *)args.b + tile.expert * args.outputs * args.inputs + (IS_INPUT ? column : column * inner);
        b.stride = args.inputs;
        b.lines = columns - column;
        tile_sums<ROWS> sums = {};
        multiply_tile<T, ROWS, false, IS_INPUT>(sums, shared, a, b);
        struct tile_place place = {columns, a.lines, b.lines};
        store_halves<T, ROWS>((T *)args.d + tile.row * columns + column, place, shared, sums);
    }
}

// w[e]'s gradient: tiles of all weights, inputs first.
template <typename T>
static __global__ void __launch_bounds__(TENSOR_THREADS, BLOCKS_PER_PROCESSOR)
    grouped_weight_tensor_kernel(struct grouped_args args) {
    extern __shared__ uint4 memory[];
    constexpr int ROWS = 128;
    int64_t across = (args.inputs + COLUMNS - 1) / COLUMNS, down = (args.outputs + ROWS - 1) / ROWS;
    int64_t expert = blockIdx.x / (across * down), row = blockIdx.x / across % down * ROWS;
    int64_t column = blockIdx.x % across * COLUMNS, first = args.offsets[expert];
    tensor_operand<T> a, b;
    a.from = (const T *)args.a + first * args.outputs + row;
    b.from = (const T *)args.b + first * args.inputs + column;
    a.stride = args.outputs;
    b.stride = args.inputs;
    a.lines = args.outputs - row;
    b.lines = args.inputs - column;
    a.inner = b.inner = args.offsets[expert + 1] - first;
    if (a.inner == 0 && args.adds)
        return;
    tile_sums<ROWS> sums = {};
    multiply_tile<T, ROWS, true, true>(sums, (T *)memory, a, b);
    struct tile_place place = {args.inputs, a.lines, b.lines};
    store_floats<ROWS>((float *)args.d + (expert * args.outputs + row) * args.inputs + column, place, (float *)memory,
                       sums, args.adds);
}

typedef void (*grouped_kernel)(struct grouped_args args);

template <typename T> static grouped_kernel rows_kernel(bool is_input, bool has_few_rows) {
    if (is_input)
        return has_few_rows ? grouped_rows_tensor_kernel<T, 64, true> : grouped_rows_tensor_kernel<T, 128, true>;
    return has_few_rows ? grouped_rows_tensor_kernel<T, 64, false> : grouped_rows_tensor_kernel<T, 128, false>;
}

static void launch_tensor(struct cuda_device *cuda, grouped_kernel kernel, int64_t blocks, struct grouped_args args) {
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, TENSOR_BYTES));
    LAUNCH(cuda, kernel, grid_x(blocks), TENSOR_THREADS, TENSOR_BYTES, args);
}

void grouped_run_tensor(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args args) {
#ifdef BEVATRON_HOPPER
    if (grouped_run_hopper(cuda, op, args))
        return;
#endif
    bool is_half = op->a.dtype == DTYPE_F16;
    if (op->kind == GROUPED_WEIGHT) {
        int64_t tiles = divide_up(args.outputs, 128) * divide_up(args.inputs, COLUMNS);
        launch_tensor(cuda,
                      is_half ? grouped_weight_tensor_kernel<__half> : grouped_weight_tensor_kernel<__nv_bfloat16>,
                      args.experts * tiles, args);
        return;
    }
    // Short tiles, if experts have few rows: tiles of 128 would be more than half empty.
    bool is_input = op->kind == GROUPED_INPUT, has_few_rows = op->a.shape[0] < 96 * args.experts;
    int processors = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, cuda->index));
    int64_t tiles = (op->a.shape[0] / (has_few_rows ? 64 : 128) + args.experts) * divide_up(op->d.shape[1], COLUMNS);
    grouped_kernel kernel =
        is_half ? rows_kernel<__half>(is_input, has_few_rows) : rows_kernel<__nv_bfloat16>(is_input, has_few_rows);
    launch_tensor(cuda, kernel, min(tiles, (int64_t)BLOCKS_PER_PROCESSOR * processors), args);
}
