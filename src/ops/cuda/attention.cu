// The attention of the CUDA backend: the first implementation that takes the operation, from the fastest to the most
// general. cuDNN; kernels for Hopper GPUs (hopper/attention_hopper*); tensor cores (attention_tensor*); fp32
// arithmetic in tiles, without a mask (below, and attention_backward.cu); and a warp for each query, with
// any mask (attention_masked.cu). Caps of scores are for tensor cores and the last, sinks for those of Hopper GPUs too.
#include "ops/cuda/attention.cuh"

#ifndef BEVATRON_HOPPER
bool hopper_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op) {
    (void)cuda;
    (void)op;
    return false;
}

bool hopper_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op) {
    (void)cuda;
    (void)op;
    return false;
}
#endif

extern "C" void cuda_attention_forward(struct device *device, const struct op_attention_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    bool is_plain = attention_has_plain_scores(&op->scores);
    if (tensor_count(op->q) == 0 || (is_plain && cudnn_attention_forward(cuda->cudnn, op)) ||
        hopper_attention_forward(cuda, op) || tensor_attention_forward(cuda, op))
        return;
    if (!is_plain || attention_has_mask(&op->mask))
        masked_attention_forward(cuda, op);
    else
        tiled_attention_forward(cuda, op);
}

// Reasons why attention does not use the fast kernels, each logged once per device.
enum attention_note { NOTE_DROPOUT, NOTE_BIAS, NOTE_MASK, NOTE_LENGTH, NOTE_OTHER, NOTE_PLAIN, NOTE_SCORES };

static void note_once(struct cuda_device *cuda, enum attention_note note, const char *text) {
    if (cuda->attention_notes >> note & 1)
        return;
    cuda->attention_notes |= 1u << note;
    log_info("attention: %s", text);
}

// Logs why cuDNN does not compute a 16-bit backward pass. A shape that cuDNN refuses is reported at that point.
static void note_not_cudnn(struct cuda_device *cuda, const struct op_attention_backward *op) {
    enum { LENGTH_MULTIPLE = 128 };
    if (op->q.dtype == DTYPE_F32 || !cuda->cudnn)
        return;
    if (op->dropout.rate > 0 && !cuda->draws_fast)
        note_once(cuda, NOTE_DROPOUT,
                  cudnn_attention_takes_masks(cuda->cudnn)
                      ? "dropout that is the same on every layout of ranks runs on kernels of our own; "
                        "--fast-attention-dropout, or --attention-dropout 0, would be faster"
                      : "dropout runs on kernels of our own; --attention-dropout 0 would be faster");
    else if (!attention_has_plain_scores(&op->scores))
        note_once(cuda, NOTE_SCORES, "soft caps of scores and sinks run on kernels of our own");
    else if (op->mask.relative_bias.data)
        note_once(cuda, NOTE_BIAS, "biases by distance run on kernels of our own");
    else if (attention_has_mask(&op->mask))
        note_once(cuda, NOTE_MASK, "padding, documents and windows run on kernels of our own here");
    else if (op->q.shape[1] % LENGTH_MULTIPLE != 0 || op->k.shape[1] % LENGTH_MULTIPLE != 0)
        note_once(cuda, NOTE_LENGTH, "lengths that are not a multiple of 128 run on slower kernels of our own");
    else
        note_once(cuda, NOTE_OTHER, "what cuDNN has no plan for runs on slower kernels of our own");
}

extern "C" void cuda_attention_backward(struct device *device, const struct op_attention_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->q) == 0)
        return;
    bool is_plain = attention_has_plain_scores(&op->scores);
    if (is_plain && cudnn_attention_backward(cuda->cudnn, op, cuda->is_deterministic))
        return;
    note_not_cudnn(cuda, op);
    if (hopper_attention_backward(cuda, op) || tensor_attention_backward(cuda, op))
        return;
    if (op->q.dtype != DTYPE_F32)
        note_once(cuda, NOTE_PLAIN,
                  "runs without tensor cores, many times slower: they take heads in multiples of 8, on data-center "
                  "GPUs up to 256 wide, on others up to 128");
    if (!is_plain || attention_has_mask(&op->mask))
        masked_attention_backward(cuda, op);
    else
        tiled_attention_backward(cuda, op);
}

// ---- forward ----

// Attention forward in tiles with online softmax (Dao et al., 2022): a block keeps a tile of queries, walks over tiles
// of keys and values, and rescales its sums whenever a row's largest score grows. No score is stored. A query that sees
// no key gets 0 and a log-sum-exp of -infinity.

static __device__ __forceinline__ float half_warp_max(float value) {
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
    return value;
}

static __device__ __forceinline__ float half_warp_sum(float value) {
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    return value;
}

// A thread's state of its R query rows; the 16 threads of a row hold the same largest and sum.
template <int R, int NC> struct forward_state { float largest[R], sum[R], out[R][NC]; };

// Turns the scores of one tile into weights (dropped ones 0), and rescales the state to the new largest scores.
template <int R, int NC>
static __device__ __forceinline__ void softmax_step(forward_state<R, NC> &state, float score[R][R],
                                                    const struct attention_args &args, int64_t first_query,
                                                    int64_t first_key) {
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    int64_t key = first_key + R * tx;
    float factor[R][R];
    score_factors<R>(factor, args, blockIdx.z, blockIdx.y, first_query, first_key);
#pragma unroll
    for (int r = 0; r < R; r++) {
        int64_t query = first_query + R * ty + r;
        struct key_range seen = keys_of(args, blockIdx.z, query);
        float largest = state.largest[r];
#pragma unroll
        for (int c = 0; c < R; c++) {
            score[r][c] = sees(seen, key + c) ? score[r][c] * args.scale : -INFINITY;
            largest = fmaxf(largest, score[r][c]);
        }
        largest = half_warp_max(largest);
        // If no key is visible yet, all scores are -infinity: subtract 0 instead, so that every weight is 0.
        float base = largest == -INFINITY ? 0.0f : largest;
        float correction = expf(state.largest[r] - base), sum = 0;
#pragma unroll
        for (int c = 0; c < R; c++) {
            float weight = expf(score[r][c] - base);
            sum += weight;
            score[r][c] = weight * factor[r][c];
        }
        state.sum[r] = state.sum[r] * correction + half_warp_sum(sum);
        state.largest[r] = largest;
#pragma unroll
        for (int c = 0; c < NC; c++)
            state.out[r][c] *= correction;
    }
}

// Grid (query tile, head, batch). Late queries see most keys under a causal mask, so their tiles start first.
template <int R, int NC>
static __global__ void __launch_bounds__(ATTENTION_THREADS) attention_forward_kernel(struct attention_args args) {
    using shape = tile<R, NC>;
    extern __shared__ float shared[];
    float *queries = shared, *others = queries + shape::FLOATS, *weights = others + shape::FLOATS;
    int64_t batch = blockIdx.z, first_query = (int64_t)(gridDim.x - 1 - blockIdx.x) * shape::ROWS;
    int head = blockIdx.y, key_head = head / (args.heads / args.key_heads);
    struct any_head q = any_head(args, args.q, batch, head);
    struct any_head k = any_head(args, args.k, batch, key_head), v = any_head(args, args.v, batch, key_head);
    int64_t end = args.keys;  // of the keys that the last query of the tile sees
    if (args.is_causal)
        end = min(end, min(first_query + shape::ROWS, args.queries) + args.keys - args.queries);
    forward_state<R, NC> state;
#pragma unroll
    for (int r = 0; r < R; r++) {
        state.largest[r] = -INFINITY;
        state.sum[r] = 0;
#pragma unroll
        for (int c = 0; c < NC; c++)
            state.out[r][c] = 0;
    }
    load_tile<R, NC>(queries, q, first_query, args.queries, args.head_size);
    for (int64_t first_key = 0; first_key < end; first_key += shape::ROWS) {
        float score[R][R];
        __syncthreads();  // the values of the last tile have been read
        load_tile<R, NC>(others, k, first_key, args.keys, args.head_size);
        __syncthreads();
        row_products<R, NC>(score, queries, others);
        softmax_step<R, NC>(state, score, args, first_query, first_key);
        store_pair<R, NC>(weights, score);
        __syncthreads();  // the keys have been read
        load_tile<R, NC>(others, v, first_key, args.keys, args.value_size);
        __syncthreads();
        accumulate<R, NC, false>(state.out, weights, others);
    }
    float factor[R];
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
#pragma unroll
    for (int r = 0; r < R; r++) {
        int64_t query = first_query + R * ty + r;
        factor[r] = state.sum[r] > 0 ? 1.0f / state.sum[r] : 0.0f;
        if (args.lse && tx == 0 && query < args.queries)
            args.lse[(batch * args.heads + head) * args.queries + query] = state.largest[r] + logf(state.sum[r]);
    }
    store_tile<R, NC>(any_head(args, args.out, batch, head), first_query, args.queries, args.value_size, state.out,
                      factor);
}

template <int R, int NC> static void forward_launch(struct cuda_device *cuda, const struct attention_args *args) {
    using shape = tile<R, NC>;
    int bytes = (2 * shape::FLOATS + shape::PAIR_FLOATS) * (int)sizeof(float);
    attention_take_shared(cuda, attention_forward_kernel<R, NC>, bytes, args->widest);
    dim3 grid(grid_x(divide_up(args->queries, shape::ROWS)), grid_yz(args->heads), grid_yz(args->batches));
    LAUNCH(cuda, (attention_forward_kernel<R, NC>), grid, ATTENTION_THREADS, (size_t)bytes, *args);
}

void tiled_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op) {
    struct attention_args args = attention_forward_args(op);
#define FORWARD(R, NC) forward_launch<R, NC>(cuda, &args)
    WITH_ATTENTION_SHAPE(args.widest, FORWARD);
#undef FORWARD
}
