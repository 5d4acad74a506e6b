// fp8 by blocks: each block of threads stores a tile of 128 x 128 and its transpose (blocks.cuh), whose blocks of
// elements lie within the tile; without the transpose, rows. The factors are powers of two, computed as on the CPU, so
// that codes are identical.
#include "ops/cuda/blocks.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/float4.cuh"

enum { ROWS_AHEAD = 4, QUARTERS = TILE / 32 };

struct blocks_args {
    uint8_t *y, *transposed;           // (N, C), (C, N) or NULL
    void *scales, *transposed_scales;  // of y, of transposed
    int64_t width, transposed_width;   // columns of the scales
    const __nv_bfloat16 *x;
    int64_t parts, rows, columns;                   // rows: of a part
    int64_t scales_bytes, transposed_scales_bytes;  // of a part
    float largest;
    bool is_e5m2;
};

// The arguments for one of the stacked matrices.
static __device__ __forceinline__ struct blocks_args part_args(struct blocks_args args, int64_t part) {
    int64_t before = part * args.rows;
    args.y = args.y ? args.y + before * args.columns : NULL;
    args.transposed = args.transposed ? args.transposed + before : NULL;
    args.scales = args.scales ? (uint8_t *)args.scales + part * args.scales_bytes : NULL;
    if (args.transposed_scales)
        args.transposed_scales = (uint8_t *)args.transposed_scales + part * args.transposed_scales_bytes;
    args.x += before * args.columns;
    return args;
}

// Blocks of elements across a tile.
template <int SCALING> static __device__ __forceinline__ constexpr int blocks_across(void) {
    return SCALING == SCALING_VECTOR32 ? QUARTERS : 1;
}

// The largest magnitudes, as bits of fp32, of the tile's rows and columns, or of 32 neighbours of each; for the whole
// tile, only the first of either. Later overwritten by the scales of elements.
template <int SCALING> struct tile_most {
    uint32_t of_row[TILE][SCALING == SCALING_VECTOR32 ? QUARTERS : 1],
        of_column[TILE][SCALING == SCALING_VECTOR32 ? QUARTERS : 1];
};

// The larger magnitudes of two pairs of bf16, as bits. NaN is above all.
static __device__ __forceinline__ uint32_t larger_pair(uint32_t most, uint32_t pair) {
    return __vmaxu2(most, pair & 0x7FFF7FFFu);
}

static __device__ __forceinline__ uint32_t larger_of_row(const eight<__nv_bfloat16> &x) {
    const uint4 word = x.word[0];
    return larger_pair(larger_pair(larger_pair(larger_pair(0, word.x), word.y), word.z), word.w);
}

// The larger of a pair of bf16, as bits of fp32.
static __device__ __forceinline__ uint32_t larger_of_pair(uint32_t pair) {
    return max(pair << 16, pair & 0xFFFF0000u);
}

// Raise `most` to the largest of this thread's values and of those of the lanes that share a block of elements.
template <int SCALING>
static __device__ __forceinline__ void see_rows(struct tile_most<SCALING> *most,
                                                const eight<__nv_bfloat16> in[PASSES][4]) {
    constexpr int LANES = SCALING == SCALING_VECTOR32 ? 4 : 8;
    int down = thread_down(), quarter = SCALING == SCALING_VECTOR32 ? thread_across() / 4 : 0;
#pragma unroll
    for (int i = 0; i < PASSES * 4; i++) {
        uint32_t row = larger_of_row(in[i / 4][i % 4]);
#pragma unroll
        for (int offset = 1; offset < LANES; offset *= 2)
            row = larger_pair(row, __shfl_xor_sync(0xFFFFFFFFu, row, offset));
        if (threadIdx.x % LANES == 0)
            atomicMax(&most->of_row[4 * (down + ROW_THREADS * (i / 4)) + i % 4][quarter], larger_of_pair(row));
    }
}

// The blocks of columns go down the whole tile, or are those of a pass.
template <int SCALING>
static __device__ __forceinline__ void see_columns(struct tile_most<SCALING> *most,
                                                   const eight<__nv_bfloat16> in[PASSES][4]) {
    constexpr int TURNS = SCALING == SCALING_VECTOR32 ? PASSES : 1;
    int across = thread_across(), down = thread_down();
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        uint32_t pair[4] = {};
#pragma unroll
        for (int i = turn * 4; i < (TURNS == 1 ? PASSES * 4 : turn * 4 + 4); i++) {
            const uint4 word = in[i / 4][i % 4].word[0];
            pair[0] = larger_pair(pair[0], word.x), pair[1] = larger_pair(pair[1], word.y);
            pair[2] = larger_pair(pair[2], word.z), pair[3] = larger_pair(pair[3], word.w);
        }
        int quarter = SCALING == SCALING_VECTOR32 ? down / 8 + 2 * turn : 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            pair[k] = larger_pair(pair[k], __shfl_xor_sync(0xFFFFFFFFu, pair[k], 8));
            pair[k] = larger_pair(pair[k], __shfl_xor_sync(0xFFFFFFFFu, pair[k], 16));
            if ((threadIdx.x & 31) >= 8)
                continue;
            atomicMax(&most->of_column[8 * across + 2 * k][quarter], pair[k] << 16);
            atomicMax(&most->of_column[8 * across + 2 * k + 1][quarter], pair[k] & 0xFFFF0000u);
        }
    }
}

// Largest magnitude of the whole tile, for rows and for columns.
static __device__ __forceinline__ void see_all(struct tile_most<SCALING_BLOCK128> *most,
                                               const eight<__nv_bfloat16> in[PASSES][4]) {
    uint32_t all = 0;
#pragma unroll
    for (int i = 0; i < PASSES * 4; i++)
        all = larger_pair(all, larger_of_row(in[i / 4][i % 4]));
    all = __reduce_max_sync(0xFFFFFFFFu, larger_of_pair(all));
    if ((threadIdx.x & 31) == 0) {
        atomicMax(&most->of_row[0][0], all);
        atomicMax(&most->of_column[0][0], all);
    }
}

// Stores the factors of this tile's blocks, and replaces magnitudes by the scales of elements.
template <int SCALING, bool HAS_VALUE, bool HAS_TURNED>
static __device__ __forceinline__ void make_scales(struct tile_most<SCALING> *most, const struct blocks_args &args,
                                                   int64_t first, int64_t base) {
    constexpr int ACROSS = blocks_across<SCALING>(), LINES = SCALING == SCALING_BLOCK128 ? 1 : TILE;
    for (int i = threadIdx.x; i < 2 * LINES * ACROSS; i += QUANTIZE_THREADS) {
        bool is_row = i < LINES * ACROSS;
        if (!(is_row ? HAS_VALUE : HAS_TURNED))
            continue;
        int line = i / ACROSS % LINES, part = i % ACROSS;
        int64_t lines = is_row ? args.rows : args.columns, length = is_row ? args.columns : args.rows;
        int64_t at = (is_row ? first : base) + part * (TILE / ACROSS), row = (is_row ? base : first) + line;
        uint32_t *entry = is_row ? &most->of_row[line][part] : &most->of_column[line][part];
        void *scales = row < lines && at < length ? is_row ? args.scales : args.transposed_scales : NULL;
        int64_t place = factor_place<SCALING>(is_row ? args.width : args.transposed_width, row, at / (TILE / ACROSS));
        *entry = __float_as_uint(write_factor<SCALING>(scales, place, *entry, args.largest));
    }
}

// The scale of an element of the line, `at` elements into the tile.
template <int SCALING, int ACROSS>
static __device__ __forceinline__ float scale_at(const uint32_t scales[TILE][ACROSS], int line, int at) {
    return __uint_as_float(SCALING == SCALING_BLOCK128 ? scales[0][0] : scales[line][at / (TILE / ACROSS)]);
}

template <int SCALING, bool HAS_VALUE, bool HAS_TURNED>
static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_blocks_kernel(struct blocks_args all) {
    constexpr int ACROSS = blocks_across<SCALING>();
    int64_t tiles = (all.rows + TILE - 1) / TILE, part = all.parts > 1 ? blockIdx.y / tiles : 0;
    const struct blocks_args args = part_args(all, part);
    __shared__ __align__(16) uint32_t tile[HAS_TURNED ? TILE * WORDS : 4];
    __shared__ struct tile_most<SCALING> most;
    int across = thread_across(), down = thread_down();
    int64_t first = (int64_t)blockIdx.x * TILE, base = (blockIdx.y - part * tiles) * TILE, column = first + 8 * across;
    int64_t rows = args.rows, columns = args.columns;
    eight<__nv_bfloat16> in[PASSES][4] = {};
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int64_t row = base + 4 * (down + ROW_THREADS * pass) + r;
            if (column < columns && row < rows)
                in[pass][r] = fetch8(args.x + row * columns, column, columns, true);
        }
    for (int i = threadIdx.x; i < TILE * ACROSS; i += QUANTIZE_THREADS)
        (&most.of_row[0][0])[i] = (&most.of_column[0][0])[i] = 0;
    __syncthreads();
    if constexpr (SCALING == SCALING_BLOCK128) {
        see_all(&most, in);
    } else {
        if (HAS_VALUE)
            see_rows<SCALING>(&most, in);
        if (HAS_TURNED)
            see_columns<SCALING>(&most, in);
    }
    __syncthreads();
    make_scales<SCALING, HAS_VALUE, HAS_TURNED>(&most, args, first, base);
    __syncthreads();
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++) {
        int word = down + ROW_THREADS * pass;
        int64_t row = base + 4 * word;
        if (column >= columns || row >= rows)
            continue;
        float of_column[8];
#pragma unroll
        for (int i = 0; i < 8 && HAS_TURNED; i++)
            of_column[i] = scale_at<SCALING, ACROSS>(most.of_column, 8 * across + i, 4 * word);
        uint32_t turned[4][2];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float value[8], scaled[8];
            unpack8(value, in[pass][r]);
            if (HAS_TURNED) {
#pragma unroll
                for (int i = 0; i < 8; i++)
                    scaled[i] = value[i] * of_column[i];
                turned[r][0] = pack_float8(scaled, 1.0f, args.is_e5m2);
                turned[r][1] = pack_float8(scaled + 4, 1.0f, args.is_e5m2);
            }
            if (HAS_VALUE) {
                float scale = scale_at<SCALING, ACROSS>(most.of_row, 4 * word + r, 8 * across);
                store_words(
                    args.y + (row + r) * columns + column,
                    make_uint2(pack_float8(value, scale, args.is_e5m2), pack_float8(value + 4, scale, args.is_e5m2)));
            }
        }
        if (HAS_TURNED)
            store_turned(tile, turned, 8 * across, word);
    }
    __syncthreads();
    if (HAS_TURNED)
        write_turned<8>(turned_matrix{args.transposed, columns, rows, rows * args.parts}, tile, first, base);
}

// Without a transpose, by blocks of a row: a warp has 256 columns of ROWS_AHEAD rows, whose reads are in flight at
// once.
template <int SCALING>
static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_rows_kernel(struct blocks_args all) {
    constexpr int LANES = TILE / 8 / blocks_across<SCALING>();
    int lane = threadIdx.x & 31;
    int64_t first = ((int64_t)blockIdx.y * (QUANTIZE_THREADS / 32) + threadIdx.x / 32) * ROWS_AHEAD;
    // Parts have a multiple of ROWS_AHEAD rows. Rows after the last part do not exist.
    int64_t part = all.parts > 1 ? min(first / all.rows, all.parts - 1) : 0;
    const struct blocks_args args = part_args(all, part);
    int64_t columns = args.columns, column = 256 * (int64_t)blockIdx.x + 8 * lane;
    first -= part * args.rows;
    eight<__nv_bfloat16> in[ROWS_AHEAD] = {};
#pragma unroll
    for (int r = 0; r < ROWS_AHEAD; r++)
        if (column < columns && first + r < args.rows)
            in[r] = fetch8(args.x + (first + r) * columns, column, columns, true);
#pragma unroll
    for (int r = 0; r < ROWS_AHEAD; r++) {
        int64_t row = first + r;
        uint32_t pair = larger_of_row(in[r]);
#pragma unroll
        for (int offset = 1; offset < LANES; offset *= 2)
            pair = larger_pair(pair, __shfl_xor_sync(0xFFFFFFFFu, pair, offset));
        if (column >= columns || row >= args.rows)
            continue;
        float value[8], scale;
        unpack8(value, in[r]);
        scale = write_factor<SCALING>(lane % LANES == 0 ? args.scales : NULL,
                                      factor_place<SCALING>(args.width, row, column / (8 * LANES)),
                                      larger_of_pair(pair), args.largest);
        store_words(args.y + row * columns + column,
                    make_uint2(pack_float8(value, scale, args.is_e5m2), pack_float8(value + 4, scale, args.is_e5m2)));
    }
}

template <int SCALING> static void launch_blocks(struct cuda_device *cuda, const struct blocks_args &args) {
    dim3 grid(grid_x(divide_up(args.columns, TILE)), grid_yz(args.parts * divide_up(args.rows, TILE)));
    dim3 of_rows(grid_x(divide_up(args.columns, 256)),
                 grid_yz(divide_up(args.parts * args.rows, QUANTIZE_THREADS / 32 * ROWS_AHEAD)));
    if (args.y && args.transposed)
        LAUNCH(cuda, (quantize_blocks_kernel<SCALING, true, true>), grid, QUANTIZE_THREADS, 0, args);
    else if (args.transposed)
        LAUNCH(cuda, (quantize_blocks_kernel<SCALING, false, true>), grid, QUANTIZE_THREADS, 0, args);
    else if constexpr (SCALING == SCALING_BLOCK128)
        LAUNCH(cuda, (quantize_blocks_kernel<SCALING, true, false>), grid, QUANTIZE_THREADS, 0, args);
    else
        LAUNCH(cuda, quantize_rows_kernel<SCALING>, of_rows, QUANTIZE_THREADS, 0, args);
}

// Zeroes the scales; those beyond the matrix stay 0.
static void clear_scales(struct cuda_device *cuda, struct tensor scales) {
    if (scales.data)
        CHECK_CUDA(cudaMemsetAsync(scales.data, 0, tensor_bytes(scales), cuda->streams[STREAM_COMPUTE]));
}

static int64_t part_bytes(struct tensor scales, int64_t parts) {
    return scales.data ? (int64_t)tensor_bytes(scales) / parts : 0;
}

extern "C" void cuda_quantize_blocks(struct device *device, const struct op_quantize_blocks *op) {
    struct cuda_device *cuda = cuda_use(device);
    const struct operand *y = &op->y;
    enum dtype dtype = y->value.data ? y->value.dtype : y->transposed.dtype;
    if (op->x.dtype != DTYPE_BF16)
        die("the CUDA backend quantizes bf16 to fp8 and fp4, not %s", dtype_name(op->x.dtype));
    if (tensor_count(op->x) == 0)
        return;
    clear_scales(cuda, y->range);
    clear_scales(cuda, y->transposed_range);
    if (scaling_is_float4(y->scaling)) {
        cuda_quantize_float4(cuda, op);
        return;
    }
    struct blocks_args args = {};
    args.y = (uint8_t *)y->value.data;
    args.transposed = (uint8_t *)y->transposed.data;
    args.scales = y->range.data;
    args.transposed_scales = y->transposed_range.data;
    args.width = y->range.shape[1];
    args.transposed_width = y->transposed_range.shape[1];
    args.x = (const __nv_bfloat16 *)op->x.data;
    args.parts = op->parts > 0 ? op->parts : 1;
    args.rows = op->x.shape[0] / args.parts;
    args.columns = op->x.shape[1];
    args.scales_bytes = part_bytes(y->range, args.parts);
    args.transposed_scales_bytes = part_bytes(y->transposed_range, args.parts);
    args.is_e5m2 = dtype == DTYPE_E5M2;
    args.largest = largest_float8(args.is_e5m2);
    if (y->scaling == SCALING_VECTOR128)
        launch_blocks<SCALING_VECTOR128>(cuda, args);
    else if (y->scaling == SCALING_BLOCK128)
        launch_blocks<SCALING_BLOCK128>(cuda, args);
    else
        launch_blocks<SCALING_VECTOR32>(cuda, args);
}
