// Attention forward on GPUs of compute capability 9.0, for heads of 64 and 128: all masks, sinks, and dropout with our
// own masks. See attention_tensor.cuh for the layout of scores and hopper.cuh for the instructions.
//
// A block has 128 queries and walks over tiles of keys. The warps that copy keys also draw dropout, ahead of the warps
// that compute. See attention_walk.cuh.
#include "ops/cuda/hopper/attention_walk.cuh"

enum { KEYS = 128 };  // of a tile

template <int D_> struct forward_shape {
    static const int D = D_, KEYS = ::KEYS, STAGES = D == 64 ? 4 : 2, FIXED = 2, FIXED_COUNT = 1;
    static const int FIXED_BYTES = BLOCK_ROWS * D * 2, PASSING_BYTES = 2 * KEYS * D * 2;
    static const int BYTES = FIXED * FIXED_BYTES + STAGES * PASSING_BYTES + ALIGNMENT;
};

// ---- Softmax ----

// A thread's state of its two rows; `largest` is of unscaled scores.
struct hopper_rows {
    struct key_range range[2];
    float largest[2], sum[2];
};

// Turns scores into weights and updates the rows' largest scores; earlier sums must be multiplied by correction.
static __device__ __forceinline__ void weigh_scores(float (&score)[KEYS / 2], struct hopper_rows &rows,
                                                    float correction[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = rows.largest[half], sum = 0;
#pragma unroll
        for (int n = 2 * half; n < KEYS / 2; n += 4)
            largest = fmaxf(largest, fmaxf(score[n], score[n + 1]));
        largest = quad_max(largest);
        // If no key is visible yet, all scores are -infinity: subtract 0 instead, so that every weight is 0.
        float base = largest == -INFINITY ? 0.0f : largest * scale;
        correction[half] = power_of_two(rows.largest[half] * scale - base);
        rows.largest[half] = largest;
#pragma unroll
        for (int n = 2 * half; n < KEYS / 2; n += 4) {
            score[n] = power_of_two(score[n] * scale - base);
            score[n + 1] = power_of_two(score[n + 1] * scale - base);
            sum += score[n] + score[n + 1];
        }
        rows.sum[half] = rows.sum[half] * correction[half] + sum;
    }
}

// Packs the weights in 16 bits as first operands; dropped ones are 0. Dropout's scale is applied to the result, not
// here.
template <typename T, bool HAS_DROPOUT>
static __device__ __forceinline__ void pack_weights(uint32_t (&weight)[KEYS / 4], const float (&score)[KEYS / 2],
                                                    const uint32_t (&kept)[KEYS / WORD_KEYS][2]) {
#pragma unroll
    for (int n = 0; n < KEYS / 2; n += 2)
        weight[n / 2] = pack2(score[n], score[n + 1], T()) & (HAS_DROPOUT ? drawn_pair(kept, n) : ~0u);
}

// ---- A group of four warps ----

// Input of a group.
template <int D> struct forward_part {
    const uint8_t *queries;
    const drawn_words<forward_shape<D>> *drawn;
    struct key_range all;  // tiles of keys, first to last
};

template <typename T, int D, bool HAS_DROPOUT>
static __device__ __forceinline__ void
walk_keys(float (&out)[D / 2], struct hopper_rows &rows, walk_memory<forward_shape<D>> &memory,
          stage_turn<forward_shape<D>::STAGES> &turn, const struct forward_part<D> &part, float scale) {
    using shape = forward_shape<D>;
    float score[KEYS / 2], correction[2];
    uint32_t kept[KEYS / WORD_KEYS][2], weight[KEYS / 4];
    barrier_wait(&memory.full[turn.stage], turn.parity);
    start_scores<T, D, KEYS>(score, part.queries, memory.passing + turn.stage * shape::PASSING_BYTES);
    matmul_wait<0>();
    for (int first_key = part.all.first; first_key < part.all.end; first_key += KEYS) {
        settle(score);
        bool is_whole = first_key >= max(rows.range[0].first, rows.range[1].first) &&
                        first_key + KEYS <= min(rows.range[0].end, rows.range[1].end);
        if (!__all_sync(0xFFFFFFFFu, is_whole))
            hide_scores<KEYS>(score, rows.range, first_key);
        if (HAS_DROPOUT)
            read_drawn(kept, part.drawn->word[turn.stage]);
        weigh_scores(score, rows, correction, scale);
        pack_weights<T, HAS_DROPOUT>(weight, score, kept);
#pragma unroll
        for (int n = 0; n < D / 2; n++)
            out[n] *= correction[n / 2 & 1];
        uint64_t *empty = &memory.empty[turn.stage];
        start_values<T, D, KEYS>(out, weight, memory.passing + turn.stage * shape::PASSING_BYTES + KEYS * D * 2);
        turn.next();
        if (first_key + KEYS < part.all.end) {
            barrier_wait(&memory.full[turn.stage], turn.parity);
            start_scores<T, D, KEYS>(score, part.queries, memory.passing + turn.stage * shape::PASSING_BYTES);
        }
        matmul_wait<0>();
        settle(out);
        release(empty);
    }
}

// Writes the results and the statistics of the thread's two rows, the upper of which is `query`.
template <typename T, int D>
static __device__ __forceinline__ void finish_rows(const float (&out)[D / 2], const struct hopper_rows &rows,
                                                   const struct attention_args &args, int64_t query,
                                                   const int place[2]) {
    T *to = view_head<T>(args.out, place[1], place[0]);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t at = query + 8 * half;
        float sum = quad_sum(rows.sum[half]), factor = sum > 0 ? 1.0f / sum : 0.0f;
        if (args.dropout.is_on)
            factor *= args.dropout.scale;
        if (at >= args.queries)
            continue;
        if (args.lse && (threadIdx.x & 3) == 0)
            args.lse[((int64_t)place[1] * args.heads + place[0]) * args.queries + at] =
                (rows.largest[half] * args.scale * LOG2_E + log2f(sum)) * LN_2;
#pragma unroll
        for (int j = 0; j < D / 8; j++)
            *(uint32_t *)(to + at * args.out.time + 8 * j + 2 * (threadIdx.x & 3)) =
                pack2(out[4 * j + 2 * half] * factor, out[4 * j + 2 * half + 1] * factor, T());
    }
}

template <typename T, int D, bool HAS_DROPOUT>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    hopper_forward_kernel(struct attention_args args, const __grid_constant__ CUtensorMap q_map,
                          const __grid_constant__ CUtensorMap k_map, const __grid_constant__ CUtensorMap v_map) {
    using shape = forward_shape<D>;
    enum { COPY_REGISTERS = HAS_DROPOUT ? 104 : 40 };
    extern __shared__ uint8_t unaligned[];
    __shared__ walk_memory<shape> memory;
    __shared__ drawn_words<shape> drawn;
    int warp = threadIdx.x / 32;
    open_memory(memory, unaligned, HAS_DROPOUT ? 1 + BLOCK_ROWS : 1);
    if (warp >= ATTENTION_WARPS) {
        const CUtensorMap *const maps[3] = {&q_map, &k_map, &v_map};
        give_registers<COPY_REGISTERS>();
        if (HAS_DROPOUT || warp == ATTENTION_WARPS)
            copy_keys<HAS_DROPOUT>(memory, args, maps, &drawn, {});
        return;
    }
    take_registers<(504 - COPY_REGISTERS) / 2>();
    stage_turn<shape::FIXED> fixed = {0, 0};
    stage_turn<shape::STAGES> turn = {0, 0};
    struct tile_walk walk(args.queries, args.heads, args.batches);
    while (walk.next()) {
        int64_t query = (int64_t)walk.tile * BLOCK_ROWS + warp * 16 + (threadIdx.x & 31) / 4;
        const int place[2] = {walk.head, walk.sample};
        struct hopper_rows rows = {};
        for (int half = 0; half < 2; half++) {
            rows.largest[half] = sink_of<T>(args, walk.head) / args.scale;
            rows.sum[half] = args.sinks && threadIdx.x % 4 == 0 ? 1.0f : 0.0f;
            rows.range[half] = keys_of(args, walk.sample, query + 8 * half);
        }
        const uint8_t *queries = memory.fixed + fixed.stage * shape::FIXED_BYTES + warp / 4 * GROUP_ROWS * LINE_BYTES;
        struct forward_part<D> part = {
            queries, &drawn, keys_of_tile<KEYS>(args, walk)
        };
        float out[D / 2];
        clear_sums(out);
        if (part.all.first < part.all.end) {
            barrier_wait(&memory.fixed_full[fixed.stage], fixed.parity);
            walk_keys<T, D, HAS_DROPOUT>(out, rows, memory, turn, part, args.scale * LOG2_E);
            release(&memory.fixed_empty[fixed.stage]);
            fixed.next();
        }
        finish_rows<T, D>(out, rows, args, query, place);
    }
}

// ---- Launch ----

template <typename T, int D, bool HAS_DROPOUT>
static void launch_forward(struct cuda_device *cuda, const struct op_attention_forward *op,
                           const struct attention_args *args) {
    auto kernel = hopper_forward_kernel<T, D, HAS_DROPOUT>;
    int bytes = forward_shape<D>::BYTES;
    attention_take_shared(cuda, kernel, bytes, D);
    LAUNCH(cuda, kernel, block_count(cuda, args->queries, args->heads, args->batches), HOPPER_THREADS, (size_t)bytes,
           *args, map_heads(op->q, BLOCK_ROWS), map_heads(op->k, KEYS), map_heads(op->v, KEYS));
}

template <typename T, int D>
static void launch_either(struct cuda_device *cuda, const struct op_attention_forward *op,
                          const struct attention_args *args) {
    if (args->dropout.is_on)
        launch_forward<T, D, true>(cuda, op, args);
    else
        launch_forward<T, D, false>(cuda, op, args);
}

bool hopper_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op) {
    int64_t D = op->q.shape[3];
    bool is_taken = tensor_takes(op->q) && tensor_takes(op->k) && tensor_takes(op->v) && tensor_takes(op->out);
    if (!is_taken || (D != 64 && D != 128) || op->v.shape[3] != D || op->mask.relative_bias.data ||
        op->scores.cap > 0 || op->scale <= 0 || !is_hopper(cuda->index) || !map_encoder())
        return false;
    struct attention_args args = attention_forward_args(op);
#define FORWARD(T, D) launch_either<T, D>(cuda, op, &args)
    WITH_HOPPER_SHAPE(op, FORWARD);
#undef FORWARD
    return true;
}
