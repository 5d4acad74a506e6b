// The gradients of keys and values on tensor cores: a block has 64 keys and walks over the queries that see them. See
// attention_tensor_backward.cu, whose kernel has queries.
#include "ops/cuda/attention_tensor.cuh"

// Per-query data of a tile besides the rows of queries.
template <int ROWS> struct query_facts {
    float lse[ROWS], delta[ROWS];
    struct key_range range[ROWS];
    int64_t row_id[ROWS];
};

// Reads the data of one query; returns whether it sees keys [first_key, + TENSOR_ROWS).
template <int ROWS>
static __device__ __forceinline__ bool read_fact(query_facts<ROWS> *facts, const struct attention_args &args,
                                                 int64_t batch, int head, int64_t first_query, int first_key) {
    int64_t query = first_query + threadIdx.x, row = (batch * args.heads + head) * args.queries + query;
    bool is_there = query < args.queries;
    struct key_range range = keys_of(args, batch, query);
    facts->lse[threadIdx.x] = is_there ? args.lse[row] * LOG2_E : 0.0f;
    facts->delta[threadIdx.x] = is_there ? args.delta[row] : 0.0f;
    facts->range[threadIdx.x] = range;
    facts->row_id[threadIdx.x] =
        is_there && args.dropout.is_on ? args.dropout.row_ids[batch * args.queries + query] : 0;
    return range.first < first_key + TENSOR_ROWS && range.end > first_key;
}

// Gradients of a kernel of keys: the sums of both take the registers of a warp where heads are wide.
enum key_gradients { OF_KEYS = 1, OF_VALUES = 2, OF_BOTH = OF_KEYS | OF_VALUES };

// Adds the contribution of ROWS queries of one head, in shared memory, to the gradients of the warp's 16 keys.
template <typename T, int DP, int ROWS, int OF>
static __device__ __forceinline__ void
add_key_gradients(float dk[DP / 8][4], float dv[DP / 8][4], const T *keys, const T *values, const T *queries,
                  const T *douts, const query_facts<ROWS> *facts, const struct attention_args &args, int head,
                  int64_t first_query, int first_key) {
    int lane = threadIdx.x & 31, warp_row = (threadIdx.x >> 5) * 16;
    float score[ROWS / 8][4], dweight[ROWS / 8][4], scale = args.scale * LOG2_E;
    uint32_t kept[2][4];
    clear_tiles<ROWS / 8>(score);
    clear_tiles<ROWS / 8>(dweight);
    add_row_products<T, DP, ROWS>(score, keys, warp_row, queries);
    if (OF & OF_KEYS)
        add_row_products<T, DP, ROWS>(dweight, values, warp_row, douts);
    if (args.cap > 0)
        cap_scores<ROWS / 8>(score, args);
    if (args.dropout.is_on)
        turned_kept<ROWS>(kept, facts->row_id, args, head, first_key + warp_row);
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int key = first_key + warp_row + lane / 4 + 8 * (i / 2), column = 8 * j + 2 * (lane % 4) + (i & 1);
            float slope = cap_slope(args, score[j][i]), factor = 1;
            if (args.bias)
                score[j][i] += bias_of(args, head, first_query + column, key);
            if (args.dropout.is_on)
                factor = is_kept_turned<ROWS>(kept, j, i) ? args.dropout.scale : 0.0f;
            float p = sees(facts->range[column], key) ? power_of_two(score[j][i] * scale - facts->lse[column]) : 0.0f;
            score[j][i] = p * factor;
            dweight[j][i] = p * (dweight[j][i] * factor - facts->delta[column]) * slope;
        }
    if (OF & OF_VALUES)
        add_weighted_rows<T, DP, ROWS>(dv, score, douts);
    if (OF & OF_KEYS)
        add_weighted_rows<T, DP, ROWS>(dk, dweight, queries);
}

// Grid (key tile, key head, batch): all queries of the heads that share the keys, ROWS at a time.
template <typename T, int DP, int ROWS, int OF>
static __global__ void __launch_bounds__(TENSOR_THREADS) tensor_key_kernel(struct attention_args args) {
    extern __shared__ uint4 memory[];
    __shared__ query_facts<ROWS> facts;
    T *keys = (T *)memory, *values = keys + TENSOR_ROWS * (DP + 8), *queries = values + TENSOR_ROWS * (DP + 8);
    T *douts = queries + ROWS * (DP + 8);
    int64_t batch = blockIdx.z, start = 0;
    int first_key = (int)blockIdx.x * TENSOR_ROWS, key_head = blockIdx.y, group = args.heads / args.key_heads;
    float dk[DP / 8][4], dv[DP / 8][4];
    clear_tiles<DP / 8>(dk);
    clear_tiles<DP / 8>(dv);
    start_rows<T, TENSOR_ROWS, DP>(keys, view_head<T>(args.k, batch, key_head), args.k.time, first_key, args.keys,
                                   args.head_size);
    start_rows<T, TENSOR_ROWS, DP>(values, view_head<T>(args.v, batch, key_head), args.v.time, first_key, args.keys,
                                   args.value_size);
    if (args.is_causal)  // the first query that sees the first key, rounded down to a tile
        start = max((int64_t)0, first_key - (args.keys - args.queries)) / ROWS * ROWS;
    int64_t end = args.queries;
    if (args.first_keys || args.window > 0)
        end = queries_before(args, batch, start, first_key + TENSOR_ROWS);
    for (int head = key_head * group; head < (key_head + 1) * group; head++)
        for (int64_t first_query = start; first_query < end; first_query += ROWS) {
            __syncthreads();  // the queries of the last tile and their data have been read
            bool is_seen = threadIdx.x < ROWS && read_fact<ROWS>(&facts, args, batch, head, first_query, first_key);
            if (!__syncthreads_or(is_seen))
                continue;
            start_rows<T, ROWS, DP>(queries, view_head<T>(args.q, batch, head), args.q.time, first_query, args.queries,
                                    args.head_size);
            start_rows<T, ROWS, DP>(douts, view_head<T>(args.dout, batch, head), args.dout.time, first_query,
                                    args.queries, args.value_size);
            async_commit();
            async_wait<0>();
            __syncthreads();
            add_key_gradients<T, DP, ROWS, OF>(dk, dv, keys, values, queries, douts, &facts, args, head, first_query,
                                               first_key);
        }
    async_wait<0>();
    const float factor[2] = {args.scale, args.scale}, one[2] = {1, 1};
    int64_t row = first_key + (threadIdx.x >> 5) * 16;
    if (OF & OF_KEYS)
        store_rows<T, DP>(view_head<T>(args.dk, batch, key_head), args.dk.time, row, args.keys, args.head_size, dk,
                          factor);
    if (OF & OF_VALUES)
        store_rows<T, DP>(view_head<T>(args.dv, batch, key_head), args.dv.time, row, args.keys, args.value_size, dv,
                          one);
}

template <typename T, int DP, int OF>
static void launch_keys(struct cuda_device *cuda, const struct attention_args *args) {
    enum { ROWS = DP <= 64 ? 64 : 32 };  // wider heads leave fewer registers for scores
    int bytes = 2 * (TENSOR_ROWS + ROWS) * (DP + 8) * (int)sizeof(T);
    dim3 grid(grid_x(divide_up(args->keys, TENSOR_ROWS)), grid_yz(args->key_heads), grid_yz(args->batches));
    attention_take_shared(cuda, tensor_key_kernel<T, DP, ROWS, OF>, bytes, args->widest);
    LAUNCH(cuda, (tensor_key_kernel<T, DP, ROWS, OF>), grid, TENSOR_THREADS, (size_t)bytes, *args);
}

template <typename T, int DP> static void launch(struct cuda_device *cuda, const struct attention_args *args) {
    if constexpr (DP <= 128) {
        launch_keys<T, DP, OF_BOTH>(cuda, args);
    } else {
        launch_keys<T, DP, OF_KEYS>(cuda, args);
        launch_keys<T, DP, OF_VALUES>(cuda, args);
    }
}

void tensor_attention_keys(struct cuda_device *cuda, const struct attention_args *args, enum dtype dtype) {
#define KEYS(T, DP) launch<T, DP>(cuda, args)
    WITH_TENSOR_SHAPE(dtype, args->widest, KEYS);
#undef KEYS
}
