// Several matmuls of the same shape at once on GPUs of compute capability 9.0, see hopper.cuh: matrices that are too
// small to keep all multiprocessors busy run back to back.
//
// A tile is 128 rows by up to four columns of blocks, squares of 64; the blocks of a row of tiles are dealt evenly to
// its tiles. Each group of warps has a row of blocks and computes those that are needed: for a symmetric result, those
// on the diagonal and below it; the latter are also stored mirrored. So every element is written once.
//
// The addend of a tile is copied while its sums are computed, to the shared memory through which the result is stored.
#include "ops/cuda/hopper/hopper.cuh"
#include "ops/cuda/mma.cuh"
#include "ops/cuda/updates.cuh"

enum {
    MANY_STAGES = 3,
    WARPS = COMPUTE_THREADS / 32,
    MANY_BOX_ROWS = 16,
    MANY_BOX_BYTES = MANY_BOX_ROWS * LINE_BYTES,  // a box
    MOST_BLOCKS = COLUMNS / PART,                 // of a tile's row
    MANY_WARP_BYTES = MOST_BLOCKS * MANY_BOX_BYTES,
    MANY_BYTES = MANY_STAGES * STAGE_BYTES + WARPS * MANY_WARP_BYTES,
};

struct many_args {
    int matrices, rows, columns, inner;
    float alpha, beta;
    bool has_c;
    struct norm_factor by;
};

// Scaling of one matrix: its sums times alpha, plus beta times the addend.
struct many_share {
    float alpha, beta;
    bool has_c;
};

struct many_tile {
    int matrix, row, column;
    int blocks;  // in a row
};

// Tiles of a symmetric result in the rows of tiles before row i, where row k has k / 2 + 1 of them.
static __host__ __device__ __forceinline__ int tiles_above(int i) {
    int pairs = i / 2;
    return pairs * (pairs + 1) + (i % 2 ? pairs + 1 : 0);
}

template <bool IS_SYMMETRIC> struct many_tiles {
    int rows, down, blocks, of_matrix, count;

    __host__ __device__ __forceinline__ many_tiles(const struct many_args &args) {
        rows = args.rows;
        down = (args.rows + ROWS - 1) / ROWS;
        blocks = (args.columns + PART - 1) / PART;
        of_matrix = IS_SYMMETRIC ? tiles_above(down) : down * tiles_for(blocks);
        count = args.matrices * of_matrix;
    }

    static __host__ __device__ __forceinline__ int tiles_for(int blocks) {
        return (blocks + MOST_BLOCKS - 1) / MOST_BLOCKS;
    }

    __device__ __forceinline__ struct many_tile at(int number) const {
        struct many_tile tile;
        tile.matrix = number / of_matrix;
        int within = number - tile.matrix * of_matrix, row = 0, column, here = blocks;
        if (IS_SYMMETRIC) {
            while (tiles_above(row + 1) <= within)
                row++;
            column = within - tiles_above(row);
            here = min(blocks, (row + 1) * (ROWS / PART));
        } else {
            band_place(within, down, tiles_for(blocks), &row, &column);
        }
        int across = tiles_for(here), first = column * here / across;
        tile.row = row * ROWS;
        tile.column = first * PART;
        tile.blocks = (column + 1) * here / across - first;
        return tile;
    }

    // How many of the tile's blocks a group of warps computes.
    __device__ __forceinline__ int of_group(const struct many_tile &tile, int group) const {
        int row = tile.row + group * PART;
        if (row >= rows)
            return 0;
        return IS_SYMMETRIC ? max(0, min(tile.blocks, (row - tile.column) / PART + 1)) : tile.blocks;
    }
};

// One thread: copies the operands of all tiles of this block. Elements beyond a matrix are 0.
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
            barrier_expect(full, A_BYTES + tile.blocks * BOX_BYTES);
            if (!A_CROSSED)
                copy_box(a, a_map, full, step, tile.row, tile.matrix);
#pragma unroll
            for (int i = 0; A_CROSSED && i < ROWS / BOX_COLUMNS; i++)
                copy_box(a + i * BOX_BYTES, a_map, full, tile.row + i * BOX_COLUMNS, step, tile.matrix);
            for (int i = 0; i < tile.blocks; i++) {
                int aside = tile.column + i * BOX_COLUMNS;
                copy_box(b + i * BOX_BYTES, b_map, full, B_CROSSED ? aside : step, B_CROSSED ? step : aside,
                         tile.matrix);
            }
        }
    }
}

// A warp's 16 rows of a tile: results are stored through its own shared memory, one box per block.
struct many_warp {
    uint8_t *memory;  // MANY_WARP_BYTES
    uint64_t *full;   // barrier: the addend has arrived
    uint32_t parity;
    int row, blocks;  // of this tile
};

// Offset of a 16-byte chunk in a box, see hopper.cuh.
static __device__ __forceinline__ int chunk_place(int row, int chunk) {
    return row * LINE_BYTES + (chunk ^ row % 8) * 16;
}

// Waits until the previous result has left the warp's memory, and starts the copies of the addend.
static __device__ __forceinline__ void begin_adding(const struct many_args &args, const struct many_warp &warp,
                                                    const struct many_tile &tile, const CUtensorMap *c_map) {
    fence_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        stores_wait();
        if (args.has_c) {
            barrier_expect(warp.full, warp.blocks * MANY_BOX_BYTES);
#pragma unroll 1
            for (int i = 0; i < warp.blocks; i++)
                copy_box(warp.memory + i * MANY_BOX_BYTES, c_map, warp.full, tile.column + i * PART, warp.row,
                         tile.matrix);
        }
    }
    __syncwarp();
}

// Keeps the compiler from early loads: the sums leave no registers for them.
#define REGISTERS_ARE_FEW asm volatile("" ::: "memory")

static __device__ __forceinline__ uint32_t combine_pair(uint32_t old, const float *sums, struct many_share share) {
    float x = share.alpha * sums[0], y = share.alpha * sums[1];
    if (share.has_c) {
        x += share.beta * __uint_as_float(old << 16);
        y += share.beta * __uint_as_float(old & 0xFFFF0000u);
    }
    return pack2(x, y, __nv_bfloat16());
}

// Combines a block's sums with the addend, in the addend's box.
static __device__ __forceinline__ void combine_box(uint8_t *box, const float *sums, struct many_share share) {
    int lane = threadIdx.x % 32;
    uint32_t old[16];
    uint8_t *pair = box + lane / 4 * LINE_BYTES + lane % 4 * 4;
    if (share.has_c) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            old[2 * i] = *(const uint32_t *)(pair + (i ^ lane / 4) * 16);
            old[2 * i + 1] = *(const uint32_t *)(pair + (i ^ lane / 4) * 16 + 8 * LINE_BYTES);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        *(uint32_t *)(pair + (i ^ lane / 4) * 16) = combine_pair(old[2 * i], sums + 4 * i, share);
        *(uint32_t *)(pair + (i ^ lane / 4) * 16 + 8 * LINE_BYTES) =
            combine_pair(old[2 * i + 1], sums + 4 * i + 2, share);
    }
    REGISTERS_ARE_FEW;
}

// Synchronizes the warps of a group.
static __device__ __forceinline__ void meet_group(int group) {
    if (group == 0)
        meet<1, 128>();
    else
        meet<2, 128>();
}

// Loads a warp's box as 8 x 8 matrices: for each eight columns, rows 0 to 7 and rows 8 to 15.
static __device__ __forceinline__ void load_box(uint32_t packed[16], const uint8_t *box) {
    int lane = threadIdx.x % 32, matrix = lane / 8;
#pragma unroll
    for (int j = 0; j < 8; j += 2)
        load_matrices(packed + 2 * j, box + chunk_place(lane % 8 + matrix % 2 * 8, j + matrix / 2));
}

// Writes the columns of such matrices to lines of the transposed block, of which the warp has a quarter.
static __device__ __forceinline__ void mirror_box(uint8_t *block, const uint32_t packed[16], int quarter) {
    int lane = threadIdx.x % 32, matrix = lane / 8;
#pragma unroll
    for (int j = 0; j < 8; j += 2)
        store_transposed(block + chunk_place(8 * (j + matrix / 2) + lane % 8, quarter * 2 + matrix % 2),
                         packed + 2 * j);
}

// Stores the group's blocks below the diagonal again, mirrored: each block through the memory of one warp, after all
// warps' results have left it.
static __device__ __forceinline__ void store_mirrored(const struct many_warp &warp, const struct many_tile &tile,
                                                      const CUtensorMap *block_map) {
    int quarter = warp.row / MANY_BOX_ROWS % 4, group = warp.row / PART % 2, row = warp.row / PART * PART;
    int count = min(warp.blocks, (row - tile.column) / PART);
    if (count <= 0)
        return;
    uint8_t *memory = warp.memory - quarter * MANY_WARP_BYTES;
    uint32_t packed[MOST_BLOCKS * 16];
#pragma unroll
    for (int i = 0; i < MOST_BLOCKS; i++)
        load_box(packed + i * 16, warp.memory + i * MANY_BOX_BYTES);
    if (threadIdx.x % 32 == 0)
        stores_wait();
    meet_group(group);
#pragma unroll
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (i < count)
            mirror_box(memory + i * MANY_WARP_BYTES, packed + i * 16, quarter);
    fence_async();
    meet_group(group);
    if (threadIdx.x % 32 == 0 && quarter < count) {
        store_box(block_map, warp.memory, row, tile.column + quarter * PART, tile.matrix);
        stores_commit();
    }
    __syncwarp();
}

struct many_maps {
    const CUtensorMap *c, *d, *block;  // the addend and the result, in boxes of a warp; the result in blocks
};

// Stores through the warp's memory. Once the results are there, the registers of sums are free.
template <bool IS_SYMMETRIC>
static __device__ __forceinline__ void store_many(const struct many_args &args, const float (&sums)[128],
                                                  const struct many_warp &warp, const struct many_tile &tile,
                                                  const struct many_maps &maps) {
    float factor = factor_of(args.by, tile.matrix);
    struct many_share share = {args.alpha * factor, args.beta * factor, args.has_c};
    if (args.has_c)
        barrier_wait(warp.full, warp.parity);
#pragma unroll
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (i < warp.blocks)
            combine_box(warp.memory + i * MANY_BOX_BYTES, sums + i * PART / 2, share);
    fence_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
#pragma unroll 1
        for (int i = 0; i < warp.blocks; i++)
            store_box(maps.d, warp.memory + i * MANY_BOX_BYTES, tile.column + i * PART, warp.row, tile.matrix);
        stores_commit();
    }
    __syncwarp();
    if (IS_SYMMETRIC)
        store_mirrored(warp, tile, maps.block);
}

// A group without blocks of a tile only releases the copies. All warps wait for each other, as matmuls would make them:
// a late warp must not miss two phases of a barrier.
static __device__ __forceinline__ void pass_tile(stages<MANY_STAGES> &stages, stage_turn<MANY_STAGES> &turn, int inner,
                                                 int group) {
    for (int step = 0; step < inner; step += STEP, turn.next()) {
        barrier_wait(&stages.full[turn.stage], turn.parity);
        meet_group(group);
        release_stage(&stages.empty[turn.stage]);
    }
}

template <bool A_CROSSED, bool B_CROSSED, bool IS_SYMMETRIC>
static __device__ __forceinline__ void compute_many(const struct many_args &args, stages<MANY_STAGES> &stages,
                                                    uint64_t *added, const struct many_maps &maps) {
    many_tiles<IS_SYMMETRIC> tiles(args);
    stage_turn<MANY_STAGES> turn = {0, 0};
    int group = threadIdx.x / 128 - 1, number_of_warp = threadIdx.x / 32 - 4;
    struct many_warp warp = {stages.memory + MANY_STAGES * STAGE_BYTES + number_of_warp * MANY_WARP_BYTES,
                             &added[number_of_warp], 0, 0, 0};
    for (int number = (int)blockIdx.x; number < tiles.count; number += (int)gridDim.x) {
        struct many_tile tile = tiles.at(number);
        float sums[128];
        // Otherwise the compiler keeps the registers of a tile's sums until the next one.
#pragma unroll
        for (int i = 0; i < 128; i++)
            sums[i] = 0;
        warp.row = tile.row + number_of_warp * MANY_BOX_ROWS;
        warp.blocks = tiles.of_group(tile, group);
        auto beside = [&]() { begin_adding(args, warp, tile, maps.c); };
        switch (warp.blocks) {
#define CASE(blocks)                                                                                                   \
    case blocks:                                                                                                       \
        multiply_tile<tile_kind<__nv_bfloat16, A_CROSSED, B_CROSSED, false, (blocks)*PART>>(                           \
            sums, stages, turn, args.inner, group, beside);                                                            \
        break
            CASE(4);
            CASE(3);
            CASE(2);
            CASE(1);
#undef CASE
        default:
            pass_tile(stages, turn, args.inner, group);
            continue;
        }
        store_many<IS_SYMMETRIC>(args, sums, warp, tile, maps);
        warp.parity ^= 1;
    }
    // The memory must outlast the last stores.
    stores_wait();
}

template <bool A_CROSSED, bool B_CROSSED, bool IS_SYMMETRIC>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    many_hopper_kernel(struct many_args args, const __grid_constant__ CUtensorMap a_map,
                       const __grid_constant__ CUtensorMap b_map, const __grid_constant__ CUtensorMap c_map,
                       const __grid_constant__ CUtensorMap d_map, const __grid_constant__ CUtensorMap block_map) {
    extern __shared__ uint8_t memory[];
    __shared__ stages<MANY_STAGES> stages;
    __shared__ uint64_t added[WARPS];
    if (threadIdx.x < WARPS)
        barrier_init(&added[threadIdx.x], 1);
    barriers_ready();
    stages_open(stages, memory);
    __syncthreads();
    if (threadIdx.x < HOPPER_THREADS - COMPUTE_THREADS) {
        give_registers<24>();
        if (threadIdx.x == 0)
            copy_many<A_CROSSED, B_CROSSED>(stages, many_tiles<IS_SYMMETRIC>(args), args.inner, &a_map, &b_map);
    } else {
        take_registers<240>();
        compute_many<A_CROSSED, B_CROSSED, IS_SYMMETRIC>(args, stages, added, {&c_map, &d_map, &block_map});
    }
}

extern "C" bool cuda_gains_by_many(const struct device *device) {
    return is_hopper(((const struct cuda_device *)device)->index) && map_encoder();
}

template <bool A_CROSSED, bool B_CROSSED, bool IS_SYMMETRIC>
static void launch_many(struct cuda_device *cuda, const struct op_matmul_many *op, const struct many_args &args) {
    CUtensorMap a_map = map_tensor(op->a, A_CROSSED ? (int)STEP : (int)ROWS);
    CUtensorMap b_map = map_tensor(op->b, STEP);
    CUtensorMap c_map = map_tensor(args.has_c ? op->c : op->d, MANY_BOX_ROWS), d_map = map_tensor(op->d, MANY_BOX_ROWS);
    CUtensorMap block_map = map_tensor(op->d, PART);
    many_tiles<IS_SYMMETRIC> tiles(args);
    int processors = 0, bytes = MANY_BYTES + ALIGNMENT;
    CHECK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, cuda->index));
    auto kernel = many_hopper_kernel<A_CROSSED, B_CROSSED, IS_SYMMETRIC>;
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    LAUNCH(cuda, kernel, grid_x(min(tiles.count, processors)), HOPPER_THREADS, (size_t)bytes, args, a_map, b_map, c_map,
           d_map, block_map);
}

// Copies need rows of multiples of 16 bytes.
static bool is_copied(struct tensor t) {
    return t.shape[2] % 8 == 0 && (uintptr_t)t.data % 16 == 0;
}

extern "C" bool cuda_matmul_many(struct device *device, const struct op_matmul_many *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct many_args args = {};
    args.matrices = (int)op->d.shape[0];
    args.rows = (int)op->d.shape[1];
    args.columns = (int)op->d.shape[2];
    args.inner = (int)op->a.shape[op->transpose_a ? 1 : 2];
    args.alpha = op->alpha;
    args.beta = op->beta;
    args.has_c = op->beta != 0;
    args.by = {(const float *)op->sum_squares.data, op->least, op->is_twice};
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
