// Values in fp8 with one range and their transpose, in one pass over tiles of 128 x 128 (turned.cuh).
#include "ops/cuda/activation.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/turned.cuh"

enum {
    MOST_HALVES = 2,
    ROWS_AHEAD = 8,
};

struct quantize_args {
    uint8_t *y, *transposed;             // (N, C), (C, N) or NULL
    const __nv_bfloat16 *x, *dy, *bias;  // dy and bias may be NULL
    float *partial;                      // (row blocks, C): column sums, or NULL
    float *range;
    uint8_t *result, *result_transposed;  // (N, C), (C, N) or NULL: the activation's result, E4M3
    const float *result_range;
    int64_t rows, columns;  // columns: of y, or half of them if y has two halves
    enum activation activation;
};

// Activations with their own code paths; the others share a slower one. Plain values have none, and may be of either
// dtype.
enum { FAST_GELU, FAST_SILU, ANY, AS_E4M3, AS_E5M2 };

// Value and slope at x; `any` has those of an activation without a code path of its own.
template <int FUNCTION> static __device__ __forceinline__ float2 function_at(float x, float2 any) {
    if (FUNCTION == FAST_GELU || FUNCTION == FAST_SILU)
        return activation_at<__nv_bfloat16>(FUNCTION == FAST_GELU ? ACTIVATION_GELU_TANH : ACTIVATION_SILU, x);
    return any;
}

// A thread's inputs from one row: x (its gate with a gated unit), up, and dy.
struct quantize_row {
    eight<__nv_bfloat16> x, up, dy;
};

template <int KIND>
static __device__ __forceinline__ void quantize_fetch(struct quantize_row *to, const struct quantize_args &args,
                                                      int64_t row, int64_t column) {
    constexpr bool IS_GLU = KIND == QUANTIZE_GLU || KIND == QUANTIZE_GLU_GRADIENT;
    const __nv_bfloat16 *x = args.x + row * args.columns * (IS_GLU ? 2 : 1);
    to->x = fetch8(x, column, args.columns, true);
    if (IS_GLU)
        to->up = fetch8(x + args.columns, column, args.columns, true);
    if (KIND == QUANTIZE_ACTIVATION_GRADIENT || KIND == QUANTIZE_GLU_GRADIENT)
        to->dy = fetch8(args.dy + row * args.columns, column, args.columns, true);
}

// The eight values of a row, with GLU_GRADIENT those of its other half, followed by the activation's result.
template <int KIND, int FUNCTION, bool HAS_RESULT>
static __device__ __forceinline__ void quantize_values(float value[MOST_PARTS][8], const struct quantize_row &row,
                                                       const float bias[MOST_HALVES][8], enum activation activation) {
    float x[8], up[8], dy[8];
    eight_gates any = {};
    unpack8(x, row.x);
    if (KIND == QUANTIZE_GLU || KIND == QUANTIZE_GLU_GRADIENT)
        unpack8(up, row.up);
    if (KIND == QUANTIZE_ACTIVATION_GRADIENT || KIND == QUANTIZE_GLU_GRADIENT)
        unpack8(dy, row.dy);
    if (KIND != QUANTIZE_PLAIN && FUNCTION == ANY) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            any.x[i] = x[i] + bias[0][i];
        any = any_gates<__nv_bfloat16>(activation, any);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (KIND == QUANTIZE_PLAIN) {
            value[0][i] = x[i];
            continue;
        }
        float2 at = function_at<FUNCTION>(x[i] + bias[0][i], make_float2(any.x[i], any.slope[i]));
        float other = KIND == QUANTIZE_GLU || KIND == QUANTIZE_GLU_GRADIENT ? up[i] + bias[1][i] : 1.0f;
        if (KIND == QUANTIZE_ACTIVATION || KIND == QUANTIZE_GLU) {
            value[0][i] = at.x * other;
            continue;
        }
        value[0][i] = dy[i] * other * at.y;
        if (KIND == QUANTIZE_GLU_GRADIENT)
            value[1][i] = dy[i] * at.x;
        if (HAS_RESULT)
            value[KIND == QUANTIZE_GLU_GRADIENT ? 2 : 1][i] = at.x * other;
    }
}

// Column sums of the block's rows, in the order of its row threads.
template <int HALVES>
static __device__ __forceinline__ void write_partial(const struct quantize_args &args, float *shared,
                                                     const float total[HALVES][8]) {
    int across = thread_across(), down = thread_down();
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++)
            shared[down * TILE + 8 * across + i] = total[half][i];
        __syncthreads();
        int64_t column = (int64_t)blockIdx.x * TILE + threadIdx.x;
        if (threadIdx.x >= TILE || column >= args.columns)
            continue;
        float sum = 0;
        for (int i = 0; i < ROW_THREADS; i++)
            sum += shared[i * TILE + threadIdx.x];
        args.partial[(int64_t)blockIdx.y * args.columns * HALVES + half * args.columns + column] = sum;
    }
}

template <int KIND, int FUNCTION, int HALVES>
static __device__ __forceinline__ struct turned_part part_of(const struct quantize_args &args, int part) {
    int64_t columns = args.columns;
    struct turned_part to;
    if (part == HALVES) {
        to.y = args.result;
        to.transposed = args.result_transposed;
        to.stride = columns;
        to.scale = FUNCTION != ANY || args.result_range ? args.result_range[RANGE_SCALE] : 0.0f;
        to.is_e5m2 = false;
        return to;
    }
    to.y = args.y ? args.y + part * columns : NULL;
    to.transposed = args.transposed ? args.transposed + part * columns * args.rows : NULL;
    to.stride = columns * HALVES;
    to.scale = args.range[RANGE_SCALE];
    to.is_e5m2 = KIND >= QUANTIZE_ACTIVATION_GRADIENT || FUNCTION == AS_E5M2;
    return to;
}

// A block has TILE columns and every gridDim.y'th tile of their rows.
template <int KIND, int FUNCTION, bool HAS_RESULT>
static __global__ void __launch_bounds__(QUANTIZE_THREADS, KIND == QUANTIZE_GLU_GRADIENT ? 2 : 3)
    quantize_kernel(struct quantize_args args) {
    constexpr int HALVES = KIND == QUANTIZE_GLU_GRADIENT ? 2 : 1, PARTS = HALVES + HAS_RESULT;
    __shared__ __align__(16) uint32_t tile[PARTS][TILE * WORDS];
    int across = thread_across(), down = thread_down();
    int64_t first = (int64_t)blockIdx.x * TILE, column = first + 8 * across;
    int64_t rows = args.rows, columns = args.columns;
    float total[HALVES][8] = {}, bias[MOST_HALVES][8] = {};
    struct turned_part to[PARTS];
    uint32_t before = range_seen(args.range);
    float seen = 0;
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        to[part] = part_of<KIND, FUNCTION, HALVES>(args, part);
    if (args.bias && column < columns) {
        load8(bias[0], args.bias, column, columns, true);
        if (KIND == QUANTIZE_GLU || KIND == QUANTIZE_GLU_GRADIENT)
            load8(bias[1], args.bias + columns, column, columns, true);
    }
    for (int64_t base = (int64_t)blockIdx.y * TILE; base < rows; base += (int64_t)gridDim.y * TILE) {
#pragma unroll 1
        for (int pass = 0; pass < PASSES; pass++) {
            int word = down + ROW_THREADS * pass;
            int64_t row = base + 4 * word;
            if (column >= columns || row >= rows)
                continue;
            struct quantize_row in[4];
#pragma unroll
            for (int r = 0; r < 4; r++)
                quantize_fetch<KIND>(&in[r], args, row + r, column);
            auto values = [&](float value[MOST_PARTS][8], int r) {
                quantize_values<KIND, FUNCTION, HAS_RESULT>(value, in[r], bias, args.activation);
#pragma unroll
                for (int i = 0; i < HALVES * 8 && args.partial; i++)
                    total[i / 8][i % 8] += value[i / 8][i % 8];
            };
            seen = store_parts<PARTS, HALVES>(tile, to, row, column, seen, values);
        }
        write_parts<PARTS>(to, tile, first, base, columns, rows);
    }
    range_see(args.range, before, magnitude_bits(seen));
    if (args.partial)
        write_partial<HALVES>(args, (float *)tile[0], total);
}

// Without transpose and column sums. A warp has 256 columns of ROWS_AHEAD rows, whose reads are all in flight before
// the first is used.
template <int KIND, int FUNCTION>
static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_rows_kernel(struct quantize_args args) {
    int64_t column = 256 * (int64_t)blockIdx.y + 8 * (threadIdx.x & 31);
    int64_t first = ((int64_t)blockIdx.x * (QUANTIZE_THREADS / 32) + threadIdx.x / 32) * ROWS_AHEAD;
    float bias[MOST_HALVES][8] = {}, seen = 0;
    uint32_t before = range_seen(args.range);
    struct turned_part to = part_of<KIND, FUNCTION, 1>(args, 0);
    struct quantize_row in[ROWS_AHEAD];
#pragma unroll
    for (int r = 0; r < ROWS_AHEAD; r++)
        if (column < args.columns && first + r < args.rows)
            quantize_fetch<KIND>(&in[r], args, first + r, column);
    if (args.bias && column < args.columns) {
        load8(bias[0], args.bias, column, args.columns, true);
        if (KIND == QUANTIZE_GLU)
            load8(bias[1], args.bias + args.columns, column, args.columns, true);
    }
#pragma unroll
    for (int r = 0; r < ROWS_AHEAD; r++) {
        if (column >= args.columns || first + r >= args.rows)
            break;
        float value[MOST_PARTS][8];
        quantize_values<KIND, FUNCTION, false>(value, in[r], bias, args.activation);
#pragma unroll
        for (int i = 0; i < 8; i++)
            seen = larger_magnitude(seen, value[0][i]);
        if (to.y)
            store_words(to.y + (first + r) * to.stride + column,
                        make_uint2(pack_float8(value[0], to.scale, to.is_e5m2),
                                   pack_float8(value[0] + 4, to.scale, to.is_e5m2)));
    }
    range_see(args.range, before, magnitude_bits(seen));
}

// fp8 to fp8: a thread holds sixteen columns of four rows.
static __global__ void __launch_bounds__(QUANTIZE_THREADS)
    transpose_kernel(uint8_t *y, const uint8_t *x, int64_t rows, int64_t columns) {
    __shared__ __align__(16) uint32_t tile[TILE * WORDS];
    int across = threadIdx.x % (TILE / 16), word = threadIdx.x / (TILE / 16);
    int64_t first = (int64_t)blockIdx.x * TILE, column = first + 16 * across;
    int64_t base = (int64_t)blockIdx.y * TILE, row = base + 4 * word;
    if (column < columns && row < rows) {
        uint4 in[4];
#pragma unroll
        for (int r = 0; r < 4; r++)
            in[r] = *(const uint4 *)(x + (row + r) * columns + column);
        uint32_t turned[16];
        turn4x4(turned, in[0].x, in[1].x, in[2].x, in[3].x);
        turn4x4(turned + 4, in[0].y, in[1].y, in[2].y, in[3].y);
        turn4x4(turned + 8, in[0].z, in[1].z, in[2].z, in[3].z);
        turn4x4(turned + 12, in[0].w, in[1].w, in[2].w, in[3].w);
#pragma unroll
        for (int i = 0; i < 16; i++)
            tile[tile_place<16>(16 * across + i, word)] = turned[i];
    }
    __syncthreads();
    write_turned<16>(turned_matrix{y, columns, rows, rows}, tile, first, base);
}

static __global__ void move_ranges_kernel(float *ranges, float *scaled, float *history, int64_t count, int64_t length,
                                          int64_t place, bool takes_largest, float shrink) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float *range = ranges + i * RANGE_LENGTH, expected = range[RANGE_SEEN];
    range[RANGE_SEEN] = 0;
    if (length > 0)
        history[i * length + place] = isfinite(expected) ? expected : 0.0f;
    for (int64_t k = 0; k < length && takes_largest; k++)
        expected = fmaxf(expected, history[i * length + k]);
    float *to = scaled + i * RANGE_LENGTH, scale = to[RANGE_LARGEST] / expected * shrink;
    if (!(expected > 0) || !isfinite(expected) || !isfinite(scale))
        scale = to[RANGE_SCALE];
    to[RANGE_SCALE] = scale;
    to[RANGE_FACTOR] = 1.0f / scale;
}

template <int KIND, int FUNCTION>
static void launch_quantize(struct cuda_device *cuda, const struct quantize_args &args, dim3 grid) {
    constexpr bool IS_GRADIENT = KIND >= QUANTIZE_ACTIVATION_GRADIENT;
    // Plain and gated values gain nothing from it (H200, 2026-11-18).
    if constexpr (KIND == QUANTIZE_ACTIVATION)
        if (!args.transposed && !args.partial) {
            dim3 rows(grid_x(divide_up(args.rows, QUANTIZE_THREADS / 32 * ROWS_AHEAD)),
                      grid_yz(divide_up(args.columns, 256)));
            LAUNCH(cuda, (quantize_rows_kernel<KIND, FUNCTION>), rows, QUANTIZE_THREADS, 0, args);
            return;
        }
    // Rare activations share one kernel, which also computes a result that may not be stored.
    if (IS_GRADIENT && (FUNCTION == ANY || args.result || args.result_transposed))
        LAUNCH(cuda, (quantize_kernel<KIND, FUNCTION, IS_GRADIENT>), grid, QUANTIZE_THREADS, 0, args);
    else
        LAUNCH(cuda, (quantize_kernel < KIND, FUNCTION, IS_GRADIENT && FUNCTION == ANY >), grid, QUANTIZE_THREADS, 0,
               args);
}

template <int KIND> static void launch_kind(struct cuda_device *cuda, const struct quantize_args &args, dim3 grid) {
    if (args.activation == ACTIVATION_GELU_TANH)
        launch_quantize<KIND, FAST_GELU>(cuda, args, grid);
    else if (args.activation == ACTIVATION_SILU)
        launch_quantize<KIND, FAST_SILU>(cuda, args, grid);
    else
        launch_quantize<KIND, ANY>(cuda, args, grid);
}

static void launch_any(struct cuda_device *cuda, const struct op_quantize *op, const struct quantize_args &args,
                       dim3 grid) {
    switch (op->kind) {
    case QUANTIZE_PLAIN:
        if ((op->y.value.data ? op->y.value : op->y.transposed).dtype == DTYPE_E5M2)
            launch_quantize<QUANTIZE_PLAIN, AS_E5M2>(cuda, args, grid);
        else
            launch_quantize<QUANTIZE_PLAIN, AS_E4M3>(cuda, args, grid);
        break;
    case QUANTIZE_ACTIVATION:
        launch_kind<QUANTIZE_ACTIVATION>(cuda, args, grid);
        break;
    case QUANTIZE_GLU:
        launch_kind<QUANTIZE_GLU>(cuda, args, grid);
        break;
    case QUANTIZE_ACTIVATION_GRADIENT:
        launch_kind<QUANTIZE_ACTIVATION_GRADIENT>(cuda, args, grid);
        break;
    case QUANTIZE_GLU_GRADIENT:
        launch_kind<QUANTIZE_GLU_GRADIENT>(cuda, args, grid);
        break;
    }
}

extern "C" void cuda_quantize(struct device *device, const struct op_quantize *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t rows = op->x.shape[0], width = op->x.shape[1];
    bool is_glu = op->kind == QUANTIZE_GLU || op->kind == QUANTIZE_GLU_GRADIENT;
    if (op->x.dtype != DTYPE_BF16)
        die("the CUDA backend quantizes bf16 to fp8, not %s", dtype_name(op->x.dtype));
    if (tensor_count(op->x) == 0)
        return;
    struct quantize_args args = {};
    args.y = (uint8_t *)op->y.value.data;
    args.transposed = (uint8_t *)op->y.transposed.data;
    args.x = (const __nv_bfloat16 *)op->x.data;
    args.dy = (const __nv_bfloat16 *)op->dy.data;
    args.bias = (const __nv_bfloat16 *)op->bias.data;
    args.partial = op->dbias.data ? cuda->scratch : NULL;
    args.range = (float *)op->y.range.data;
    args.result = (uint8_t *)op->result.value.data;
    args.result_transposed = (uint8_t *)op->result.transposed.data;
    args.result_range = (const float *)op->result.range.data;
    args.rows = rows;
    args.columns = is_glu ? width / 2 : width;
    args.activation = op->activation;
    int64_t sums = op->kind == QUANTIZE_GLU ? width / 2 : width;
    int64_t splits = min(divide_up(rows, TILE), min((int64_t)65535, SCRATCH_FLOATS / sums));
    dim3 grid(grid_x(divide_up(args.columns, TILE)), grid_yz(splits));
    launch_any(cuda, op, args, grid);
    float *out[] = {(float *)op->dbias.data};
    if (op->dbias.data)
        column_finish(cuda, out, 1, args.partial, splits, sums);
}

extern "C" void cuda_transpose(struct device *device, const struct op_transpose *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    if (tensor_count(op->x) == 0)
        return;
    dim3 grid(grid_x(divide_up(columns, TILE)), grid_yz(divide_up(rows, TILE)));
    LAUNCH(cuda, transpose_kernel, grid, QUANTIZE_THREADS, 0, (uint8_t *)op->y.data, (const uint8_t *)op->x.data, rows,
           columns);
}

extern "C" void cuda_move_ranges(struct device *device, const struct op_move_ranges *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t count = op->ranges.shape[0], length = op->history.data ? op->history.shape[1] : 0;
    if (count > 0)
        LAUNCH(cuda, move_ranges_kernel, grid_x(divide_up(count, 128)), 128, 0, (float *)op->ranges.data,
               (float *)(op->scaled.data ? op->scaled.data : op->ranges.data), (float *)op->history.data, count, length,
               op->place, op->takes_largest, ldexpf(1.0f, -op->margin));
}
