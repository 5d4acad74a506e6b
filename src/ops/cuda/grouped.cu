// Matmuls over ragged groups of rows by a plain tiled kernel: in fp32, and for shapes whose rows are not aligned to 16
// bytes for tensor cores. grouped_tensor.cu has the fast one.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/grouped.cuh"

enum { PLAIN_THREADS = 256, TILE = 64, STEP = 16, PER_THREAD = TILE / 16 };  // a thread has PER_THREAD^2 sums of a tile

// One matmul: a (rows, inner) and b (inner, columns), by steps in elements; a transpose swaps two of them.
template <typename T> struct group_matmul {
    const T *a, *b;
    int64_t rows, columns, inner;
    int64_t a_row, a_inner, b_inner, b_column;
};

// The sums of one tile, whose corner is at (row, column).
template <typename T>
static __device__ __forceinline__ void multiply_tile(float sum[PER_THREAD][PER_THREAD], const group_matmul<T> &m,
                                                     int64_t row, int64_t column) {
    __shared__ float a_tile[STEP][TILE + 1], b_tile[STEP][TILE + 1];
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (int64_t first = 0; first < m.inner; first += STEP) {
        for (int i = threadIdx.x; i < STEP * TILE; i += PLAIN_THREADS) {
            // Neighbouring threads along the dimension that is contiguous.
            int k = m.a_inner == 1 ? i % STEP : i / TILE, line = m.a_inner == 1 ? i / STEP : i % TILE;
            a_tile[k][line] = row + line < m.rows && first + k < m.inner
                                  ? to_float(m.a[(row + line) * m.a_row + (first + k) * m.a_inner])
                                  : 0.0f;
            k = m.b_inner == 1 ? i % STEP : i / TILE, line = m.b_inner == 1 ? i / STEP : i % TILE;
            b_tile[k][line] = column + line < m.columns && first + k < m.inner
                                  ? to_float(m.b[(first + k) * m.b_inner + (column + line) * m.b_column])
                                  : 0.0f;
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < STEP; k++)
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
                for (int j = 0; j < PER_THREAD; j++)
                    sum[i][j] += a_tile[k][y + 16 * i] * b_tile[k][x + 16 * j];
        __syncthreads();
    }
}

template <typename D>
static __device__ __forceinline__ void store_tile(D *d, const float sum[PER_THREAD][PER_THREAD], int64_t rows,
                                                  int64_t columns, int64_t row, int64_t column, bool adds) {
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
        for (int j = 0; j < PER_THREAD; j++) {
            int64_t m = row + y + 16 * i, n = column + x + 16 * j;
            if (m < rows && n < columns)
                store(d + m * columns + n, sum[i][j] + (adds ? to_float(d[m * columns + n]) : 0.0f));
        }
}

// Block at (row tile of all experts, column tile).
template <typename T> static __global__ void grouped_rows_kernel(struct grouped_args args, bool is_input) {
    __shared__ int before[ROUTER_MOST_EXPERTS + 1];
    count_tiles<PLAIN_THREADS>(before, args, TILE);
    if ((int64_t)blockIdx.x >= before[args.experts])
        return;
    struct group_tile tile = find_tile(before, args, blockIdx.x, TILE);
    float sum[PER_THREAD][PER_THREAD] = {};
    group_matmul<T> m;
    m.rows = tile.end;
    m.columns = is_input ? args.inputs : args.outputs;
    m.inner = is_input ? args.outputs : args.inputs;
    m.a = (const T *)args.a;
    m.b = (const T *)args.b + tile.expert * args.outputs * args.inputs;
    m.a_row = m.inner;
    m.a_inner = 1;
    m.b_inner = is_input ? args.inputs : 1;
    m.b_column = is_input ? 1 : args.inputs;
    multiply_tile(sum, m, tile.row, (int64_t)blockIdx.y * TILE);
    store_tile((T *)args.d, sum, m.rows, m.columns, tile.row, (int64_t)blockIdx.y * TILE, false);
}

// Block at (expert and tile of outputs, tile of inputs).
template <typename T> static __global__ void grouped_weight_kernel(struct grouped_args args, int64_t output_tiles) {
    int64_t expert = blockIdx.x / output_tiles, row = blockIdx.x % output_tiles * TILE;
    int64_t first = args.offsets[expert], column = (int64_t)blockIdx.y * TILE;
    float sum[PER_THREAD][PER_THREAD] = {};
    group_matmul<T> m;
    m.rows = args.outputs;
    m.columns = args.inputs;
    m.inner = args.offsets[expert + 1] - first;
    m.a = (const T *)args.a + first * args.outputs;
    m.b = (const T *)args.b + first * args.inputs;
    m.a_row = m.b_column = 1;
    m.a_inner = args.outputs;
    m.b_inner = args.inputs;
    if (m.inner == 0 && args.adds)
        return;
    multiply_tile(sum, m, row, column);
    store_tile((float *)args.d + expert * args.outputs * args.inputs, sum, m.rows, m.columns, row, column, args.adds);
}

static void run_plain(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args args) {
    if (op->kind == GROUPED_WEIGHT) {
        int64_t tiles = divide_up(args.outputs, TILE);
        dim3 grid(grid_x(args.experts * tiles), grid_yz(divide_up(args.inputs, TILE)));
        WITH_TYPE(op->a.dtype, T, LAUNCH(cuda, grouped_weight_kernel<T>, grid, PLAIN_THREADS, 0, args, tiles));
        return;
    }
    bool is_input = op->kind == GROUPED_INPUT;
    args.row_tiles = op->a.shape[0] / TILE + args.experts;
    dim3 grid(grid_x(args.row_tiles), grid_yz(divide_up(op->d.shape[1], TILE)));
    WITH_TYPE(op->a.dtype, T, LAUNCH(cuda, grouped_rows_kernel<T>, grid, PLAIN_THREADS, 0, args, is_input));
}

extern "C" void cuda_grouped_matmul(struct device *device, const struct op_grouped_matmul *op) {
    struct cuda_device *cuda = cuda_use(device);
    bool is_input = op->kind == GROUPED_INPUT;
    const struct tensor weight = op->kind == GROUPED_WEIGHT ? op->d : op->b;
    struct grouped_args args = {};
    args.d = op->d.data;
    args.a = op->a.data;
    args.b = op->b.data;
    args.offsets = (const int32_t *)op->offsets.data;
    args.experts = (int)(op->offsets.shape[0] - 1);
    args.outputs = is_input ? op->a.shape[1] : weight.shape[1];
    args.inputs = is_input ? op->d.shape[1] : weight.shape[2];
    args.adds = op->beta != 0;
    if (tensor_count(op->d) == 0)
        return;
    if (dtype_is_float8(op->a.dtype)) {
#ifdef BEVATRON_HOPPER
        grouped_run_float8(cuda, op, args);
        return;
#else
        die("this build has no fp8 matmuls of experts; build for compute capability 9.0");
#endif
    }
    const struct tensor tensors[] = {op->d, op->a, op->b};
    bool is_aligned = rows_are_wide(args.inputs, tensors, 3) && args.outputs % 8 == 0;
    if (op->a.dtype != DTYPE_F32 && is_aligned)
        grouped_run_tensor(cuda, op, args);
    else
        run_plain(cuda, op, args);
}
