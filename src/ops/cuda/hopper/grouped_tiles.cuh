// Matmuls over ragged groups on GPUs of compute capability 9.0: the positions of tiles, the stores of their sums, and
// the kernel, whose ENGINE copies operands and multiplies them: grouped_hopper.cu (16 bits) and grouped_float8.cu.
//
// Tiles of an expert are taken in bands of BAND tiles of rows, column by column, so that concurrent tiles share
// operands in the L2 cache.
#ifndef OPS_CUDA_HOPPER_GROUPED_TILES_CUH
#define OPS_CUDA_HOPPER_GROUPED_TILES_CUH

#include "ops/cuda/elements.cuh"
#include "ops/cuda/grouped.cuh"
#include "ops/cuda/hopper/hopper.cuh"

enum {
    GROUPED_STAGES = 4,
    LINE = PART + 8,  // avoids bank conflicts
    BOX_FLOATS = LINE_BYTES / 4,
    WARP_ROWS = 16,
    WARP_BOX_BYTES = WARP_ROWS * LINE_BYTES,
    BOXES = 2,
};

// Shared memory for a warp's stores, and of a block. Blocks that walk over rows of experts also have static memory.
template <enum grouped_kind KIND> struct store_memory {
    static const int WARP_BYTES = KIND == GROUPED_WEIGHT ? BOXES * WARP_BOX_BYTES : WARP_ROWS * LINE * 2;
};

static int hopper_bytes(enum grouped_kind kind) {
    int of_warp =
        kind == GROUPED_WEIGHT ? store_memory<GROUPED_WEIGHT>::WARP_BYTES : store_memory<GROUPED_FORWARD>::WARP_BYTES;
    return GROUPED_STAGES * STAGE_BYTES + COMPUTE_THREADS / 32 * of_warp + ALIGNMENT;
}

// One tile of the result, and the inner dimension it sums over.
struct hopper_tile {
    int expert;
    int64_t row, rows_end;  // of the result; rows from rows_end on do not belong to this tile
    int64_t column;
    int64_t first, inner;  // first step and length of the inner dimension
};

template <enum grouped_kind KIND> struct hopper_tiles {
    const struct grouped_args &args;
    const int *before;
    int64_t across, down, count;

    __device__ __forceinline__ hopper_tiles(const struct grouped_args &a, const int *tiles_before)
        : args(a), before(tiles_before) {
        int64_t columns = KIND == GROUPED_FORWARD ? a.outputs : a.inputs;
        across = (columns + COLUMNS - 1) / COLUMNS;
        down = (a.outputs + ROWS - 1) / ROWS;
        count = (KIND == GROUPED_WEIGHT ? a.experts * down : before[a.experts]) * across;
    }

    __device__ __forceinline__ struct hopper_tile at(int64_t number) const {
        struct hopper_tile tile;
        int64_t row, column;
        if (KIND == GROUPED_WEIGHT) {
            tile.expert = (int)(number / (down * across));
            band_place(number - tile.expert * down * across, down, across, &row, &column);
            tile.row = row * ROWS;
            tile.rows_end = args.outputs;
            tile.first = args.offsets[tile.expert];
            tile.inner = args.offsets[tile.expert + 1] - tile.first;
        } else {
            tile.expert = expert_at(before, args.experts, number / across);
            int64_t start = before[tile.expert], tiles = before[tile.expert + 1] - start;
            band_place(number - start * across, tiles, across, &row, &column);
            tile.row = args.offsets[tile.expert] + row * ROWS;
            tile.rows_end = args.offsets[tile.expert + 1];
            tile.first = 0;
            tile.inner = KIND == GROUPED_FORWARD ? args.inputs : args.outputs;
        }
        tile.column = column * COLUMNS;
        return tile;
    }
};

// Stores through shared memory, so that whole lines are written. `part` is the warp's own.
template <typename T>
static __device__ __forceinline__ void store_halves(T *d, const float (&sums)[128], T *part,
                                                    const struct hopper_tile &tile, int64_t columns) {
    int lane = threadIdx.x % 32;
    int64_t row = tile.row + threadIdx.x / 32 % 4 * 16;
#pragma unroll
    for (int first = 0; first < COLUMNS; first += PART) {
        T *to = part + lane / 4 * LINE + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < PART / 8; j++) {
            const float *four = sums + 4 * (first / 8 + j);
            *(uint32_t *)(to + 8 * j) = pack2(four[0], four[1], T());
            *(uint32_t *)(to + 8 * LINE + 8 * j) = pack2(four[2], four[3], T());
        }
        __syncwarp();
        int64_t column = tile.column + first + lane % 8 * 8;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t down = i * 4 + lane / 8;
            if (row + down < tile.rows_end && column < columns)
                store_words(d + (row + down) * columns + column, *(const uint4 *)(part + down * LINE + lane % 8 * 8));
        }
        __syncwarp();
    }
}

// Prefetches a warp's rows of an fp32 result: eight lanes for each row, in steps of four rows.
static __device__ __forceinline__ void prefetch_floats(const struct hopper_tile &tile,
                                                       const struct grouped_args &args) {
    int64_t row = tile.row + threadIdx.x / 32 % 4 * WARP_ROWS + threadIdx.x % 32 / 8;
    int64_t column = tile.column + threadIdx.x % 8 * BOX_FLOATS;
    const float *from = (const float *)args.d + (tile.expert * args.outputs + row) * args.inputs + column;
#pragma unroll
    for (int i = 0; i < WARP_ROWS; i += 4)
        if (row + i < tile.rows_end && column < args.inputs)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i * args.inputs));
}

// A warp stores its 16 rows of a tile through its own shared memory, 32 columns at a time, while the next BOXES are
// prepared and the sums of the next tile are computed. Additions to the result happen in memory:
// it is prefetched into the L2 cache while the sums are computed.
static __device__ __forceinline__ void store_boxes(const CUtensorMap *map, const float (&sums)[128], uint8_t *memory,
                                                   const struct hopper_tile &tile, const struct grouped_args &args) {
    int lane = threadIdx.x % 32, row = lane / 4;
    int first_row = (int)tile.row + threadIdx.x / 32 % 4 * WARP_ROWS;
#pragma unroll
    for (int box = 0; box < COLUMNS / BOX_FLOATS; box++) {
        uint8_t *to = memory + box % BOXES * WARP_BOX_BYTES + row * LINE_BYTES + lane % 2 * 8;
        int column = (int)tile.column + box * BOX_FLOATS;
        if (lane == 0)
            stores_wait<BOXES - 1>();
        __syncwarp();
#pragma unroll
        for (int j = 0; j < BOX_FLOATS / 8; j++) {
            const float *four = sums + 4 * (box * (BOX_FLOATS / 8) + j);
            int chunk = (2 * j + lane % 4 / 2 ^ row) * 16;
            *(float2 *)(to + chunk) = make_float2(four[0], four[1]);
            *(float2 *)(to + 8 * LINE_BYTES + chunk) = make_float2(four[2], four[3]);
        }
        fence_async();
        __syncwarp();
        if (lane == 0) {
            if (first_row < tile.rows_end && column < args.inputs) {
                if (args.adds)
                    add_box(map, memory + box % BOXES * WARP_BOX_BYTES, column, first_row, tile.expert);
                else
                    store_box(map, memory + box % BOXES * WARP_BOX_BYTES, column, first_row, tile.expert);
            }
            stores_commit();
        }
    }
}

// ---- The kernel ----
// ENGINE has KIND, the type T of results in 16 bits, the registers COPY_REGISTERS and SUM_REGISTERS of both sides, its
// ARGS beyond grouped_args, copy (by one thread: the operands of all tiles of the block) and, constructed from ARGS,
// multiply (the sums of a tile).

template <typename ENGINE>
static __device__ __forceinline__ void compute_tiles(const ENGINE &engine, stages<GROUPED_STAGES> &stages,
                                                     const hopper_tiles<ENGINE::KIND> &tiles,
                                                     const CUtensorMap *d_map) {
    constexpr bool IS_WEIGHT = ENGINE::KIND == GROUPED_WEIGHT;
    typedef typename ENGINE::T T;
    const struct grouped_args &args = tiles.args;
    stage_turn<GROUPED_STAGES> turn = {0, 0};
    int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 - 4;
    uint8_t *part = stages.memory + GROUPED_STAGES * STAGE_BYTES + warp * store_memory<ENGINE::KIND>::WARP_BYTES;
    float sums[128];
    for (int64_t number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        struct hopper_tile tile = tiles.at(number);
        tile.row += group * 64;
        if (IS_WEIGHT && tile.inner == 0 && args.adds)
            continue;
        if (IS_WEIGHT && args.adds)
            prefetch_floats(tile, args);
        engine.multiply(sums, stages, turn, tile, group);
        if (IS_WEIGHT)
            store_boxes(d_map, sums, part, tile, args);
        else
            store_halves((T *)args.d, sums, (T *)part, tile,
                         ENGINE::KIND == GROUPED_FORWARD ? args.outputs : args.inputs);
    }
    if (IS_WEIGHT && threadIdx.x % 32 == 0)
        stores_wait();
}

template <typename ENGINE>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    grouped_kernel(typename ENGINE::ARGS args, const __grid_constant__ CUtensorMap a_map,
                   const __grid_constant__ CUtensorMap b_map, const __grid_constant__ CUtensorMap d_map) {
    extern __shared__ uint8_t memory[];
    __shared__ int before[ENGINE::KIND == GROUPED_WEIGHT ? 1 : ROUTER_MOST_EXPERTS + 1];
    __shared__ stages<GROUPED_STAGES> stages;
    stages_open(stages, memory);
    if (ENGINE::KIND != GROUPED_WEIGHT)
        count_tiles<HOPPER_THREADS>(before, args, ROWS);
    __syncthreads();
    hopper_tiles<ENGINE::KIND> tiles(args, before);
    if (threadIdx.x < HOPPER_THREADS - COMPUTE_THREADS) {
        give_registers<ENGINE::COPY_REGISTERS>();
        if (threadIdx.x == 0) {
            prefetch_map(&a_map);
            prefetch_map(&b_map);
            ENGINE::copy(stages, tiles, &a_map, &b_map);
        }
    } else {
        take_registers<ENGINE::SUM_REGISTERS>();
        compute_tiles(ENGINE(args), stages, tiles, &d_map);
    }
}

// Boxes of the operands have so many lines; `rows` of the first operand belong to experts.
template <typename ENGINE>
static void grouped_launch(struct cuda_device *cuda, const struct op_grouped_matmul *op,
                           const typename ENGINE::ARGS &args, const int lines[2], int64_t rows) {
    bool is_weight = ENGINE::KIND == GROUPED_WEIGHT;
    CUtensorMap a_map = map_tensor(op->a, lines[0]), b_map = map_tensor(op->b, lines[1]);
    CUtensorMap d_map = is_weight ? map_tensor(op->d, WARP_ROWS) : a_map;
    int64_t down = is_weight ? args.experts * divide_up(args.outputs, ROWS) : rows / ROWS + args.experts;
    int64_t across = divide_up(op->d.shape[op->d.rank - 1], COLUMNS);
    int processors = 0, bytes = hopper_bytes(ENGINE::KIND);
    CHECK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, cuda->index));
    auto kernel = grouped_kernel<ENGINE>;
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    LAUNCH(cuda, kernel, grid_x(min(down * across, (int64_t)processors)), HOPPER_THREADS, (size_t)bytes, args, a_map,
           b_map, d_map);
}

// Runs LAUNCH_KIND(KIND) for the kind of an operation.
#define WITH_GROUPED_KIND(kind, LAUNCH_KIND)                                                                           \
    do {                                                                                                               \
        if ((kind) == GROUPED_WEIGHT)                                                                                  \
            LAUNCH_KIND(GROUPED_WEIGHT);                                                                               \
        else if ((kind) == GROUPED_INPUT)                                                                              \
            LAUNCH_KIND(GROUPED_INPUT);                                                                                \
        else                                                                                                           \
            LAUNCH_KIND(GROUPED_FORWARD);                                                                              \
    } while (0)

#endif
