// Tiles of fp8 values and their transpose. A thread holds eight columns of four neighbouring rows: it stores the rows
// directly, and the columns, four bytes each, in a tile in shared memory, from which each thread writes 16 bytes of a
// line of the transpose. The word of four rows w of column c is at w ^ turn(c), so that neither stores nor reads have
// bank conflicts.
#ifndef OPS_CUDA_BLOCKS_CUH
#define OPS_CUDA_BLOCKS_CUH

#include "ops/cuda/float8.cuh"

enum {
    TILE = 128,
    WORDS = TILE / 4,  // of a column of a tile
    QUANTIZE_THREADS = 256,
    ROW_THREADS = QUANTIZE_THREADS / (TILE / 8),
    PASSES = TILE / (4 * ROW_THREADS),
};

// Index of a word in the tile: neighbouring threads store columns that are COLUMNS apart, eight of a row in a warp, and
// four neighbouring words stay together.
template <int COLUMNS> static __device__ __forceinline__ int tile_place(int column, int word) {
    return column * WORDS + (word ^ (column / COLUMNS % 8 * 4));
}

// Destination of a transpose: `columns` rows of `rows` numbers, `stride` apart.
struct turned_matrix {
    uint8_t *to;
    int64_t columns, rows, stride;
};

// Writes a tile's columns as rows of the transpose, from column `first` and row `base` on: 16 bytes at a time if all
// rows of the transpose begin and end at a multiple of that.
template <int COLUMNS>
static __device__ __forceinline__ void write_turned(const struct turned_matrix &turned, const uint32_t *tile,
                                                    int64_t first, int64_t base) {
    int64_t columns = turned.columns, rows = turned.rows, stride = turned.stride;
    if (rows % 16 == 0 && stride % 16 == 0) {
        int word = threadIdx.x % 8 * 4;
        for (int column = threadIdx.x / 8; column < TILE; column += QUANTIZE_THREADS / 8)
            if (first + column < columns && base + 4 * word < rows)
                *(uint4 *)(turned.to + (first + column) * stride + base + 4 * word) =
                    *(const uint4 *)(tile + tile_place<COLUMNS>(column, word));
        return;
    }
    int lane = threadIdx.x & 31;
    for (int column = threadIdx.x >> 5; column < TILE; column += QUANTIZE_THREADS / 32)
        if (first + column < columns && base + 4 * lane < rows)
            *(uint32_t *)(turned.to + (first + column) * stride + base + 4 * lane) =
                tile[tile_place<COLUMNS>(column, lane)];
}

// Position of a thread in a tile: a warp has eight columns of threads and four rows.
static __device__ __forceinline__ int thread_across(void) {
    return threadIdx.x % 8 + threadIdx.x / 32 % 2 * 8;
}
static __device__ __forceinline__ int thread_down(void) {
    return threadIdx.x / 8 % 4 + threadIdx.x / 64 * 4;
}

// Stores four rows of eight values as words of columns of the tile.
static __device__ __forceinline__ void store_turned(uint32_t *tile, const uint32_t packed[4][2], int column, int word) {
#pragma unroll
    for (int quad = 0; quad < 2; quad++) {
        uint32_t turned[4];
        turn4x4(turned, packed[0][quad], packed[1][quad], packed[2][quad], packed[3][quad]);
#pragma unroll
        for (int i = 0; i < 4; i++)
            tile[tile_place<8>(column + 4 * quad + i, word)] = turned[i];
    }
}

// Destination of a part of a kernel's results: a half of a gated unit's gradient, or an activation's result.
struct turned_part {
    uint8_t *y, *transposed;  // at the part's first column; NULL for none
    int64_t stride;           // between rows of y
    float scale;
    bool is_e5m2;
};

enum { MOST_PARTS = 3 };  // two halves and the activation's result

// Stores eight values of each part of four rows from (row, column) on; `values` computes a row's. Returns the largest
// magnitude of the first HALVES parts and of `seen`.
template <int PARTS, int HALVES, typename VALUES>
static __device__ __forceinline__ float store_parts(uint32_t (*tile)[TILE * WORDS], const struct turned_part *to,
                                                    int64_t row, int64_t column, float seen, const VALUES &values) {
    uint32_t packed[PARTS][4][2];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        float value[MOST_PARTS][8];
        values(value, r);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
#pragma unroll
            for (int i = 0; i < 8 && part < HALVES; i++)
                seen = larger_magnitude(seen, value[part][i]);
            packed[part][r][0] = pack_float8(value[part], to[part].scale, to[part].is_e5m2);
            packed[part][r][1] = pack_float8(value[part] + 4, to[part].scale, to[part].is_e5m2);
            if (to[part].y)
                *(uint2 *)(to[part].y + (row + r) * to[part].stride + column) =
                    make_uint2(packed[part][r][0], packed[part][r][1]);
        }
    }
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        if (to[part].transposed)
            store_turned(tile[part], packed[part], 8 * thread_across(), ((int)row & (TILE - 1)) / 4);
    return seen;
}

// Writes the transposes of a tile, after all of its rows were stored.
template <int PARTS>
static __device__ __forceinline__ void write_parts(const struct turned_part *to, uint32_t (*tile)[TILE * WORDS],
                                                   int64_t first, int64_t base, int64_t columns, int64_t rows) {
    __syncthreads();
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        if (to[part].transposed)
            write_turned<8>(turned_matrix{to[part].transposed, columns, rows, rows}, tile[part], first, base);
    __syncthreads();
}

// Factors of blocks of fp8 numbers: powers of two, computed as on the CPU, so that codes are identical.

enum { LEAST_EXPONENT = -127, MOST_EXPONENT = 127, E8M0_BIAS = 127, E8M0_NAN = 255 };

static __device__ __host__ __forceinline__ float largest_float8(bool is_e5m2) {
    return is_e5m2 ? 57344.0f : 448.0f;
}

static __device__ __forceinline__ int block_exponent(uint32_t most, float largest) {
    float size = __uint_as_float(most);
    if (most == 0 || most >= 0x7F800000u)
        return 0;
    int exponent;
    float fraction = frexpf(__fdiv_rn(size, largest), &exponent);
    exponent -= fraction == 0.5f;
    return min(max(exponent, (int)LEAST_EXPONENT), (int)MOST_EXPONENT);
}

// Index of the factor of block `block` of a line; `width` is the columns of the scales.
template <int SCALING>
static __device__ __forceinline__ int64_t factor_place(int64_t width, int64_t line, int64_t block) {
    if (SCALING == SCALING_VECTOR128)
        return block * width + line;
    if (SCALING == SCALING_BLOCK128)
        return line / TILE * width + block;
    return tiled_place(width, line, block);
}

// Stores the factor of a block with this largest magnitude, if it has a place, and returns the scale of its elements.
template <int SCALING>
static __device__ __forceinline__ float write_factor(void *scales, int64_t place, uint32_t most, float largest) {
    int exponent = block_exponent(most, largest);
    bool is_whole = most < 0x7F800000u;
    if (SCALING == SCALING_VECTOR32 && scales)
        ((uint8_t *)scales)[place] = is_whole ? (uint8_t)(exponent + E8M0_BIAS) : (uint8_t)E8M0_NAN;
    else if (scales)
        ((float *)scales)[place] = is_whole ? ldexpf(1.0f, exponent) : __int_as_float(0x7FC00000);
    return ldexpf(1.0f, -exponent);
}

#endif
