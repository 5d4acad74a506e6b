// Values in fp8 with one range and their transpose, in one pass over tiles of 128 x 128 (blocks.cuh).
#include "ops/cuda/quantizer.cuh"

enum { ROWS_AHEAD = 8 };

// Without a gate, transpose and column sums. A warp has 256 columns of ROWS_AHEAD rows, whose reads are all in flight
// before the first is used.
template <typename Q>
static __global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_rows_kernel(struct quantizer_args args) {
    int64_t column = 256 * (int64_t)blockIdx.y + 8 * (threadIdx.x & 31);
    int64_t first = ((int64_t)blockIdx.x * (QUANTIZE_THREADS / 32) + threadIdx.x / 32) * ROWS_AHEAD;
    float bias[MOST_HALVES][8] = {}, seen = 0;
    uint32_t before = range_seen(args.out.range);
    struct turned_part to = part_of<Q>(args, 0);
    struct quantizer_row in[ROWS_AHEAD];
#pragma unroll
    for (int r = 0; r < ROWS_AHEAD; r++)
        if (column < args.columns && first + r < args.rows)
            quantizer_fetch<Q>(&in[r], args, first + r, column);
    if (args.bias && column < args.columns)
        load8(bias[0], args.bias, column, args.columns, true);
#pragma unroll
    for (int r = 0; r < ROWS_AHEAD; r++) {
        if (column >= args.columns || first + r >= args.rows)
            break;
        float value[MOST_PARTS][8];
        quantizer_values<Q>(value, in[r], bias, args);
#pragma unroll
        for (int i = 0; i < 8; i++)
            seen = larger_magnitude(seen, value[0][i]);
        if (to.y)
            store_words(to.y + (first + r) * to.stride + column,
                        make_uint2(pack_float8(value[0], to.scale, to.is_e5m2),
                                   pack_float8(value[0] + 4, to.scale, to.is_e5m2)));
    }
    range_see(args.out.range, before, magnitude_bits(seen));
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

extern "C" void cuda_quantize(struct device *device, const struct op_quantize *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t rows = op->x.shape[0], width = op->x.shape[1];
    bool is_glu = op->kind == QUANTIZE_GLU || op->kind == QUANTIZE_GLU_GRADIENT;
    struct quantizer_args args = quantizer_args_of(op->x, rows, is_glu ? width / 2 : width);
    args.out = pointers_of(&op->y);
    args.result = pointers_of(&op->result);
    args.dy = (const __nv_bfloat16 *)op->dy.data;
    args.bias = (const __nv_bfloat16 *)op->bias.data;
    args.partial = op->dbias.data ? cuda->scratch : NULL;
    args.activation = op->activation;
    args.is_e5m2 = is_stored_as_e5m2(&op->y);
    if (tensor_count(op->x) == 0)
        return;
    int64_t sums = op->kind == QUANTIZE_GLU ? width / 2 : width;
    int64_t splits = min(divide_up(rows, TILE), min((int64_t)65535, SCRATCH_FLOATS / sums));
    dim3 grid(grid_x(divide_up(args.columns, TILE)), grid_yz(splits));
    dim3 of_rows(grid_x(divide_up(rows, QUANTIZE_THREADS / 32 * ROWS_AHEAD)), grid_yz(divide_up(args.columns, 256)));
    with_quantizer<false>(op->kind, args, [&](auto quantizer) {
        using Q = decltype(quantizer);
        // Plain and gated values gain nothing from it (H200, 2026-11-18).
        if constexpr (Q::KIND == QUANTIZE_ACTIVATION)
            if (!args.out.transposed && !args.partial) {
                LAUNCH(cuda, quantize_rows_kernel<Q>, of_rows, QUANTIZE_THREADS, 0, args);
                return;
            }
        LAUNCH(cuda, quantizer_kernel<Q>, grid, QUANTIZE_THREADS, 0, args);
    });
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
