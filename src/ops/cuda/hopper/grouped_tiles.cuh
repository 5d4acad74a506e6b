// Tiles of matmuls over ragged groups on GPUs of compute capability 9.0: their positions, and the stores of their sums.
//
// Tiles of an expert are taken in bands of BAND tiles of rows, column by column, so that concurrent tiles share
// operands in the L2 cache.
#ifndef OPS_CUDA_HOPPER_GROUPED_TILES_CUH
#define OPS_CUDA_HOPPER_GROUPED_TILES_CUH

#include "ops/cuda/elements.cuh"
#include "ops/cuda/grouped.cuh"
#include "ops/cuda/hopper/tiles.cuh"

enum {
    GROUPED_STAGES = 4,
    PART_FLOATS = 32,
    LINE = PART + 8,  // avoids bank conflicts
    FLOAT_LINE = PART_FLOATS + 8,
    PART_BYTES = 16 * FLOAT_LINE * 4,
    HOPPER_BYTES = GROUPED_STAGES * STAGE_BYTES + COMPUTE_THREADS / 32 * PART_BYTES,
};

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

// The rows of an fp32 result that a lane reads and writes, PART_FLOATS columns at a time.
struct float_place {
    float *to;        // of this lane's first row
    int64_t inputs;   // between rows
    int64_t rows;     // how many of the four (0, 4, 8 and 12 below) exist
    int64_t columns;  // existing columns from `to` on
};

static __device__ __forceinline__ struct float_place place_floats(float *d, const struct hopper_tile &tile,
                                                                  const struct grouped_args &args) {
    int lane = threadIdx.x % 32;
    int64_t row = tile.row + threadIdx.x / 32 % 4 * 16 + lane / 8, column = tile.column + lane % 8 * 4;
    struct float_place place;
    place.to = d + (tile.expert * args.outputs + row) * args.inputs + column;
    place.inputs = args.inputs;
    place.rows = (tile.rows_end - row + 3) / 4;
    place.columns = args.inputs - column;
    return place;
}

// Prefetches the old result, which is added to later, into the L2 cache while the sums are computed.
static __device__ __forceinline__ void prefetch_floats(const struct float_place &place) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int64_t aside = threadIdx.x % 8 * 28;  // eight lanes of a row: its lines of 32 columns
        if (i < place.rows && aside < place.columns)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(place.to + 4 * i * place.inputs + aside));
    }
}

static __device__ __forceinline__ void store_floats(const struct float_place &place, const float (&sums)[128],
                                                    float *part, bool adds) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int first = 0; first < COLUMNS; first += PART_FLOATS) {
        float x[4][4], old[4][4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (adds && i < place.rows && first < place.columns)
                load4_aligned(old[i], place.to + 4 * i * place.inputs + first);
        float *to = part + lane / 4 * FLOAT_LINE + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < PART_FLOATS / 8; j++) {
            const float *four = sums + 4 * (first / 8 + j);
            *(float2 *)(to + 8 * j) = make_float2(four[0], four[1]);
            *(float2 *)(to + 8 * FLOAT_LINE + 8 * j) = make_float2(four[2], four[3]);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            load4_aligned(x[i], part + (4 * i + lane / 8) * FLOAT_LINE + lane % 8 * 4);
#pragma unroll
            for (int j = 0; j < 4; j++)
                x[i][j] += old[i][j];
            if (i < place.rows && first < place.columns)
                store4_aligned(place.to + 4 * i * place.inputs + first, x[i]);
        }
        __syncwarp();
    }
}

#endif
