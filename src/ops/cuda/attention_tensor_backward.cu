// Attention backward on tensor cores: two kernels, so that every gradient is summed by one block in one order and no
// atomics are needed. One has 64 queries and walks over keys (dq), the other 64 keys and walks over queries (dk, dv);
// each recomputes the scores. The second is in attention_tensor_keys.cu, so that both compile side by side. See
// attention_tensor.cuh, and attention_backward.cu for the formulas.
#include "ops/cuda/attention_tensor.cuh"

enum {
    DELTA_LANES = 16,
    DELTA_ROWS = TENSOR_THREADS / DELTA_LANES,
};

// delta[b][h][i] = sum of dout * out over the head; 16 lanes per row, every 16th eight columns each. Grid (rows, head,
// batch).
template <typename T> static __global__ void tensor_delta_kernel(struct attention_args args) {
    int lane = threadIdx.x % DELTA_LANES;
    int64_t query = (int64_t)blockIdx.x * DELTA_ROWS + threadIdx.x / DELTA_LANES, head = blockIdx.y, batch = blockIdx.z;
    float sum = 0;
    for (int d = 8 * lane; query < args.queries && d < args.value_size; d += 8 * DELTA_LANES) {
        float a[8], b[8];
        load8(a, view_head<T>(args.out, batch, head) + query * args.out.time, d, args.value_size, true);
        load8(b, view_head<T>(args.dout, batch, head) + query * args.dout.time, d, args.value_size, true);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum += a[i] * b[i];
    }
#pragma unroll
    for (int other = DELTA_LANES / 2; other > 0; other /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, other);
    if (query < args.queries && lane == 0)
        args.delta[(batch * args.heads + head) * args.queries + query] = sum;
}

void tensor_attention_delta(struct cuda_device *cuda, const struct attention_args *args, enum dtype dtype) {
    dim3 grid(grid_x(divide_up(args->queries, (int64_t)DELTA_ROWS)), grid_yz(args->heads), grid_yz(args->batches));
    if (dtype == DTYPE_BF16)
        LAUNCH(cuda, tensor_delta_kernel<__nv_bfloat16>, grid, TENSOR_THREADS, 0, *args);
    else
        LAUNCH(cuda, tensor_delta_kernel<__half>, grid, TENSOR_THREADS, 0, *args);
    if (args->sinks)
        attention_sink_gradients(cuda, args, dtype);
}

// ---- The gradient of a bias by distance ----
// Each block of queries sums its score gradients along distances: place p of its row of parts (parts_width) belongs to
// key - query = p - 63 - first query. A kernel then adds up the rows in order.

static inline int64_t parts_width(const struct attention_args *args) {
    return divide_up(args->keys, TENSOR_ROWS) * TENSOR_ROWS + TENSOR_ROWS;
}

// Adds the diagonals of a tile of score gradients to the block's row; thread t has the t'th of 127.
static __device__ __forceinline__ void add_diagonals(float *parts, float *pair, const float score[TENSOR_ROWS / 8][4],
                                                     int first_key) {
    int lane = threadIdx.x & 31, row = (threadIdx.x >> 5) * 16 + lane / 4, t = threadIdx.x;
#pragma unroll
    for (int j = 0; j < TENSOR_ROWS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            pair[(row + 8 * (i / 2)) * PAIR_STRIDE + 8 * j + 2 * (lane % 4) + (i & 1)] = score[j][i];
    __syncthreads();
    float sum = 0;
    int first = max(0, TENSOR_ROWS - 1 - t), end = min(TENSOR_ROWS, 2 * TENSOR_ROWS - 1 - t);
    for (int query = first; query < end; query++)
        sum += pair[query * PAIR_STRIDE + query + t - (TENSOR_ROWS - 1)];
    if (t < 2 * TENSOR_ROWS - 1)
        parts[first_key + t] += sum;
}

// dbias (B, H, Tq + Tk - 1) += the parts of all blocks of queries. Grid (columns, heads, batches).
static __global__ void bias_finish_kernel(float *dbias, struct attention_args args, int64_t width, int64_t tiles) {
    int64_t columns = args.queries + args.keys - 1, column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t head = (int64_t)blockIdx.z * args.heads + blockIdx.y;
    if (column >= columns)
        return;
    float sum = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t place = column - (args.queries - 1) + TENSOR_ROWS - 1 + tile * TENSOR_ROWS;
        if (place >= 0 && place < width)
            sum += args.dbias_parts[(head * tiles + tile) * width + place];
    }
    dbias[head * columns + column] += sum;
}

// Grid (query tile, head, batch).
template <typename T, int DP>
static __global__ void __launch_bounds__(TENSOR_THREADS)
    tensor_query_kernel(struct attention_args args, int64_t width) {
    extern __shared__ uint4 memory[];
    __shared__ int bounds[2];
    T *queries = (T *)memory, *douts = queries + TENSOR_ROWS * (DP + 8), *keys = douts + TENSOR_ROWS * (DP + 8);
    T *values = keys + TENSOR_ROWS * (DP + 8);
    float *pair = (float *)(values + TENSOR_ROWS * (DP + 8));  // with a bias
    int64_t batch = blockIdx.z, first_query = (int64_t)(gridDim.x - 1 - blockIdx.x) * TENSOR_ROWS;
    int head = blockIdx.y, key_head = head / (args.heads / args.key_heads), warp_row = (threadIdx.x >> 5) * 16;
    const T *k = view_head<T>(args.k, batch, key_head), *v = view_head<T>(args.v, batch, key_head);
    int64_t query = first_query + warp_row + (threadIdx.x & 31) / 4, row_id = drawn_row(args, batch, query);
    struct key_range range[2];
    float lse[2], delta[2], scale = args.scale * LOG2_E, dq[DP / 8][4], *parts = NULL;
    if (args.dbias_parts) {
        int64_t tile = gridDim.x - 1 - blockIdx.x;
        parts = args.dbias_parts + ((batch * args.heads + head) * gridDim.x + tile) * width;
        for (int64_t i = threadIdx.x; i < width; i += TENSOR_THREADS)
            parts[i] = 0;
    }
    for (int half = 0; half < 2; half++) {
        int64_t row = (batch * args.heads + head) * args.queries + query + 8 * half;
        bool is_there = query + 8 * half < args.queries;
        range[half] = keys_of(args, batch, query + 8 * half);
        lse[half] = is_there ? args.lse[row] * LOG2_E : 0.0f;
        delta[half] = is_there ? args.delta[row] : 0.0f;
    }
    clear_tiles<DP / 8>(dq);
    start_rows<T, TENSOR_ROWS, DP>(queries, view_head<T>(args.q, batch, head), args.q.time, first_query, args.queries,
                                   args.head_size);
    start_rows<T, TENSOR_ROWS, DP>(douts, view_head<T>(args.dout, batch, head), args.dout.time, first_query,
                                   args.queries, args.value_size);
    struct key_range all = block_range(range, bounds);
    for (int first_key = all.first / TENSOR_ROWS * TENSOR_ROWS; first_key < all.end; first_key += TENSOR_ROWS) {
        bool is_seen = false;
        for (int half = 0; half < 2; half++)
            is_seen = is_seen || (range[half].first < first_key + TENSOR_ROWS && range[half].end > first_key);
        if (!__syncthreads_or(is_seen))  // and the last keys have been read
            continue;
        start_rows<T, TENSOR_ROWS, DP>(keys, k, args.k.time, first_key, args.keys, args.head_size);
        start_rows<T, TENSOR_ROWS, DP>(values, v, args.v.time, first_key, args.keys, args.value_size);
        async_commit();
        async_wait<0>();
        __syncthreads();
        float score[TENSOR_ROWS / 8][4], dweight[TENSOR_ROWS / 8][4];
        clear_tiles<TENSOR_ROWS / 8>(score);
        clear_tiles<TENSOR_ROWS / 8>(dweight);
        add_row_products<T, DP, TENSOR_ROWS>(score, queries, warp_row, keys);
        add_row_products<T, DP, TENSOR_ROWS>(dweight, douts, warp_row, values);
        if (args.bias)
            add_bias(score, args, head, query, first_key);
        if (args.cap > 0)
            cap_scores<TENSOR_ROWS / 8>(score, args);
        if (args.dropout.is_on)
            drop(dweight, args, head, row_id, first_key);
        int column = first_key + 2 * (threadIdx.x & 3);
#pragma unroll
        for (int j = 0; j < TENSOR_ROWS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int key = column + 8 * j + (i & 1), half = i / 2;
                float p = sees(range[half], key) ? power_of_two(score[j][i] * scale - lse[half]) : 0.0f;
                score[j][i] = p * (dweight[j][i] - delta[half]) * cap_slope(args, score[j][i]);
            }
        add_weighted_rows<T, DP, TENSOR_ROWS>(dq, score, keys);
        if (parts)
            add_diagonals(parts, pair, score, first_key);
    }
    async_wait<0>();
    const float factor[2] = {args.scale, args.scale};
    store_rows<T, DP>(view_head<T>(args.dq, batch, head), args.dq.time, first_query + warp_row, args.queries,
                      args.head_size, dq, factor);
}

template <typename T, int DP> static void launch_queries(struct cuda_device *cuda, const struct attention_args *args) {
    int query_bytes = 4 * TENSOR_ROWS * (DP + 8) * (int)sizeof(T);
    query_bytes += args->dbias_parts ? TENSOR_ROWS * PAIR_STRIDE * (int)sizeof(float) : 0;
    dim3 grid(grid_x(divide_up(args->queries, TENSOR_ROWS)), grid_yz(args->heads), grid_yz(args->batches));
    attention_take_shared(cuda, tensor_query_kernel<T, DP>, query_bytes, args->widest);
    LAUNCH(cuda, (tensor_query_kernel<T, DP>), grid, TENSOR_THREADS, (size_t)query_bytes, *args, parts_width(args));
}

bool tensor_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op) {
    const struct tensor tensors[] = {op->q, op->k, op->v, op->out, op->dout, op->dq, op->dk, op->dv};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        if (!tensor_takes(tensors[i]))
            return false;
    struct attention_args args = attention_backward_args(op);
    if (!tensor_has_room(cuda, args.widest))
        return false;
    int64_t width = parts_width(&args), tiles = divide_up(args.queries, TENSOR_ROWS);
    if (op->drelative_bias.data) {
        size_t bytes = sizeof(float) * (size_t)(args.batches * args.heads * tiles * width);
        if (!op->workspace.data || bytes > tensor_bytes(op->workspace))
            return false;
        args.dbias_parts = (float *)op->workspace.data;
    }
    tensor_attention_delta(cuda, &args, op->q.dtype);
#define QUERIES(T, DP) launch_queries<T, DP>(cuda, &args)
    WITH_TENSOR_SHAPE(op->q.dtype, args.widest, QUERIES);
#undef QUERIES
    tensor_attention_keys(cuda, &args, op->q.dtype);
    if (args.dbias_parts) {
        dim3 grid(grid_x(divide_up(args.queries + args.keys - 1, TENSOR_THREADS)), grid_yz(args.heads),
                  grid_yz(args.batches));
        LAUNCH(cuda, bias_finish_kernel, grid, TENSOR_THREADS, 0, (float *)op->drelative_bias.data, args, width, tiles);
    }
    return true;
}
