// Attention with any mask: windows, padding, borders of documents, biases by distance; and with caps of scores and
// sinks, for what tensor cores do not take. Simple rather than fast: a warp takes one query (or, for the gradients of
// keys and values, one key) and walks over the keys (queries) that it sees, 32 lanes along the head.
#include "ops/cuda/attention.cuh"
#include "ops/cuda/lanes.cuh"

enum { MASKED_WARPS = 8, MOST_LANE_COLUMNS = 8 };  // 32 lanes times 8 columns: heads up to 256 wide

template <typename T>
static __device__ __forceinline__ T *row_at(struct attention_view view, int64_t batch, int64_t row, int64_t head) {
    return (T *)view.data + batch * view.batch + row * view.time + head * view.head;
}

// Loads a row of a head into the lanes of a warp: element i is column lane + 32 i.
template <typename T>
static __device__ __forceinline__ void load_row(float out[MOST_LANE_COLUMNS], const T *row, int head_size) {
#pragma unroll
    for (int i = 0; i < MOST_LANE_COLUMNS; i++) {
        int d = (threadIdx.x & 31) + 32 * i;
        out[i] = d < head_size ? to_float(row[d]) : 0.0f;
    }
}

template <typename T>
static __device__ __forceinline__ void store_row(T *row, const float x[MOST_LANE_COLUMNS], int head_size) {
#pragma unroll
    for (int i = 0; i < MOST_LANE_COLUMNS; i++) {
        int d = (threadIdx.x & 31) + 32 * i;
        if (d < head_size)
            store(row + d, x[i]);
    }
}

// The dot product with a row in memory, on all lanes.
template <typename T>
static __device__ __forceinline__ float row_dot(const float x[MOST_LANE_COLUMNS], const T *row, int head_size) {
    float y[MOST_LANE_COLUMNS], sum = 0;
    load_row(y, row, head_size);
#pragma unroll
    for (int i = 0; i < MOST_LANE_COLUMNS; i++)
        sum += x[i] * y[i];
    return warp_sum(sum);
}

template <typename T>
static __device__ __forceinline__ void add_row(float sum[MOST_LANE_COLUMNS], float factor, const T *row,
                                               int head_size) {
    float y[MOST_LANE_COLUMNS];
    load_row(y, row, head_size);
#pragma unroll
    for (int i = 0; i < MOST_LANE_COLUMNS; i++)
        sum[i] += factor * y[i];
}

static __device__ __forceinline__ float bias_at(const struct attention_args &args, int head, int64_t query,
                                                int64_t key) {
    return args.bias ? args.bias[head * (args.queries + args.keys - 1) + key - query + args.queries - 1] : 0.0f;
}

// A score from the dot product of its query and key, and the slope of its cap.
static __device__ __forceinline__ float score_of(const struct attention_args &args, int head, int64_t query,
                                                 int64_t key, float product, float *slope) {
    float score = product * args.scale;
    *slope = 1.0f;
    if (args.cap > 0) {
        float t = tanhf(score / args.cap);
        score = args.cap * t;
        *slope = 1.0f - t * t;
    }
    return score + bias_at(args, head, query, key);
}

// Lanes draw dropout for one another. Along the keys of a query, a lane draws eight neighbouring keys, so the warp has
// 256 at a time; down the queries of a key or a distance, a lane draws one score, so the warp has 32.

struct key_draws {
    int64_t first;  // of the 256 keys that are drawn; -1 before the first
    uint32_t kept;  // of keys first + 8 lane …
};

// The factor of a score, 1 if the dropout is off. Call for a query's keys in order.
static __device__ __forceinline__ float factor_along(struct key_draws *draws, const struct attention_args &args,
                                                     int64_t batch, int head, int64_t query, int64_t key) {
    if (!args.dropout.is_on)
        return 1.0f;
    int lane = threadIdx.x & 31;
    int64_t first = key & ~(int64_t)255;
    if (first != draws->first) {
        int64_t row_id = args.dropout.row_ids[batch * args.queries + query];
        draws->kept = dropout_kept(args.dropout, head_site(args, head), row_id, first + 8 * lane, 0);
        draws->first = first;
    }
    uint32_t kept = __shfl_sync(0xFFFFFFFFu, draws->kept, (int)(key & 255) / 8);
    return kept >> kept_bit((int)(key & 7)) & 1 ? args.dropout.scale : 0.0f;
}

// The factor of this lane's own score, passed to the warp when the walk reaches it; 1 if the dropout is off or there is
// no such score.
static __device__ __forceinline__ float own_factor(const struct attention_args &args, int64_t batch, int head,
                                                   int64_t query, int64_t key) {
    if (!args.dropout.is_on || query >= args.queries || key < 0 || key >= args.keys)
        return 1.0f;
    int64_t row_id = args.dropout.row_ids[batch * args.queries + query];
    uint32_t kept = dropout_kept(args.dropout, head_site(args, head), row_id, key, 0);
    return kept >> kept_bit((int)(key & 7)) & 1 ? args.dropout.scale : 0.0f;
}

// Grid (groups of queries, heads, batches), a warp per query; online softmax.
template <typename T> static __global__ void masked_forward_kernel(struct attention_args args) {
    int64_t query = (int64_t)blockIdx.x * MASKED_WARPS + (threadIdx.x >> 5), batch = blockIdx.z;
    int head = blockIdx.y, group = head / (args.heads / args.key_heads);
    if (query >= args.queries)
        return;
    float q[MOST_LANE_COLUMNS], out[MOST_LANE_COLUMNS] = {}, slope;
    float largest = sink_of<T>(args, head), sum = args.sinks ? 1.0f : 0.0f;
    load_row(q, row_at<T>(args.q, batch, query, head), args.head_size);
    struct key_range seen = keys_of(args, batch, query);
    struct key_draws draws = {-1, 0};
    for (int64_t key = seen.first; key < seen.end; key++) {
        float product = row_dot(q, row_at<T>(args.k, batch, key, group), args.head_size);
        float score = score_of(args, head, query, key, product, &slope);
        float next = fmaxf(largest, score), correction = expf(largest - next), weight = expf(score - next);
        sum = sum * correction + weight;
        largest = next;
#pragma unroll
        for (int i = 0; i < MOST_LANE_COLUMNS; i++)
            out[i] *= correction;
        add_row(out, weight * factor_along(&draws, args, batch, head, query, key), row_at<T>(args.v, batch, key, group),
                args.value_size);
    }
    float scale = sum == 0 ? 0.0f : 1.0f / sum;
#pragma unroll
    for (int i = 0; i < MOST_LANE_COLUMNS; i++)
        out[i] *= scale;
    store_row(row_at<T>(args.out, batch, query, head), out, args.value_size);
    if (args.lse && (threadIdx.x & 31) == 0)
        args.lse[(batch * args.heads + head) * args.queries + query] = largest + logf(sum);
}

// For one score with this dropout factor: its gradient, and its probability after dropout.
template <typename T>
static __device__ __forceinline__ float
score_gradient(const struct attention_args &args, const float q[MOST_LANE_COLUMNS], const float dout[MOST_LANE_COLUMNS],
               int64_t batch, int head, int64_t query, int64_t key, float factor, float *dropped) {
    int group = head / (args.heads / args.key_heads);
    int64_t row = (batch * args.heads + head) * args.queries + query;
    float product = row_dot(q, row_at<T>(args.k, batch, key, group), args.head_size), slope;
    float score = score_of(args, head, query, key, product, &slope);
    float p = expf(score - args.lse[row]);
    float dp = row_dot(dout, row_at<T>(args.v, batch, key, group), args.value_size) * factor;
    *dropped = p * factor;
    return p * (dp - args.delta[row]) * slope;
}

// A warp per query: delta, then dq.
template <typename T> static __global__ void masked_query_kernel(struct attention_args args) {
    int64_t query = (int64_t)blockIdx.x * MASKED_WARPS + (threadIdx.x >> 5), batch = blockIdx.z;
    int head = blockIdx.y, group = head / (args.heads / args.key_heads);
    if (query >= args.queries)
        return;
    float q[MOST_LANE_COLUMNS], dout[MOST_LANE_COLUMNS], dq[MOST_LANE_COLUMNS] = {}, dropped;
    load_row(q, row_at<T>(args.q, batch, query, head), args.head_size);
    load_row(dout, row_at<T>(args.dout, batch, query, head), args.value_size);
    float delta = row_dot(dout, row_at<T>(args.out, batch, query, head), args.value_size);
    args.delta[(batch * args.heads + head) * args.queries + query] = delta;
    __syncwarp();
    struct key_range seen = keys_of(args, batch, query);
    struct key_draws draws = {-1, 0};
    for (int64_t key = seen.first; key < seen.end; key++) {
        float factor = factor_along(&draws, args, batch, head, query, key);
        float ds = score_gradient<T>(args, q, dout, batch, head, query, key, factor, &dropped);
        add_row(dq, ds * args.scale, row_at<T>(args.k, batch, key, group), args.head_size);
    }
    store_row(row_at<T>(args.dq, batch, query, head), dq, args.head_size);
}

// A warp per key: dk and dv from all queries of all heads of its group that see it, in order.
template <typename T> static __global__ void masked_key_kernel(struct attention_args args) {
    int64_t key = (int64_t)blockIdx.x * MASKED_WARPS + (threadIdx.x >> 5), batch = blockIdx.z;
    int group = blockIdx.y, per_group = args.heads / args.key_heads;
    if (key >= args.keys)
        return;
    float dk[MOST_LANE_COLUMNS] = {}, dv[MOST_LANE_COLUMNS] = {}, q[MOST_LANE_COLUMNS], dout[MOST_LANE_COLUMNS],
          dropped, drawn = 1;
    for (int head = group * per_group; head < (group + 1) * per_group; head++) {
        for (int64_t query = 0; query < args.queries; query++) {
            if (query % 32 == 0)
                drawn = own_factor(args, batch, head, query + (threadIdx.x & 31), key);
            float factor = __shfl_sync(0xFFFFFFFFu, drawn, (int)(query & 31));
            struct key_range seen = keys_of(args, batch, query);
            if (!sees(seen, key))
                continue;
            load_row(q, row_at<T>(args.q, batch, query, head), args.head_size);
            load_row(dout, row_at<T>(args.dout, batch, query, head), args.value_size);
            float ds = score_gradient<T>(args, q, dout, batch, head, query, key, factor, &dropped);
            add_row(dk, ds * args.scale, row_at<T>(args.q, batch, query, head), args.head_size);
            add_row(dv, dropped, row_at<T>(args.dout, batch, query, head), args.value_size);
        }
    }
    store_row(row_at<T>(args.dk, batch, key, group), dk, args.head_size);
    store_row(row_at<T>(args.dv, batch, key, group), dv, args.value_size);
}

// A warp per distance: the sum of the score gradients along it.
template <typename T> static __global__ void masked_bias_kernel(struct attention_args args) {
    int64_t width = args.queries + args.keys - 1, column = (int64_t)blockIdx.x * MASKED_WARPS + (threadIdx.x >> 5);
    int64_t batch = blockIdx.z;
    int head = blockIdx.y;
    if (column >= width)
        return;
    float q[MOST_LANE_COLUMNS], dout[MOST_LANE_COLUMNS], dropped, sum = 0, drawn = 1;
    for (int64_t query = 0; query < args.queries; query++) {
        int64_t key = column + query - (args.queries - 1), lane = threadIdx.x & 31;
        if (query % 32 == 0)
            drawn = own_factor(args, batch, head, query + lane, key + lane);
        float factor = __shfl_sync(0xFFFFFFFFu, drawn, (int)(query & 31));
        struct key_range seen = keys_of(args, batch, query);
        if (!sees(seen, key))
            continue;
        load_row(q, row_at<T>(args.q, batch, query, head), args.head_size);
        load_row(dout, row_at<T>(args.dout, batch, query, head), args.value_size);
        sum += score_gradient<T>(args, q, dout, batch, head, query, key, factor, &dropped);
    }
    if ((threadIdx.x & 31) == 0)
        args.dbias[(batch * args.heads + head) * width + column] += sum;
}

// A warp per head of a sample: a sink has no value, so its gradient is the sum of -p delta over all queries.
template <typename T> static __global__ void sink_kernel(struct attention_args args) {
    int64_t row = (int64_t)blockIdx.x * MASKED_WARPS + (threadIdx.x >> 5);
    if (row >= args.batches * args.heads)
        return;
    float sink = sink_of<T>(args, (int)(row % args.heads)), sum = 0;
    for (int64_t query = threadIdx.x & 31; query < args.queries; query += 32)
        sum -= expf(sink - args.lse[row * args.queries + query]) * args.delta[row * args.queries + query];
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0)
        args.dsinks[row] = sum;
}

void attention_sink_gradients(struct cuda_device *cuda, const struct attention_args *args, enum dtype dtype) {
    unsigned blocks = grid_x(divide_up(args->batches * args->heads, MASKED_WARPS));
    WITH_TYPE(dtype, T, LAUNCH(cuda, sink_kernel<T>, blocks, 32 * MASKED_WARPS, 0, *args));
}

static dim3 warps_over(int64_t rows, int64_t heads, int64_t batches) {
    return dim3(grid_x(divide_up(rows, MASKED_WARPS)), grid_yz(heads), grid_yz(batches));
}

void masked_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op) {
    struct attention_args args = attention_forward_args(op);
    dim3 grid = warps_over(args.queries, args.heads, args.batches);
    WITH_TYPE(op->q.dtype, T, LAUNCH(cuda, masked_forward_kernel<T>, grid, 32 * MASKED_WARPS, 0, args));
}

template <typename T> static void masked_backward(struct cuda_device *cuda, const struct attention_args &args) {
    dim3 queries = warps_over(args.queries, args.heads, args.batches);
    dim3 keys = warps_over(args.keys, args.key_heads, args.batches);
    dim3 distances = warps_over(args.queries + args.keys - 1, args.heads, args.batches);
    LAUNCH(cuda, masked_query_kernel<T>, queries, 32 * MASKED_WARPS, 0, args);
    LAUNCH(cuda, masked_key_kernel<T>, keys, 32 * MASKED_WARPS, 0, args);
    if (args.sinks)
        attention_sink_gradients(cuda, &args, args.dtype);
    if (args.dbias)
        LAUNCH(cuda, masked_bias_kernel<T>, distances, 32 * MASKED_WARPS, 0, args);
}

void masked_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op) {
    struct attention_args args = attention_backward_args(op);
    WITH_TYPE(op->q.dtype, T, masked_backward<T>(cuda, args));
}
