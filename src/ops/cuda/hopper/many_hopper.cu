// Several matmuls of the same shape at once on GPUs of compute capability 9.0, see tiles.cuh: matrices that are too
// small to keep all multiprocessors busy follow each other without a pause.
//
// Of a symmetric result, tiles that reach the diagonal or lie below it are computed. A tile is two squares of ROWS:
// squares below the diagonal are stored twice, as they are and mirrored; squares on it once; those above not at all.
// So every element is written by one tile.
//
// What is added to a tile comes while its sums are computed, to the memory through which the result leaves.
#include "ops/cuda/hopper/tiles.cuh"

enum {
    MANY_STAGES = 3,
    WARPS = COMPUTE_THREADS / 32,
    WARP_ROWS = 16,
    PART_BYTES = WARP_ROWS * LINE_BYTES,  // a box
    WARP_BYTES = COLUMNS / PART * PART_BYTES,
    MANY_BYTES = MANY_STAGES * STAGE_BYTES + WARPS * WARP_BYTES,
};

struct many_args {
    __nv_bfloat16 *d;
    int matrices, rows, columns, inner;
    float alpha, beta;
    bool has_c;
};

struct many_tile {
    int matrix, row, column;
};

// Tiles of a symmetric result in the rows of tiles before row i, where row k has k / 2 + 1 of them.
static __host__ __device__ __forceinline__ int tiles_above(int i) {
    int pairs = i / 2;
    return pairs * (pairs + 1) + (i % 2 ? pairs + 1 : 0);
}

template <bool IS_SYMMETRIC> struct many_tiles {
    int down, across, of_matrix, count;

    __host__ __device__ __forceinline__ many_tiles(const struct many_args &args) {
        down = (args.rows + ROWS - 1) / ROWS;
        across = (args.columns + COLUMNS - 1) / COLUMNS;
        of_matrix = IS_SYMMETRIC ? tiles_above(down) : down * across;
        count = args.matrices * of_matrix;
    }

    __device__ __forceinline__ struct many_tile at(int number) const {
        struct many_tile tile;
        tile.matrix = number / of_matrix;
        int within = number - tile.matrix * of_matrix;
        if (IS_SYMMETRIC) {
            int row = 0;
            while (tiles_above(row + 1) <= within)
                row++;
            tile.row = row * ROWS;
            tile.column = (within - tiles_above(row)) * COLUMNS;
        } else {
            int row, column;
            band_place(within, down, across, &row, &column);
            tile.row = row * ROWS;
            tile.column = column * COLUMNS;
        }
        return tile;
    }
};

// One thread: copies the operands of all tiles of this block. What lies beyond a matrix is 0.
template <bool A_CROSSED, bool B_CROSSED, bool IS_SYMMETRIC>
static __device__ __forceinline__ void copy_many(stages<MANY_STAGES> &stages, const many_tiles<IS_SYMMETRIC> &tiles,
                                                 int inner, const CUtensorMap *a_map, const CUtensorMap *b_map) {
    stage_turn<MANY_STAGES> turn = {0, 1};
    prefetch_map(a_map);
    prefetch_map(b_map);
    for (int number = (int)blockIdx.x; number < tiles.count; number += (int)gridDim.x) {
        struct many_tile tile = tiles.at(number);
        for (int step = 0; step < inner; step += STEP, turn.next()) {
            uint64_t *full = &stages.full[turn.stage];
            uint8_t *a = stages.memory + turn.stage * STAGE_BYTES, *b = a + A_BYTES;
            barrier_wait(&stages.empty[turn.stage], turn.parity);
            barrier_expect(full, STAGE_BYTES);
            if (!A_CROSSED)
                copy_box(a, a_map, full, step, tile.row, tile.matrix);
            if (!B_CROSSED)
                copy_box(b, b_map, full, step, tile.column, tile.matrix);
#pragma unroll
            for (int i = 0; i < COLUMNS / BOX_COLUMNS; i++) {
                int aside = i * BOX_COLUMNS;
                if (A_CROSSED && aside < ROWS)
                    copy_box(a + i * BOX_BYTES, a_map, full, tile.row + aside, step, tile.matrix);
                if (B_CROSSED)
                    copy_box(b + i * BOX_BYTES, b_map, full, tile.column + aside, step, tile.matrix);
            }
        }
    }
}

// The 16 rows of a tile that a warp has: their results leave through memory of its own, PART columns a box.
struct many_warp {
    uint8_t *memory;  // WARP_BYTES
    uint64_t *full;   // barrier: what is added has come
    uint32_t parity;
};

// Where 16 bytes of a box lie, see hopper.cuh.
static __device__ __forceinline__ int chunk_place(int row, int chunk) {
    return row * LINE_BYTES + (chunk ^ row % 8) * 16;
}

// Whether PART columns from `column` on are stored, and whether they are stored mirrored.
template <bool IS_SYMMETRIC>
static __device__ __forceinline__ bool is_stored(const struct many_args &args, const struct many_tile &tile,
                                                 int column) {
    return column < args.columns && (!IS_SYMMETRIC || column / ROWS * ROWS <= tile.row);
}

template <bool IS_SYMMETRIC>
static __device__ __forceinline__ bool is_mirrored(const struct many_tile &tile, int column) {
    return IS_SYMMETRIC && column / ROWS * ROWS < tile.row;
}

// Lets the copies of what is added begin. The warp's memory was last used by the result before.
template <bool IS_SYMMETRIC>
static __device__ __forceinline__ void begin_adding(const struct many_args &args, const struct many_warp &warp,
                                                    const struct many_tile &tile, int row, const CUtensorMap *c_map) {
    fence_async();
    __syncwarp();
    if (threadIdx.x % 32 > 0)
        return;
    int count = 0;
#pragma unroll 1
    for (int i = 0; i < COLUMNS / PART; i++)
        count += is_stored<IS_SYMMETRIC>(args, tile, tile.column + i * PART);
    barrier_expect(warp.full, count * PART_BYTES);
#pragma unroll 1
    for (int i = 0; i < COLUMNS / PART; i++)
        if (is_stored<IS_SYMMETRIC>(args, tile, tile.column + i * PART))
            copy_box(warp.memory + i * PART_BYTES, c_map, warp.full, tile.column + i * PART, row, tile.matrix);
}

// Keeps the compiler from loading ahead what there is no register for beside the sums.
#define REGISTERS_ARE_FEW asm volatile("" ::: "memory")

static __device__ __forceinline__ void combine_pair(uint8_t *place, const float *sums, const struct many_args &args) {
    float x = args.alpha * sums[0], y = args.alpha * sums[1];
    if (args.has_c) {
        __nv_bfloat162 old = *(const __nv_bfloat162 *)place;
        x += args.beta * __low2float(old);
        y += args.beta * __high2float(old);
    }
    *(uint32_t *)place = pack2(x, y, __nv_bfloat16());
}

static __device__ __forceinline__ void store_box(const struct many_args &args, __nv_bfloat16 *d, const uint8_t *box,
                                                 int row, int column) {
    int lane = threadIdx.x % 32;
    column += lane % 8 * 8;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int down = i * 4 + lane / 8;
        if (row + down < args.rows && column < args.columns)
            store_words(d + (int64_t)(row + down) * args.columns + column,
                        *(const uint4 *)(box + chunk_place(down, lane % 8)));
    }
}

// Its transpose: a lane has two columns of the box, which become pieces of two rows.
static __device__ __forceinline__ void store_mirrored(const struct many_args &args, __nv_bfloat16 *d,
                                                      const uint8_t *box, int row, int column) {
    int lane = threadIdx.x % 32;
    __nv_bfloat16 *to = d + (int64_t)(column + 2 * lane) * args.columns + row;
#pragma unroll
    for (int half = 0; half < WARP_ROWS; half += 8) {
        uint32_t even[4], odd[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t one = *(const uint32_t *)(box + chunk_place(half + 2 * i, lane / 4) + lane % 4 * 4);
            uint32_t two = *(const uint32_t *)(box + chunk_place(half + 2 * i + 1, lane / 4) + lane % 4 * 4);
            even[i] = __byte_perm(one, two, 0x5410);
            odd[i] = __byte_perm(one, two, 0x7632);
        }
        if (row + half < args.rows && column + 2 * lane < args.columns) {
            store_words(to + half, make_uint4(even[0], even[1], even[2], even[3]));
            store_words(to + args.columns + half, make_uint4(odd[0], odd[1], odd[2], odd[3]));
        }
    }
}

// Through the warp's memory, so that whole lines are written. Once they are there, the sums' registers are free.
template <bool IS_SYMMETRIC>
static __device__ __forceinline__ void store_many(const struct many_args &args, const float (&sums)[128],
                                                  const struct many_warp &warp, const struct many_tile &tile, int row) {
    int lane = threadIdx.x % 32;
    if (args.has_c)
        barrier_wait(warp.full, warp.parity);
#pragma unroll
    for (int first = 0; first < COLUMNS; first += 8) {
        uint8_t *pair = warp.memory + first / PART * PART_BYTES + lane % 4 * 4;
        combine_pair(pair + chunk_place(lane / 4, first % PART / 8), sums + first / 2, args);
        combine_pair(pair + chunk_place(lane / 4 + 8, first % PART / 8), sums + first / 2 + 2, args);
        REGISTERS_ARE_FEW;
    }
    __syncwarp();
    __nv_bfloat16 *d = args.d + (int64_t)tile.matrix * args.rows * args.columns;
#pragma unroll 1
    for (int i = 0; i < COLUMNS / PART && is_stored<IS_SYMMETRIC>(args, tile, tile.column + i * PART); i++) {
        const uint8_t *box = warp.memory + i * PART_BYTES;
        store_box(args, d, box, row, tile.column + i * PART);
        if (is_mirrored<IS_SYMMETRIC>(tile, tile.column + i * PART))
            store_mirrored(args, d, box, row, tile.column + i * PART);
    }
    __syncwarp();
}

template <bool A_CROSSED, bool B_CROSSED, bool IS_SYMMETRIC>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    many_hopper_kernel(struct many_args args, const __grid_constant__ CUtensorMap a_map,
                       const __grid_constant__ CUtensorMap b_map, const __grid_constant__ CUtensorMap c_map) {
    extern __shared__ uint8_t memory[];
    __shared__ stages<MANY_STAGES> stages;
    __shared__ uint64_t added[WARPS];
    if (threadIdx.x < WARPS)
        barrier_init(&added[threadIdx.x], 1);
    barriers_ready();
    stages_open(stages, memory);
    __syncthreads();
    many_tiles<IS_SYMMETRIC> tiles(args);
    if (threadIdx.x < HOPPER_THREADS - COMPUTE_THREADS) {
        give_registers<56>();
        if (threadIdx.x == 0)
            copy_many<A_CROSSED, B_CROSSED>(stages, tiles, args.inner, &a_map, &b_map);
        return;
    }
    take_registers<224>();
    stage_turn<MANY_STAGES> turn = {0, 0};
    int group = threadIdx.x / 128 - 1, number_of_warp = threadIdx.x / 32 - 4;
    struct many_warp warp = {stages.memory + MANY_STAGES * STAGE_BYTES + number_of_warp * WARP_BYTES,
                             &added[number_of_warp], 0};
    for (int number = (int)blockIdx.x; number < tiles.count; number += (int)gridDim.x) {
        struct many_tile tile = tiles.at(number);
        float sums[128];
        int row = tile.row + number_of_warp * WARP_ROWS;
        if (args.has_c)
            begin_adding<IS_SYMMETRIC>(args, warp, tile, row, &c_map);
        multiply_tile<__nv_bfloat16, A_CROSSED, B_CROSSED, false>(sums, stages, turn, args.inner, group);
        store_many<IS_SYMMETRIC>(args, sums, warp, tile, row);
        warp.parity ^= 1;
    }
}

extern "C" bool cuda_gains_by_many(const struct device *device) {
    return is_hopper(((const struct cuda_device *)device)->index) && map_encoder();
}

template <bool A_CROSSED, bool B_CROSSED, bool IS_SYMMETRIC>
static void launch_many(struct cuda_device *cuda, const struct op_matmul_many *op, const struct many_args &args) {
    CUtensorMap a_map = map_tensor(op->a, A_CROSSED ? (int)STEP : (int)ROWS);
    CUtensorMap b_map = map_tensor(op->b, B_CROSSED ? (int)STEP : (int)COLUMNS);
    CUtensorMap c_map = map_tensor(args.has_c ? op->c : op->d, WARP_ROWS);
    many_tiles<IS_SYMMETRIC> tiles(args);
    int processors = 0, bytes = MANY_BYTES + ALIGNMENT;
    CHECK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, cuda->index));
    auto kernel = many_hopper_kernel<A_CROSSED, B_CROSSED, IS_SYMMETRIC>;
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    LAUNCH(cuda, kernel, grid_x(min(tiles.count, processors)), HOPPER_THREADS, (size_t)bytes, args, a_map, b_map,
           c_map);
}

// Copies take rows of multiples of 16 bytes.
static bool is_copied(struct tensor t) {
    return t.shape[2] % 8 == 0 && (uintptr_t)t.data % 16 == 0;
}

extern "C" bool cuda_matmul_many(struct device *device, const struct op_matmul_many *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct many_args args = {};
    args.d = (__nv_bfloat16 *)op->d.data;
    args.matrices = (int)op->d.shape[0];
    args.rows = (int)op->d.shape[1];
    args.columns = (int)op->d.shape[2];
    args.inner = (int)op->a.shape[op->transpose_a ? 1 : 2];
    args.alpha = op->alpha;
    args.beta = op->beta;
    args.has_c = op->beta != 0;
    bool is_here = op->d.dtype == DTYPE_BF16 && is_copied(op->a) && is_copied(op->b) && is_copied(op->d) &&
                   (!args.has_c || is_copied(op->c));
    // Small matrices would leave most of a tile empty.
    if (!is_here || args.matrices == 0 || args.rows < ROWS || args.columns < ROWS || args.inner == 0)
        return false;
    if (op->is_symmetric && op->transpose_a && !op->transpose_b)
        launch_many<true, true, true>(cuda, op, args);
    else if (op->is_symmetric && !op->transpose_a && op->transpose_b)
        launch_many<false, false, true>(cuda, op, args);
    else if (op->is_symmetric && !op->transpose_a)
        launch_many<false, true, true>(cuda, op, args);
    else if (!op->transpose_a && !op->transpose_b)
        launch_many<false, true, false>(cuda, op, args);
    else
        return false;
    return true;
}
