// Code common to the attention kernels: their arguments, and the tiles of those that compute in fp32 (see
// attention_tensor.cuh for the tiles of tensor cores).
//
// A block has 256 threads, seen as 16 x 16 (ty, tx), and works on TILE = 16 R queries by TILE keys. Tiles lie in shared
// memory as fp32 with 16 NC columns (the head size rounded up, the rest 0) and an odd row stride, so that 16 threads
// that read the same column of 16 rows access 16 banks. Place s of a tile holds row first + R * (s % 16) + s / 16: the
// R places tx, tx + 16, … of a thread are then R neighbouring rows, and one Philox call gives the dropout of all its
// keys. Thread (ty, tx) owns the scores of places ty + 16 r (queries) and tx + 16 c (keys), and in outputs of head size
// the columns tx + 16 c.
#ifndef OPS_CUDA_ATTENTION_CUH
#define OPS_CUDA_ATTENTION_CUH

#include "ops/cuda/dropout.cuh"
#include "ops/cuda/elements.cuh"

enum { ATTENTION_THREADS = 256 };

// A (B, T, H, D) tensor as kernels see it.
struct attention_view {
    void *data;
    int64_t batch, time, head;  // strides, in elements
};

struct attention_args {
    struct attention_view q, k, v, out, dout, dq, dk, dv;
    float *lse;    // (B, H, Tq); forward: may be NULL
    float *delta;  // (B, H, Tq): row sums of dout * out
    int64_t batches, queries, keys;
    int heads, key_heads, head_size, value_size, widest;  // widest: of the sizes
    float scale, cap;                                     // cap: 0 for none
    const void *sinks;                                    // (H) in the dtype of q, or NULL
    float *dsinks;                                        // (B, H), or NULL
    bool is_causal;
    int first_head;
    struct cuda_dropout dropout;
    // Masks, for the kernels that take them.
    int64_t window;
    const int32_t *key_counts, *first_keys;  // (B), (B * Tq), or NULL
    const float *bias;                       // (H, Tq + Tk - 1), or NULL
    float *dbias;                            // (B, H, Tq + Tk - 1), or NULL
    float *dbias_parts;                      // sums along distances, see attention_tensor_backward.cu; or NULL
    enum dtype dtype;                        // of all tensors, for the kernels that compute in fp32
};

// The implementations that attention.cu chooses from; queries are not empty.
// On tensor cores; false if they do not take the operation and did nothing.
bool tensor_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op);
bool tensor_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op);
// For heads of 64 and 128, with instructions of compute capability 9.0 only; false if they did nothing.
bool hopper_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op);
bool hopper_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op);
// Writes args->delta, and args->dsinks if there are sinks; tensors have this dtype of 16 bits.
void tensor_attention_delta(struct cuda_device *cuda, const struct attention_args *args, enum dtype dtype);
// The gradients of keys and values, from args->lse and args->delta.
void tensor_attention_keys(struct cuda_device *cuda, const struct attention_args *args, enum dtype dtype);
// In tiles of fp32; the operation has no mask but the causal one.
void tiled_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op);
void tiled_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op);
// The gradients of sinks, from args->lse and args->delta.
void attention_sink_gradients(struct cuda_device *cuda, const struct attention_args *args, enum dtype dtype);
// Any operation, in any memory.
void masked_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op);
void masked_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op);

// Allows a kernel this much shared memory. More than 48 KiB must be requested; the limit is 227 KiB on compute
// capability 9.0, 163 on 8.0, 99 on 8.6 and 8.9.
template <typename Kernel>
static void attention_take_shared(const struct cuda_device *cuda, Kernel kernel, int bytes, int head_size) {
    int most = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->index));
    if (bytes > most)
        die("attention: heads %d wide need %d bytes of shared memory in a block, and GPU %d has %d; give narrower "
            "heads (--kv-channels or more --num-attention-heads), or use a data-center GPU (A100, H100) or --device "
            "cpu",
            head_size, bytes, cuda->index, most);
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

static inline struct attention_view attention_view(struct tensor t) {
    return {t.data, t.stride[0], t.stride[1], t.stride[2]};
}

static inline struct attention_args attention_inputs(struct tensor q, struct tensor k, struct tensor v) {
    struct attention_args args = {};
    args.q = attention_view(q);
    args.k = attention_view(k);
    args.v = attention_view(v);
    args.batches = q.shape[0];
    args.queries = q.shape[1];
    args.keys = k.shape[1];
    args.heads = (int)q.shape[2];
    args.key_heads = (int)k.shape[2];
    args.head_size = (int)q.shape[3];
    args.value_size = (int)v.shape[3];
    args.widest = max(args.head_size, args.value_size);
    args.dtype = q.dtype;
    if (args.widest > MOST_HEAD_SIZE)
        die("attention: head size %d is beyond the %d of the CUDA backend", args.widest, (int)MOST_HEAD_SIZE);
    return args;
}

static inline void attention_set_mask(struct attention_args *args, const struct attention_mask *mask,
                                      const struct dropout *dropout) {
    args->window = mask->window;
    args->key_counts = (const int32_t *)mask->key_counts.data;
    args->first_keys = (const int32_t *)mask->first_keys.data;
    args->bias = (const float *)mask->relative_bias.data;
    args->first_head = dropout->first_head;
    args->dropout = cuda_dropout(dropout);
}

static inline struct attention_args attention_forward_args(const struct op_attention_forward *op) {
    struct attention_args args = attention_inputs(op->q, op->k, op->v);
    attention_set_mask(&args, &op->mask, &op->dropout);
    args.out = attention_view(op->out);
    args.lse = (float *)op->lse.data;
    args.scale = op->scale;
    args.cap = op->scores.cap;
    args.sinks = op->scores.sinks.data;
    args.is_causal = op->is_causal;
    return args;
}

static inline struct attention_args attention_backward_args(const struct op_attention_backward *op) {
    struct attention_args args = attention_inputs(op->q, op->k, op->v);
    attention_set_mask(&args, &op->mask, &op->dropout);
    args.out = attention_view(op->out);
    args.dout = attention_view(op->dout);
    args.dq = attention_view(op->dq);
    args.dk = attention_view(op->dk);
    args.dv = attention_view(op->dv);
    args.lse = (float *)op->lse.data;
    args.delta = (float *)op->scratch.data;
    args.dbias = (float *)op->drelative_bias.data;
    args.scale = op->scale;
    args.cap = op->scores.cap;
    args.sinks = op->scores.sinks.data;
    args.dsinks = (float *)op->dsinks.data;
    args.is_causal = op->is_causal;
    return args;
}

template <typename T>
static __device__ __forceinline__ T *view_head(struct attention_view view, int64_t batch, int64_t head) {
    return (T *)view.data + batch * view.batch + head * view.head;
}

template <int R, int NC> struct tile {
    static const int ROWS = 16 * R;
    static const int COLUMNS = 16 * NC;
    static const int STRIDE = 16 * NC + 1;
    static const int FLOATS = ROWS * STRIDE;
    // A (query, key) tile: rows are half a bank cycle apart, so that the two rows of threads of a warp do not conflict.
    static const int PAIR_STRIDE = ROWS + 16;
    static const int PAIR_FLOATS = ROWS * PAIR_STRIDE;
};

// The row that place s of a tile beginning at `first` holds.
template <int R> static __device__ __forceinline__ int64_t place_row(int64_t first, int s) {
    return first + R * (s & 15) + (s >> 4);
}

// A head for the kernels that compute in fp32. Its dtype is a run-time value, since it matters only where tiles are
// loaded and stored.
struct any_head {
    char *data;
    int64_t stride;  // between rows, in elements
    enum dtype dtype;
};

static __device__ __forceinline__ struct any_head
any_head(const struct attention_args &args, const struct attention_view &view, int64_t batch, int64_t head) {
    int64_t bytes = args.dtype == DTYPE_F32 ? 4 : 2;
    return {(char *)view.data + bytes * (batch * view.batch + head * view.head), view.time, args.dtype};
}

// Loads a tile; a warp per row. Rows beyond `rows` and columns beyond the head size become 0.
template <typename T, int R, int NC>
static __device__ __forceinline__ void load_tile_of(float *to, const T *from, int64_t stride, int64_t first,
                                                    int64_t rows, int head_size) {
    using shape = tile<R, NC>;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int s = warp; s < shape::ROWS; s += ATTENTION_THREADS / 32) {
        int64_t row = place_row<R>(first, s);
        for (int d = lane; d < shape::COLUMNS; d += 32)
            to[s * shape::STRIDE + d] = row < rows && d < head_size ? to_float(from[row * stride + d]) : 0.0f;
    }
}

template <int R, int NC>
static __device__ __noinline__ void load_tile(float *to, struct any_head from, int64_t first, int64_t rows,
                                              int head_size) {
    if (from.dtype == DTYPE_F32)
        load_tile_of<float, R, NC>(to, (const float *)from.data, from.stride, first, rows, head_size);
    else if (from.dtype == DTYPE_BF16)
        load_tile_of<__nv_bfloat16, R, NC>(to, (const __nv_bfloat16 *)from.data, from.stride, first, rows, head_size);
    else
        load_tile_of<__half, R, NC>(to, (const __half *)from.data, from.stride, first, rows, head_size);
}

// out[r][c] = row ty + 16 r of `a` times row tx + 16 c of `b`.
template <int R, int NC>
static __device__ __forceinline__ void row_products(float out[R][R], const float *a, const float *b) {
    using shape = tile<R, NC>;
    const float *mine = a + (threadIdx.x >> 4) * shape::STRIDE, *theirs = b + (threadIdx.x & 15) * shape::STRIDE;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < R; c++)
            out[r][c] = 0;
#pragma unroll 4
    for (int d = 0; d < shape::COLUMNS; d++) {
        float x[R], y[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            x[r] = mine[16 * r * shape::STRIDE + d];
            y[r] = theirs[16 * r * shape::STRIDE + d];
        }
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < R; c++)
                out[r][c] += x[r] * y[c];
    }
}

// sum[r][c] += over places j of the other side: pair(ty + 16 r, j) * rows(j, tx + 16 c), where pair is read along its
// rows (queries own the sum) or, with BY_KEY, along its columns (keys own it).
template <int R, int NC, bool BY_KEY>
static __device__ __forceinline__ void accumulate(float sum[R][NC], const float *pair, const float *rows) {
    using shape = tile<R, NC>;
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
#pragma unroll 2
    for (int j = 0; j < shape::ROWS; j++) {
        float weight[R];
#pragma unroll
        for (int r = 0; r < R; r++)
            weight[r] =
                BY_KEY ? pair[j * shape::PAIR_STRIDE + ty + 16 * r] : pair[(ty + 16 * r) * shape::PAIR_STRIDE + j];
#pragma unroll
        for (int c = 0; c < NC; c++) {
            float value = rows[j * shape::STRIDE + tx + 16 * c];
#pragma unroll
            for (int r = 0; r < R; r++)
                sum[r][c] += weight[r] * value;
        }
    }
}

// Writes the thread's scores to a (query, key) tile.
template <int R, int NC> static __device__ __forceinline__ void store_pair(float *pair, const float value[R][R]) {
    using shape = tile<R, NC>;
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < R; c++)
            pair[(ty + 16 * r) * shape::PAIR_STRIDE + tx + 16 * c] = value[r][c];
}

static __device__ __forceinline__ void store_any(const struct any_head &to, int64_t at, float x) {
    if (to.dtype == DTYPE_F32)
        store((float *)to.data + at, x);
    else if (to.dtype == DTYPE_BF16)
        store((__nv_bfloat16 *)to.data + at, x);
    else
        store((__half *)to.data + at, x);
}

// Writes factor[r] * sum[r][c] to the rows R * ty + r of the output tile at `first` that exist.
template <int R, int NC>
static __device__ __forceinline__ void store_tile(const struct any_head &to, int64_t first, int64_t rows, int head_size,
                                                  const float sum[R][NC], const float factor[R]) {
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
#pragma unroll
    for (int r = 0; r < R; r++) {
        int64_t row = first + R * ty + r;
        if (row >= rows)
            continue;
#pragma unroll
        for (int c = 0; c < NC; c++)
            if (tx + 16 * c < head_size)
                store_any(to, row * to.stride + tx + 16 * c, sum[r][c] * factor[r]);
    }
}

// The keys [first, end) that a query sees; a query that does not exist sees none.
struct key_range {
    int first, end;
};

static __device__ __forceinline__ struct key_range keys_of(const struct attention_args &args, int64_t batch,
                                                           int64_t query) {
    int64_t first = 0, end = args.keys;
    if (query >= args.queries)
        return {0, 0};
    if (args.is_causal) {
        end = max((int64_t)0, query + args.keys - args.queries + 1);
        if (args.window > 0)
            first = max((int64_t)0, end - args.window);
    }
    if (args.key_counts)
        end = min(end, (int64_t)args.key_counts[batch]);
    if (args.first_keys)
        first = max(first, (int64_t)args.first_keys[batch * args.queries + query]);
    return {(int)first, (int)max(end, first)};
}

static __device__ __forceinline__ bool sees(struct key_range range, int64_t key) {
    return key >= range.first && key < range.end;
}

// The score of a head's sink, which belongs to all queries.
template <typename T> static __device__ __forceinline__ float sink_of(const struct attention_args &args, int head) {
    return args.sinks ? to_float(((const T *)args.sinks)[head]) : -INFINITY;
}

// Each head draws its own dropout.
static __device__ __forceinline__ uint32_t head_site(const struct attention_args &args, int head) {
    return args.dropout.site + ((uint32_t)(args.first_head + head) << 16);
}

// Dropout factors of a thread's scores in the tile at (first_query, first_key): queries R ty + r and keys R tx + c; 1
// if the dropout is off. Threads tx and tx ^ 1 hold parts of the same eight keys, so each draws for half of the
// queries, and they exchange bits. All threads of a warp must call it.
template <int R>
static __device__ __forceinline__ void score_factors(float factor[R][R], const struct attention_args &args,
                                                     int64_t batch, int head, int64_t first_query, int64_t first_key) {
    static_assert(R == 2 || R == 4, "the keys of a thread come out of one Philox call");
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    uint32_t kept[2] = {0, 0}, mine = 0;  // bits of the queries r < R / 2, and of the others
    if (args.dropout.is_on) {
#pragma unroll
        for (int n = 0; n < R / 2; n++) {
            int64_t query = first_query + R * ty + R / 2 * (tx & 1) + n;
            int64_t row_id = query < args.queries ? args.dropout.row_ids[batch * args.queries + query] : 0;
            mine |= dropout_kept(args.dropout, head_site(args, head), row_id, first_key + R * tx, n);
        }
        uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, 1);
        kept[0] = tx & 1 ? other : mine;
        kept[1] = tx & 1 ? mine : other;
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < R; c++) {
            bool is_kept = kept[2 * r / R] >> (kept_bit(R * tx % 8 + c) + 2 * (r % (R / 2))) & 1;
            factor[r][c] = !args.dropout.is_on ? 1.0f : is_kept ? args.dropout.scale : 0.0f;
        }
}

// Runs LAUNCH_SHAPE(R, NC) for a head size: larger heads take smaller tiles, so that backward's four tiles fit the 163
// KB of shared memory of an A100.
#define WITH_ATTENTION_SHAPE(head_size, LAUNCH_SHAPE)                                                                  \
    do {                                                                                                               \
        if ((head_size) <= 64)                                                                                         \
            LAUNCH_SHAPE(4, 4);                                                                                        \
        else if ((head_size) <= 128)                                                                                   \
            LAUNCH_SHAPE(4, 8);                                                                                        \
        else                                                                                                           \
            LAUNCH_SHAPE(2, 16);                                                                                       \
    } while (0)

#endif
