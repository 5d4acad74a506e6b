// fp8 by blocks: each block of threads stores a tile of 128 x 128 and its transpose (turned.cuh), whose blocks of
// elements lie within the tile. The factors are powers of two, computed as on the CPU, so that codes are the same.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/turned.cuh"

enum { QUARTERS = TILE / 32, LEAST_EXPONENT = -127, MOST_EXPONENT = 127, E8M0_BIAS = 127, E8M0_NAN = 255 };

struct blocks_args {
    uint8_t *y, *transposed;           // (N, C), (C, N) or NULL
    void *scales, *transposed_scales;  // of y, of transposed
    int64_t width, transposed_width;   // columns of the scales
    const __nv_bfloat16 *x;
    int64_t rows, columns;
    float largest;
    bool is_e5m2;
};

// The largest magnitudes, as bits, of the tile's rows and columns, or of 32 neighbours of each.
struct tile_most {
    uint32_t of_row[TILE][QUARTERS], of_column[TILE][QUARTERS];
};

static __device__ __forceinline__ int block_exponent(uint32_t most, float largest) {
    float size = __uint_as_float(most);
    if (most == 0 || most >= 0x7F800000u)
        return 0;
    int exponent;
    float fraction = frexpf(__fdiv_rn(size, largest), &exponent);
    exponent -= fraction == 0.5f;
    return min(max(exponent, (int)LEAST_EXPONENT), (int)MOST_EXPONENT);
}

template <int SCALING>
static __device__ __forceinline__ void write_factor(void *scales, int64_t place, uint32_t most, float largest) {
    int exponent = block_exponent(most, largest);
    bool is_whole = most < 0x7F800000u;
    if (SCALING == SCALING_VECTOR32)
        ((uint8_t *)scales)[place] = is_whole ? (uint8_t)(exponent + E8M0_BIAS) : (uint8_t)E8M0_NAN;
    else
        ((float *)scales)[place] = is_whole ? ldexpf(1.0f, exponent) : __int_as_float(0x7FC00000);
}

// The factors of lines `first` and on, of this tile's blocks of them; `at` is the first column.
template <int SCALING>
static __device__ __forceinline__ void write_factors(void *scales, int64_t width, const uint32_t most[TILE][QUARTERS],
                                                     int64_t first, int64_t at, int64_t lines, int64_t length,
                                                     float largest) {
    int line = threadIdx.x;
    int64_t row = first + line;
    if (line >= TILE || row >= lines)
        return;
    if constexpr (SCALING == SCALING_BLOCK128) {
        if (line == 0)
            write_factor<SCALING>(scales, first / TILE * width + at / TILE, most[0][0], largest);
    } else if constexpr (SCALING == SCALING_VECTOR128) {
        write_factor<SCALING>(scales, at / TILE * width + row, most[line][0], largest);
    } else {
        for (int quarter = 0; quarter < QUARTERS && at + 32 * quarter < length; quarter++) {
            int64_t block = at / 32 + quarter;
            int64_t place =
                (row / 128 * (width / 4) + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
            write_factor<SCALING>(scales, place, most[line][quarter], largest);
        }
    }
}

// Raise `most` to the largest of this thread's values and of those of the lanes that share a block of elements.
template <int SCALING>
static __device__ __forceinline__ void see_rows(struct tile_most *most, const eight<__nv_bfloat16> in[PASSES][4]) {
    constexpr int LANES = SCALING == SCALING_VECTOR32 ? 4 : 8;
    int down = thread_down(), quarter = SCALING == SCALING_VECTOR32 ? thread_across() / 4 : 0;
#pragma unroll
    for (int i = 0; i < PASSES * 4; i++) {
        float value[8];
        uint32_t row = 0;
        unpack8(value, in[i / 4][i % 4]);
#pragma unroll
        for (int k = 0; k < 8; k++)
            row = max(row, magnitude_bits(value[k]));
#pragma unroll
        for (int offset = 1; offset < LANES; offset *= 2)
            row = max(row, __shfl_xor_sync(0xFFFFFFFFu, row, offset));
        if (threadIdx.x % LANES == 0)
            atomicMax(&most->of_row[4 * (down + ROW_THREADS * (i / 4)) + i % 4][quarter], row);
    }
}

template <int SCALING>
static __device__ __forceinline__ void see_columns(struct tile_most *most, const eight<__nv_bfloat16> in[PASSES][4]) {
    int across = thread_across(), down = thread_down();
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++) {
        uint32_t column[8] = {};
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float value[8];
            unpack8(value, in[pass][r]);
#pragma unroll
            for (int k = 0; k < 8; k++)
                column[k] = max(column[k], magnitude_bits(value[k]));
        }
        int quarter = SCALING == SCALING_VECTOR32 ? down / 8 + 2 * pass : 0;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            column[k] = max(column[k], __shfl_xor_sync(0xFFFFFFFFu, column[k], 8));
            column[k] = max(column[k], __shfl_xor_sync(0xFFFFFFFFu, column[k], 16));
            if ((threadIdx.x & 31) < 8)
                atomicMax(&most->of_column[8 * across + k][quarter], column[k]);
        }
    }
}

// Of the whole tile, for rows and for columns.
static __device__ __forceinline__ void see_all(struct tile_most *most, const eight<__nv_bfloat16> in[PASSES][4]) {
    uint32_t all = 0;
#pragma unroll
    for (int i = 0; i < PASSES * 4; i++) {
        float value[8];
        unpack8(value, in[i / 4][i % 4]);
#pragma unroll
        for (int k = 0; k < 8; k++)
            all = max(all, magnitude_bits(value[k]));
    }
    all = __reduce_max_sync(0xFFFFFFFFu, all);
    if ((threadIdx.x & 31) == 0) {
        atomicMax(&most->of_row[0][0], all);
        atomicMax(&most->of_column[0][0], all);
    }
}

// Replaces magnitudes by what elements are multiplied by.
static __device__ __forceinline__ void make_scales(struct tile_most *most, float largest) {
    for (int i = threadIdx.x; i < TILE * QUARTERS; i += QUANTIZE_THREADS) {
        uint32_t *of_row = &most->of_row[0][0] + i, *of_column = &most->of_column[0][0] + i;
        *of_row = __float_as_uint(ldexpf(1.0f, -block_exponent(*of_row, largest)));
        *of_column = __float_as_uint(ldexpf(1.0f, -block_exponent(*of_column, largest)));
    }
}

// What element `at` of a line is multiplied by.
template <int SCALING>
static __device__ __forceinline__ float scale_at(const uint32_t scales[TILE][QUARTERS], int line, int at) {
    return __uint_as_float(SCALING == SCALING_BLOCK128   ? scales[0][0]
                           : SCALING == SCALING_VECTOR32 ? scales[line][at / 32]
                                                         : scales[line][0]);
}

template <int SCALING>
static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_blocks_kernel(struct blocks_args args) {
    __shared__ __align__(16) uint32_t tile[TILE * WORDS];
    __shared__ struct tile_most most;
    int across = thread_across(), down = thread_down();
    int64_t first = (int64_t)blockIdx.x * TILE, base = (int64_t)blockIdx.y * TILE, column = first + 8 * across;
    int64_t rows = args.rows, columns = args.columns;
    eight<__nv_bfloat16> in[PASSES][4] = {};
    for (int i = threadIdx.x; i < TILE * QUARTERS; i += QUANTIZE_THREADS)
        (&most.of_row[0][0])[i] = (&most.of_column[0][0])[i] = 0;
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int64_t row = base + 4 * (down + ROW_THREADS * pass) + r;
            if (column < columns && row < rows)
                in[pass][r] = fetch8(args.x + row * columns, column, columns, true);
        }
    __syncthreads();
    if constexpr (SCALING == SCALING_BLOCK128) {
        see_all(&most, in);
    } else {
        see_rows<SCALING>(&most, in);
        see_columns<SCALING>(&most, in);
    }
    __syncthreads();
    if (args.y)
        write_factors<SCALING>(args.scales, args.width, most.of_row, base, first, rows, columns, args.largest);
    if (args.transposed)
        write_factors<SCALING>(args.transposed_scales, args.transposed_width, most.of_column, first, base, columns,
                               rows, args.largest);
    __syncthreads();
    make_scales(&most, args.largest);
    __syncthreads();
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++) {
        int word = down + ROW_THREADS * pass;
        int64_t row = base + 4 * word;
        if (column >= columns || row >= rows)
            continue;
        uint32_t packed[4][2], turned[4][2];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float value[8], scaled[8], scale = scale_at<SCALING>(most.of_row, 4 * word + r, 8 * across);
            unpack8(value, in[pass][r]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                scaled[i] = value[i] * scale_at<SCALING>(most.of_column, 8 * across + i, 4 * word);
            packed[r][0] = pack_float8(value, scale, args.is_e5m2);
            packed[r][1] = pack_float8(value + 4, scale, args.is_e5m2);
            turned[r][0] = pack_float8(scaled, 1.0f, args.is_e5m2);
            turned[r][1] = pack_float8(scaled + 4, 1.0f, args.is_e5m2);
            if (args.y)
                *(uint2 *)(args.y + (row + r) * columns + column) = make_uint2(packed[r][0], packed[r][1]);
        }
        if (args.transposed)
            store_turned(tile, turned, 8 * across, word);
    }
    __syncthreads();
    if (args.transposed)
        write_turned<8>(args.transposed, tile, first, base, columns, rows);
}

// Places of factors beyond the matrix are 0.
static void clear_scales(struct cuda_device *cuda, struct tensor scales) {
    if (scales.data)
        CHECK_CUDA(cudaMemsetAsync(scales.data, 0, tensor_bytes(scales), cuda->streams[STREAM_COMPUTE]));
}

extern "C" void cuda_quantize_blocks(struct device *device, const struct op_quantize_blocks *op) {
    struct cuda_device *cuda = cuda_use(device);
    const struct operand *y = &op->y;
    enum dtype dtype = y->value.data ? y->value.dtype : y->transposed.dtype;
    if (op->x.dtype != DTYPE_BF16)
        die("the CUDA backend quantizes bf16 to fp8, not %s", dtype_name(op->x.dtype));
    if (tensor_count(op->x) == 0)
        return;
    struct blocks_args args = {};
    args.y = (uint8_t *)y->value.data;
    args.transposed = (uint8_t *)y->transposed.data;
    args.scales = y->range.data;
    args.transposed_scales = y->transposed_range.data;
    args.width = y->range.shape[1];
    args.transposed_width = y->transposed_range.shape[1];
    args.x = (const __nv_bfloat16 *)op->x.data;
    args.rows = op->x.shape[0];
    args.columns = op->x.shape[1];
    args.largest = dtype == DTYPE_E5M2 ? 57344.0f : 448.0f;
    args.is_e5m2 = dtype == DTYPE_E5M2;
    clear_scales(cuda, y->range);
    clear_scales(cuda, y->transposed_range);
    dim3 grid(grid_x(divide_up(args.columns, TILE)), grid_yz(divide_up(args.rows, TILE)));
    if (y->scaling == SCALING_VECTOR128)
        LAUNCH(cuda, (quantize_blocks_kernel<SCALING_VECTOR128>), grid, QUANTIZE_THREADS, 0, args);
    else if (y->scaling == SCALING_BLOCK128)
        LAUNCH(cuda, (quantize_blocks_kernel<SCALING_BLOCK128>), grid, QUANTIZE_THREADS, 0, args);
    else
        LAUNCH(cuda, (quantize_blocks_kernel<SCALING_VECTOR32>), grid, QUANTIZE_THREADS, 0, args);
}
