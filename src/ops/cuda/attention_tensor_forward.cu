// Attention forward on tensor cores (Dao et al., 2022 and 2023): a block keeps 64 queries, walks over tiles of 64 keys
// and values, and rescales its sums whenever a row's largest score grows. Keys of the next tile are copied while the
// values of this one are used. See attention_tensor.cuh.
#include "ops/cuda/attention_tensor.cuh"

// A thread's state of its two rows; `largest` is in powers of two, the four threads of a row hold parts of `sum`.
struct forward_rows {
    struct key_range range[2];
    float largest[2], sum[2];
};

// Turns scores into weights and updates the rows' largest scores; earlier sums must be multiplied by correction.
static __device__ __forceinline__ void softmax_tile(float score[TENSOR_ROWS / 8][4], struct forward_rows &rows,
                                                    float correction[2], float scale, int first_key) {
    int column = first_key + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = rows.largest[half], sum = 0;
        struct key_range range = rows.range[half];
#pragma unroll
        for (int j = 0; j < TENSOR_ROWS / 8; j++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                int key = column + 8 * j + (i & 1);
                score[j][i] = key >= range.first && key < range.end ? score[j][i] * scale : -INFINITY;
                largest = fmaxf(largest, score[j][i]);
            }
        largest = quad_max(largest);
        // If no key is visible yet, all scores are -infinity: subtract 0 instead, so that every weight is 0.
        float base = largest == -INFINITY ? 0.0f : largest;
        correction[half] = power_of_two(rows.largest[half] - base);
        rows.largest[half] = largest;
#pragma unroll
        for (int j = 0; j < TENSOR_ROWS / 8; j++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                score[j][i] = power_of_two(score[j][i] - base);
                sum += score[j][i];
            }
        rows.sum[half] = rows.sum[half] * correction[half] + sum;
    }
}

// Grid (query tile, head, batch). Late queries see most keys under a causal mask, so their tiles start first.
template <typename T, int DP>
static __global__ void __launch_bounds__(TENSOR_THREADS, DP <= 64    ? 4
                                                         : DP <= 128 ? 3
                                                                     : 2)
    tensor_forward_kernel(struct attention_args args) {
    extern __shared__ uint4 memory[];
    __shared__ int bounds[2];
    T *queries = (T *)memory, *keys = queries + TENSOR_ROWS * (DP + 8), *values = keys + TENSOR_ROWS * (DP + 8);
    int64_t batch = blockIdx.z, first_query = (int64_t)(gridDim.x - 1 - blockIdx.x) * TENSOR_ROWS;
    int head = blockIdx.y, key_head = head / (args.heads / args.key_heads), warp_row = (threadIdx.x >> 5) * 16;
    const T *k = view_head<T>(args.k, batch, key_head), *v = view_head<T>(args.v, batch, key_head);
    int64_t query = first_query + warp_row + (threadIdx.x & 31) / 4, row_id = drawn_row(args, batch, query);
    struct forward_rows rows = {};
    for (int half = 0; half < 2; half++) {
        rows.range[half] = keys_of(args, batch, query + 8 * half);
        rows.largest[half] = sink_of<T>(args, head) * LOG2_E;
        rows.sum[half] = args.sinks && threadIdx.x % 4 == 0 ? 1.0f : 0.0f;
    }
    struct key_range all = block_range(rows.range, bounds);
    int first_key = all.first / TENSOR_ROWS * TENSOR_ROWS;
    float out[DP / 8][4], scale = args.scale * LOG2_E;
    clear_tiles<DP / 8>(out);
    start_rows<T, TENSOR_ROWS, DP>(queries, view_head<T>(args.q, batch, head), args.q.time, first_query, args.queries,
                                   args.head_size);
    if (first_key < all.end)
        start_rows<T, TENSOR_ROWS, DP>(keys, k, args.k.time, first_key, args.keys, args.head_size);
    async_commit();
    for (; first_key < all.end; first_key += TENSOR_ROWS) {
        float score[TENSOR_ROWS / 8][4], correction[2];
        async_wait<0>();
        __syncthreads();  // the keys have arrived, and the values of the last tile have been read
        start_rows<T, TENSOR_ROWS, DP>(values, v, args.v.time, first_key, args.keys, args.value_size);
        async_commit();
        clear_tiles<TENSOR_ROWS / 8>(score);
        add_row_products<T, DP, TENSOR_ROWS>(score, queries, warp_row, keys);
        __syncthreads();  // the keys have been read
        if (first_key + TENSOR_ROWS < all.end)
            start_rows<T, TENSOR_ROWS, DP>(keys, k, args.k.time, first_key + TENSOR_ROWS, args.keys, args.head_size);
        async_commit();
        if (args.bias)
            add_bias(score, args, head, query, first_key);
        if (args.cap > 0)
            cap_scores<TENSOR_ROWS / 8>(score, args);
        softmax_tile(score, rows, correction, scale, first_key);
#pragma unroll
        for (int j = 0; j < DP / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                out[j][i] *= correction[i / 2];
        if (args.dropout.is_on)
            drop(score, args, head, row_id, first_key);
        async_wait<1>();
        __syncthreads();  // the values have arrived
        add_weighted_rows<T, DP, TENSOR_ROWS>(out, score, values);
    }
    async_wait<0>();
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = quad_sum(rows.sum[half]);
        factor[half] = sum > 0 ? 1.0f / sum : 0.0f;
        if (args.lse && (threadIdx.x & 3) == 0 && query + 8 * half < args.queries)
            args.lse[(batch * args.heads + head) * args.queries + query + 8 * half] =
                (rows.largest[half] + log2f(sum)) * LN_2;
    }
    store_rows<T, DP>(view_head<T>(args.out, batch, head), args.out.time, first_query + warp_row, args.queries,
                      args.value_size, out, factor);
}

template <typename T, int DP> static void launch(struct cuda_device *cuda, const struct attention_args *args) {
    int bytes = 3 * TENSOR_ROWS * (DP + 8) * (int)sizeof(T);
    attention_take_shared(cuda, tensor_forward_kernel<T, DP>, bytes, args->widest);
    dim3 grid(grid_x(divide_up(args->queries, TENSOR_ROWS)), grid_yz(args->heads), grid_yz(args->batches));
    LAUNCH(cuda, (tensor_forward_kernel<T, DP>), grid, TENSOR_THREADS, (size_t)bytes, *args);
}

bool tensor_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op) {
    if (!tensor_takes(op->q) || !tensor_takes(op->k) || !tensor_takes(op->v) || !tensor_takes(op->out))
        return false;
    struct attention_args args = attention_forward_args(op);
    if (!tensor_has_room(cuda, args.widest))
        return false;
#define FORWARD(T, DP) launch<T, DP>(cuda, &args)
    WITH_TENSOR_SHAPE(op->q.dtype, args.widest, FORWARD);
#undef FORWARD
    return true;
}
