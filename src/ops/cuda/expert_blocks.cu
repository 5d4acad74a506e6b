// Rows of experts in fp8 by blocks of 128, and their transpose with its own blocks: the copy to places, and the
// activation between the two matmuls, in one pass over tiles of 128 x 128 (blocks.cuh), which hold whole blocks in both
// orders. The values of a tile are computed twice from inputs in registers: for the maxima of lines, and to be stored.
//
// The gradient of a gated unit has two halves. If they are whole blocks, a tile has the same columns of both and of the
// activation's result. If not, blocks span both halves as one row, and tiles are those of single matrices.
#include "ops/cuda/blocks.cuh"
#include "ops/cuda/quantizer.cuh"

// A matrix to store: the gradient or one of its halves, or a result.
struct block_part {
    uint8_t *y, *transposed;                      // at the first column; NULL for none
    float *factors, *transposed_factors;          // of the first block of columns; of the first column
    int64_t stride, factors_width, turned_width;  // between rows of y; between blocks of a row; of a column
    int64_t columns;
    bool is_e5m2;
};

struct expert_blocks_args {
    struct quantizer_args in;
    struct block_part part[MOST_PARTS];
};

// The largest magnitudes of a tile's rows and columns, as bits; later overwritten by the scales of elements.
struct line_most {
    uint32_t of_row[TILE], of_column[TILE];
};

// Columns of a tile. Single matrices: tiles of the gradient come before those of the result.
struct block_tile {
    int64_t first, columns, from;  // the thread's columns are read from `from` on
    int matrix, which;             // of args.part; of a row's values
};
template <bool IS_SINGLE>
static __device__ __forceinline__ struct block_tile block_tile_at(const struct expert_blocks_args &args,
                                                                  int64_t number) {
    int64_t half = args.in.columns, of_gradient = (2 * half + TILE - 1) / TILE;
    struct block_tile tile = {number * TILE, half, number * TILE + 8 * thread_across(), 0, 0};
    if (!IS_SINGLE)
        return tile;
    tile.matrix = number >= of_gradient;
    tile.first -= tile.matrix * of_gradient * TILE;
    tile.from -= tile.matrix * of_gradient * TILE;
    tile.columns = args.part[tile.matrix].columns;
    tile.which = tile.matrix == 1 ? 2 : tile.from >= half;
    tile.from -= tile.which == 1 ? half : 0;
    return tile;
}

// Raises the largest of this thread's lines; all threads of the block call it.
template <int PARTS>
static __device__ __forceinline__ void see_row(struct line_most *most, const uint32_t (&of_row)[PARTS], int line) {
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        uint32_t bits = of_row[part];
#pragma unroll
        for (int offset = 1; offset < 8; offset *= 2)
            bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, offset));
        if (threadIdx.x % 8 == 0)
            atomicMax(&most[part].of_row[line], bits);
    }
}

template <int PARTS>
static __device__ __forceinline__ void see_columns(struct line_most *most, const uint32_t (&of_column)[PARTS][8]) {
#pragma unroll
    for (int i = 0; i < PARTS * 8; i++) {
        uint32_t bits = of_column[i / 8][i % 8];
        bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, 8));
        bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, 16));
        if ((threadIdx.x & 31) < 8)
            atomicMax(&most[i / 8].of_column[8 * thread_across() + i % 8], bits);
    }
}

// Stores the factors of a tile's rows and columns.
template <int PARTS>
static __device__ __forceinline__ void make_factors(struct line_most *most, const struct expert_blocks_args &args,
                                                    const struct block_tile &tile, int64_t base) {
    for (int i = threadIdx.x; i < PARTS * 2 * TILE; i += QUANTIZE_THREADS) {
        int line = i % TILE;
        const struct block_part &to = args.part[tile.matrix + i / (2 * TILE)];
        bool is_row = i / TILE % 2 == 0;
        bool is_there = is_row ? base + line < args.in.rows : tile.first + line < tile.columns;
        float *factors = !is_there ? NULL : is_row ? to.factors : to.transposed_factors;
        int64_t place = is_row ? tile.first / TILE * to.factors_width + base + line
                               : base / TILE * to.turned_width + tile.first + line;
        uint32_t *entry = is_row ? &most[i / (2 * TILE)].of_row[line] : &most[i / (2 * TILE)].of_column[line];
        *entry = __float_as_uint(write_factor<SCALING_VECTOR128>(factors, place, *entry, largest_float8(to.is_e5m2)));
    }
}

// Eight values of each part of four rows, from `row` of the matrix and `word` of the tile on.
template <int PARTS, typename VALUES>
static __device__ __forceinline__ void store_blocks(uint32_t (*memory)[TILE * WORDS], const struct line_most *most,
                                                    const struct block_part *to, int64_t row, int64_t column,
                                                    const VALUES &values) {
    int word = ((int)row & (TILE - 1)) / 4;
    uint32_t turned[PARTS][4][2];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        float value[MOST_PARTS][8];
        values(value, r);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            bool is_e5m2 = to[part].is_e5m2;
            float scale = __uint_as_float(most[part].of_row[4 * word + r]), scaled[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                scaled[i] = value[part][i] * __uint_as_float(most[part].of_column[8 * thread_across() + i]);
            turned[part][r][0] = pack_float8(scaled, 1.0f, is_e5m2);
            turned[part][r][1] = pack_float8(scaled + 4, 1.0f, is_e5m2);
            if (to[part].y)
                store_words(
                    to[part].y + (row + r) * to[part].stride + column,
                    make_uint2(pack_float8(value[part], scale, is_e5m2), pack_float8(value[part] + 4, scale, is_e5m2)));
        }
    }
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        if (to[part].transposed)
            store_turned(memory[part], turned[part], 8 * thread_across(), word);
}

// Tiles of columns blockIdx.x and every gridDim.x'th, of rows blockIdx.y and every gridDim.y'th. In backward a block
// has all columns of its rows.
template <typename Q, bool IS_SINGLE>
static __global__ void __launch_bounds__(QUANTIZE_THREADS, Q::IS_GRADIENT ? 1 : 2)
    expert_blocks_kernel(struct expert_blocks_args args, int64_t tiles) {
    constexpr int PARTS = IS_SINGLE ? 1 : Q::PARTS;
    constexpr int UNROLLED = Q::READS_AHEAD ? PASSES * 4 : 1;  // other activations are rare, and not inlined
    extern __shared__ __align__(16) uint32_t memory[];
    uint32_t(*turned)[TILE * WORDS] = (uint32_t(*)[TILE * WORDS]) memory;
    struct line_most *most = (struct line_most *)(memory + PARTS * TILE * WORDS);
    int down = thread_down();
    int64_t rows = args.in.rows;
    for (int64_t base = (int64_t)blockIdx.y * TILE; base < rows; base += (int64_t)gridDim.y * TILE) {
        float sum[PASSES][4] = {};
        for (int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
            const struct block_tile tile = block_tile_at<IS_SINGLE>(args, number);
            const struct block_part *to = args.part + tile.matrix;
            int64_t column = tile.first + 8 * thread_across();
            struct quantizer_row in[PASSES][4];  // kept, except around calls, which would have to save them
            uint32_t of_column[PARTS][8] = {};
            for (int i = threadIdx.x; i < PARTS * 2 * TILE; i += QUANTIZE_THREADS)
                ((uint32_t *)most)[i] = 0;
            __syncthreads();
#pragma unroll
            for (int i = 0; i < PASSES * 4 && Q::READS_AHEAD; i++) {
                int64_t row = base + 4 * (down + ROW_THREADS * (i / 4)) + i % 4;
                if (column < tile.columns && row < rows)
                    quantizer_fetch<Q>(&in[i / 4][i % 4], args.in, row, tile.from);
            }
            // A single matrix takes its values from the front of a row's values.
            auto compute = [&](float value[MOST_PARTS][8], int64_t row, int pass, int r) {
                struct quantizer_row again;
                if (!Q::READS_AHEAD)
                    quantizer_fetch<Q>(&again, args.in, row + r, tile.from);
                float dweight = quantizer_values<Q>(value, Q::READS_AHEAD ? in[pass][r] : again, NULL, args.in);
#pragma unroll
                for (int i = 0; i < 8 && IS_SINGLE; i++)
                    value[0][i] = tile.which == 0 ? value[0][i] : tile.which == 1 ? value[1][i] : value[2][i];
                return dweight;
            };
#pragma unroll UNROLLED
            for (int i = 0; i < PASSES * 4; i++) {
                int pass = i / 4, r = i % 4, line = 4 * (down + ROW_THREADS * pass);
                uint32_t of_row[PARTS] = {};
                if (column < tile.columns && base + line < rows) {
                    float value[MOST_PARTS][8];
                    float dweight = compute(value, base + line, pass, r);
                    sum[pass][r] += IS_SINGLE && tile.matrix == 0 ? 0.0f : dweight;
#pragma unroll
                    for (int k = 0; k < PARTS * 8; k++) {
                        uint32_t bits = magnitude_bits(value[k / 8][k % 8]);
                        of_row[k / 8] = max(of_row[k / 8], bits);
                        of_column[k / 8][k % 8] = max(of_column[k / 8][k % 8], bits);
                    }
                }
                see_row<PARTS>(most, of_row, line + r);
            }
            see_columns<PARTS>(most, of_column);
            __syncthreads();
            make_factors<PARTS>(most, args, tile, base);
            __syncthreads();
#pragma unroll UNROLLED
            for (int pass = 0; pass < PASSES; pass++) {
                int64_t row = base + 4 * (down + ROW_THREADS * pass);
                if (column < tile.columns && row < rows)
                    store_blocks<PARTS>(turned, most, to, row, column,
                                        [&](float value[MOST_PARTS][8], int r) { compute(value, row, pass, r); });
            }
            __syncthreads();
#pragma unroll
            for (int part = 0; part < PARTS; part++)
                if (to[part].transposed)
                    write_turned<8>(turned_matrix{to[part].transposed, tile.columns, rows, rows}, turned[part],
                                    tile.first, base);
            __syncthreads();
        }
        if (Q::IS_GRADIENT)
            write_dweights(args.in, (float *)memory, sum, base);
    }
}

template <typename Q, bool IS_SINGLE>
static void launch_expert_blocks(struct cuda_device *cuda, const struct expert_blocks_args &args) {
    int parts = IS_SINGLE ? 1 : Q::PARTS;
    int bytes = parts * (TILE * WORDS * (int)sizeof(uint32_t) + (int)sizeof(struct line_most));
    int64_t columns = args.in.columns, tiles = divide_up(columns, TILE);
    if (IS_SINGLE)
        tiles += divide_up(2 * columns, TILE);
    auto kernel = expert_blocks_kernel<Q, IS_SINGLE>;
    dim3 grid(grid_x(Q::IS_GRADIENT ? 1 : tiles), grid_yz(min(divide_up(args.in.rows, TILE), (int64_t)65535)));
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    LAUNCH(cuda, kernel, grid, QUANTIZE_THREADS, (size_t)bytes, args, tiles);
}

// The columns of an operand from `first` on.
static struct block_part block_part_of(const struct operand *to, int64_t first, int64_t columns, int64_t rows) {
    struct block_part part = {};
    enum dtype dtype = to->value.data ? to->value.dtype : to->transposed.dtype;
    if (to->value.data) {
        part.y = (uint8_t *)to->value.data + first;
        part.stride = to->value.shape[1];
        part.factors_width = to->range.shape[1];
        part.factors = (float *)to->range.data + first / TILE * part.factors_width;
    }
    if (to->transposed.data) {
        part.transposed = (uint8_t *)to->transposed.data + first * rows;
        part.turned_width = to->transposed_range.shape[1];
        part.transposed_factors = (float *)to->transposed_range.data + first;
    }
    part.columns = columns;
    part.is_e5m2 = dtype == DTYPE_E5M2;
    return part;
}

void expert_blocks_run(struct cuda_device *cuda, const struct quantizer_args &in, enum quantize_kind kind,
                       const struct operand *out, const struct operand *result) {
    struct expert_blocks_args args = {};
    int64_t columns = in.columns, rows = in.rows;
    bool is_glu_gradient = kind == QUANTIZE_GLU_GRADIENT, has_halves = is_glu_gradient && columns % TILE == 0;
    bool is_single = is_glu_gradient && !has_halves;
    if (out->scaling != SCALING_VECTOR128 || (result && result->scaling != SCALING_VECTOR128))
        die("the CUDA backend stores experts' fp8 with one range or by blocks of 128");
    args.in = in;
    int parts = 0;
    args.part[parts++] = block_part_of(out, 0, is_single ? 2 * columns : columns, rows);
    if (has_halves)
        args.part[parts++] = block_part_of(out, columns, columns, rows);
    if (result)
        args.part[parts++] = block_part_of(result, 0, columns, rows);
    if (is_single)  // of any activation
        launch_expert_blocks<quantizer<QUANTIZE_GLU_GRADIENT, ANY, true, true>, true>(cuda, args);
    else
        with_quantizer<true>(kind, in,
                             [&](auto quantizer) { launch_expert_blocks<decltype(quantizer), false>(cuda, args); });
}
