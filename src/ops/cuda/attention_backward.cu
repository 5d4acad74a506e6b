// Attention backward. Scores are recomputed from q, k and the stored log-sum-exp. Two kernels, so that every gradient
// is summed by one block in one order and no atomics are needed: one walks over keys for a tile of queries (dq), one
// over queries for a tile of keys (dk, dv), at the price of computing scores twice.
//
// With p the softmax, m the dropout factors: dv = (p m)' dout; dp = m (dout v'); ds = p (dp - delta) where
// delta = sum of p dp along a row = sum of dout * out; dq = scale ds k; dk = scale ds' q.
#include "ops/cuda/attention.cuh"
#include "ops/cuda/lanes.cuh"

enum { DELTA_WARPS = ATTENTION_THREADS / 32 };

// delta[b][h][i] = sum of dout * out over the head; a warp per row, rows numbered as delta lies.
template <typename T> static __global__ void delta_kernel(struct attention_args args) {
    int64_t index = (int64_t)blockIdx.x * DELTA_WARPS + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (index >= args.batches * args.heads * args.queries)
        return;
    int64_t query = index % args.queries, head = index / args.queries % args.heads;
    int64_t batch = index / args.queries / args.heads;
    const T *out = view_head<T>(args.out, batch, head) + query * args.out.time;
    const T *dout = view_head<T>(args.dout, batch, head) + query * args.dout.time;
    float sum = 0;
    for (int64_t d = lane; d < args.value_size; d += 32)
        sum += to_float(out[d]) * to_float(dout[d]);
    sum = warp_sum(sum);
    if (lane == 0)
        args.delta[index] = sum;
}

// Replaces q k' in `score` by the weights after dropout, and dout v' in `dweight` by ds.
template <int R>
static __device__ __forceinline__ void score_gradients(float score[R][R], float dweight[R][R],
                                                       const struct attention_args &args, int head, int64_t first_query,
                                                       int64_t first_key) {
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    int64_t batch = blockIdx.z, key = first_key + R * tx;
    float factor[R][R];
    score_factors<R>(factor, args, batch, head, first_query, first_key);
#pragma unroll
    for (int r = 0; r < R; r++) {
        int64_t query = first_query + R * ty + r, row = (batch * args.heads + head) * args.queries + query;
        float lse = query < args.queries ? args.lse[row] : 0.0f, delta = query < args.queries ? args.delta[row] : 0.0f;
        struct key_range seen = keys_of(args, batch, query);
#pragma unroll
        for (int c = 0; c < R; c++) {
            float p = sees(seen, key + c) ? expf(score[r][c] * args.scale - lse) : 0.0f;
            dweight[r][c] = p * (dweight[r][c] * factor[r][c] - delta);
            score[r][c] = p * factor[r][c];
        }
    }
}

template <int R, int NC> static __device__ __forceinline__ void clear(float sum[R][NC]) {
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < NC; c++)
            sum[r][c] = 0;
}

// Grid (query tile, head, batch).
template <int R, int NC>
static __global__ void __launch_bounds__(ATTENTION_THREADS) query_gradient_kernel(struct attention_args args) {
    using shape = tile<R, NC>;
    extern __shared__ float shared[];
    float *queries = shared, *douts = queries + shape::FLOATS, *keys = douts + shape::FLOATS;
    float *values = keys + shape::FLOATS, *pair = values + shape::FLOATS;
    int64_t batch = blockIdx.z, first_query = (int64_t)(gridDim.x - 1 - blockIdx.x) * shape::ROWS;
    int head = blockIdx.y, key_head = head / (args.heads / args.key_heads);
    struct any_head k = any_head(args, args.k, batch, key_head), v = any_head(args, args.v, batch, key_head);
    int64_t end = args.keys;
    if (args.is_causal)
        end = min(end, min(first_query + shape::ROWS, args.queries) + args.keys - args.queries);
    load_tile<R, NC>(queries, any_head(args, args.q, batch, head), first_query, args.queries, args.head_size);
    load_tile<R, NC>(douts, any_head(args, args.dout, batch, head), first_query, args.queries, args.value_size);
    float dq[R][NC], factor[R];
    clear<R, NC>(dq);
    for (int64_t first_key = 0; first_key < end; first_key += shape::ROWS) {
        float score[R][R], dweight[R][R];
        __syncthreads();  // the keys and the pair tile of the last round have been used
        load_tile<R, NC>(keys, k, first_key, args.keys, args.head_size);
        load_tile<R, NC>(values, v, first_key, args.keys, args.value_size);
        __syncthreads();
        row_products<R, NC>(score, queries, keys);
        row_products<R, NC>(dweight, douts, values);
        score_gradients<R>(score, dweight, args, head, first_query, first_key);
        store_pair<R, NC>(pair, dweight);
        __syncthreads();
        accumulate<R, NC, false>(dq, pair, keys);
    }
#pragma unroll
    for (int r = 0; r < R; r++)
        factor[r] = args.scale;
    store_tile<R, NC>(any_head(args, args.dq, batch, head), first_query, args.queries, args.head_size, dq, factor);
}

// Adds the contribution of one head's queries to the gradients of a tile of keys, which lie in `keys` and `values`.
template <int R, int NC>
static __device__ __forceinline__ void key_gradient_of_head(float dk[R][NC], float dv[R][NC], float *keys,
                                                            const struct attention_args &args, int head,
                                                            int64_t first_key) {
    using shape = tile<R, NC>;
    float *values = keys + shape::FLOATS, *queries = values + shape::FLOATS, *douts = queries + shape::FLOATS;
    float *pair = douts + shape::FLOATS;
    int64_t batch = blockIdx.z, first_query = 0;
    struct any_head q = any_head(args, args.q, batch, head), dout = any_head(args, args.dout, batch, head);
    if (args.is_causal)  // the first query that sees the first key, rounded down to a tile
        first_query = max((int64_t)0, first_key - (args.keys - args.queries)) / shape::ROWS * shape::ROWS;
    for (; first_query < args.queries; first_query += shape::ROWS) {
        float score[R][R], dweight[R][R];
        __syncthreads();  // the queries and the pair tile of the last round have been used
        load_tile<R, NC>(queries, q, first_query, args.queries, args.head_size);
        load_tile<R, NC>(douts, dout, first_query, args.queries, args.value_size);
        __syncthreads();
        row_products<R, NC>(score, queries, keys);
        row_products<R, NC>(dweight, douts, values);
        score_gradients<R>(score, dweight, args, head, first_query, first_key);
        store_pair<R, NC>(pair, score);
        __syncthreads();
        accumulate<R, NC, true>(dv, pair, douts);
        __syncthreads();
        store_pair<R, NC>(pair, dweight);
        __syncthreads();
        accumulate<R, NC, true>(dk, pair, queries);
    }
}

// Grid (key tile, key head, batch).
template <int R, int NC>
static __global__ void __launch_bounds__(ATTENTION_THREADS) key_gradient_kernel(struct attention_args args) {
    using shape = tile<R, NC>;
    extern __shared__ float shared[];
    int64_t batch = blockIdx.z, first_key = (int64_t)blockIdx.x * shape::ROWS;
    int key_head = blockIdx.y, group = args.heads / args.key_heads;
    load_tile<R, NC>(shared, any_head(args, args.k, batch, key_head), first_key, args.keys, args.head_size);
    load_tile<R, NC>(shared + shape::FLOATS, any_head(args, args.v, batch, key_head), first_key, args.keys,
                     args.value_size);
    float dk[R][NC], dv[R][NC], factor[R], one[R];
    clear<R, NC>(dk);
    clear<R, NC>(dv);
    for (int head = key_head * group; head < (key_head + 1) * group; head++)
        key_gradient_of_head<R, NC>(dk, dv, shared, args, head, first_key);
#pragma unroll
    for (int r = 0; r < R; r++) {
        factor[r] = args.scale;
        one[r] = 1.0f;
    }
    store_tile<R, NC>(any_head(args, args.dk, batch, key_head), first_key, args.keys, args.head_size, dk, factor);
    store_tile<R, NC>(any_head(args, args.dv, batch, key_head), first_key, args.keys, args.value_size, dv, one);
}

template <int R, int NC> static void backward_launch(struct cuda_device *cuda, const struct attention_args *args) {
    using shape = tile<R, NC>;
    int bytes = (4 * shape::FLOATS + shape::PAIR_FLOATS) * (int)sizeof(float);
    attention_take_shared(cuda, query_gradient_kernel<R, NC>, bytes, args->widest);
    attention_take_shared(cuda, key_gradient_kernel<R, NC>, bytes, args->widest);
    unsigned batches = grid_yz(args->batches);
    dim3 query_grid(grid_x(divide_up(args->queries, shape::ROWS)), grid_yz(args->heads), batches);
    dim3 key_grid(grid_x(divide_up(args->keys, shape::ROWS)), grid_yz(args->key_heads), batches);
    WITH_TYPE(args->dtype, T,
              LAUNCH(cuda, delta_kernel<T>, grid_x(divide_up(args->batches * args->heads * args->queries, DELTA_WARPS)),
                     ATTENTION_THREADS, 0, *args));
    LAUNCH(cuda, (query_gradient_kernel<R, NC>), query_grid, ATTENTION_THREADS, (size_t)bytes, *args);
    LAUNCH(cuda, (key_gradient_kernel<R, NC>), key_grid, ATTENTION_THREADS, (size_t)bytes, *args);
}

void tiled_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op) {
    struct attention_args args = attention_backward_args(op);
#define BACKWARD(R, NC) backward_launch<R, NC>(cuda, &args)
    WITH_ATTENTION_SHAPE(args.widest, BACKWARD);
#undef BACKWARD
}
