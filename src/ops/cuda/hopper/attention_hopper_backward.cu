// Attention backward on GPUs of compute capability 9.0: two kernels, so that every gradient is summed by one group of
// warps in one order and no atomics are needed. This one has 128 queries in a block and walks over keys (dq); the other
// has 128 keys and walks over queries (dk, dv). Each recomputes the scores. The warps of this one that copy keys draw
// dropout, ahead of the warps that compute, and store it as bits for the other kernel if there is memory. See
// attention_walk.cuh, and attention_backward.cu for the formulas.
#include "ops/cuda/hopper/attention_walk.cuh"

template <int D_> struct query_shape {
    static const int D = D_, KEYS = 64, STAGES = D == 64 ? 6 : 4, FIXED = D == 64 ? 2 : 1, FIXED_COUNT = 2;
    static const int FIXED_BYTES = 2 * BLOCK_ROWS * D * 2, PASSING_BYTES = 2 * KEYS * D * 2;
    static const int BYTES = FIXED * FIXED_BYTES + STAGES * PASSING_BYTES + ALIGNMENT;
};

// A thread's state of its two rows and of their tile.
struct gradient_rows {
    struct key_range range[2], all;  // `all`: of the tile
    float lse[2], delta[2];
};

template <int KEYS>
static __device__ __forceinline__ struct gradient_rows read_rows(const struct attention_args &args,
                                                                 const struct tile_walk &walk) {
    struct gradient_rows rows;
    int64_t query = (int64_t)walk.tile * BLOCK_ROWS + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    int64_t place = (int64_t)walk.sample * args.heads + walk.head;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t at = query + 8 * half;
        rows.range[half] = keys_of(args, walk.sample, at);
        bool sees = rows.range[half].first < rows.range[half].end;
        rows.lse[half] = sees ? args.lse[place * args.queries + at] * LOG2_E : 0.0f;
        rows.delta[half] = sees ? args.delta[place * args.queries + at] : 0.0f;
    }
    rows.all = keys_of_tile<KEYS>(args, walk);
    return rows;
}

// Computes gradients of scores, in 16 bits, from scores and gradients of weights.
template <typename T, int KEYS, bool HAS_DROPOUT>
static __device__ __forceinline__ void
score_gradients(uint32_t (&gradient)[KEYS / 4], const float (&score)[KEYS / 2], const float (&dweight)[KEYS / 2],
                const struct gradient_rows &rows, const uint32_t (&kept)[KEYS / WORD_KEYS][2],
                const struct attention_args &args) {
    float scale = args.scale * LOG2_E;
#pragma unroll
    for (int n = 0; n < KEYS / 2; n += 2) {
        float pair[2];
        int half = n / 2 & 1;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float p = power_of_two(score[n + i] * scale - rows.lse[half]), d = dweight[n + i];
            if (HAS_DROPOUT)
                d = (is_drawn(kept, n + i) ? d : 0.0f) * args.dropout.scale;
            pair[i] = p * (d - rows.delta[half]);
        }
        gradient[n / 2] = pack2(pair[0], pair[1], T());
    }
}

// A group of warps of the kernel of queries.
template <typename T_, int D, bool HAS_DROPOUT> struct query_group {
    typedef query_shape<D> shape;
    static const int KEYS = shape::KEYS;
    walk_memory<shape> &memory;
    const struct attention_args &args;
    const drawn_words<shape> &drawn;
    stage_turn<shape::STAGES> turn;
    float score[KEYS / 2], dweight[KEYS / 2];
    uint32_t kept[KEYS / WORD_KEYS][2];

    // Starts the matmuls of a tile of keys with the group's queries.
    __device__ __forceinline__ void start(const uint8_t *queries) {
        const uint8_t *keys = memory.passing + turn.stage * shape::PASSING_BYTES;
        barrier_wait(&memory.full[turn.stage], turn.parity);
        start_scores<T_, D, KEYS>(score, queries, keys);
        start_scores<T_, D, KEYS>(dweight, queries + BLOCK_ROWS * D * 2, keys + KEYS * D * 2);
        if (HAS_DROPOUT)
            read_drawn(kept, drawn.word[turn.stage]);
    }

    __device__ __forceinline__ void walk_keys(float (&dq)[D / 2], const uint8_t *queries,
                                              const struct gradient_rows &rows) {
        start(queries);
        matmul_wait<0>();
        for (int first_key = rows.all.first; first_key < rows.all.end; first_key += KEYS) {
            uint32_t gradient[KEYS / 4];
            settle(score);
            settle(dweight);
            bool is_whole = first_key >= max(rows.range[0].first, rows.range[1].first) &&
                            first_key + KEYS <= min(rows.range[0].end, rows.range[1].end);
            if (!__all_sync(0xFFFFFFFFu, is_whole))
                hide_scores<KEYS>(score, rows.range, first_key);
            score_gradients<T_, KEYS, HAS_DROPOUT>(gradient, score, dweight, rows, kept, args);
            uint64_t *empty = &memory.empty[turn.stage];
            start_values<T_, D, KEYS>(dq, gradient, memory.passing + turn.stage * shape::PASSING_BYTES);
            turn.next();
            if (first_key + KEYS < rows.all.end)
                start(queries);
            matmul_wait<0>();
            release(empty);
        }
        settle(dq);
    }
};

template <typename T, int D, bool HAS_DROPOUT>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    hopper_query_kernel(struct attention_args args, struct kept_words words, const __grid_constant__ CUtensorMap q_map,
                        const __grid_constant__ CUtensorMap dout_map, const __grid_constant__ CUtensorMap k_map,
                        const __grid_constant__ CUtensorMap v_map) {
    using shape = query_shape<D>;
    enum { COPY_REGISTERS = HAS_DROPOUT ? 104 : 40 };
    extern __shared__ uint8_t unaligned[];
    __shared__ walk_memory<shape> memory;
    __shared__ drawn_words<shape> drawn;
    int warp = threadIdx.x / 32;
    open_memory(memory, unaligned, HAS_DROPOUT ? 1 + BLOCK_ROWS : 1);
    if (warp >= ATTENTION_WARPS) {
        const CUtensorMap *const maps[4] = {&q_map, &dout_map, &k_map, &v_map};
        give_registers<COPY_REGISTERS>();
        if (HAS_DROPOUT || warp == ATTENTION_WARPS)
            copy_keys<HAS_DROPOUT>(memory, args, maps, &drawn, words);
        return;
    }
    take_registers<(504 - COPY_REGISTERS) / 2>();
    query_group<T, D, HAS_DROPOUT> group = {memory, args, drawn, {0, 0}};
    stage_turn<shape::FIXED> fixed = {0, 0};
    struct tile_walk walk(args.queries, args.heads, args.batches);
    while (walk.next()) {
        int group_row = warp / 4 * GROUP_ROWS;
        struct gradient_rows rows = read_rows<shape::KEYS>(args, walk);
        float dq[D / 2];
        clear_sums(dq);
        if (rows.all.first < rows.all.end) {
            barrier_wait(&memory.fixed_full[fixed.stage], fixed.parity);
            group.walk_keys(dq, memory.fixed + fixed.stage * shape::FIXED_BYTES + group_row * LINE_BYTES, rows);
            release(&memory.fixed_empty[fixed.stage]);
            fixed.next();
        }
        store_group<T, D>(view_head<T>(args.dq, walk.sample, walk.head), args.dq.time,
                          (int64_t)walk.tile * BLOCK_ROWS + group_row, args.queries, dq, args.scale);
    }
}

template <typename T, int D, bool HAS_DROPOUT>
static void launch_queries(struct cuda_device *cuda, const struct op_attention_backward *op,
                           const struct attention_args *args, const struct kept_words *words) {
    auto kernel = hopper_query_kernel<T, D, HAS_DROPOUT>;
    int bytes = query_shape<D>::BYTES, keys = query_shape<D>::KEYS;
    attention_take_shared(cuda, kernel, bytes, D);
    LAUNCH(cuda, kernel, block_count(cuda, args->queries, args->heads, args->batches), HOPPER_THREADS, (size_t)bytes,
           *args, *words, map_heads(op->q, BLOCK_ROWS), map_heads(op->dout, BLOCK_ROWS), map_heads(op->k, keys),
           map_heads(op->v, keys));
}

template <typename T, int D>
static void launch_either(struct cuda_device *cuda, const struct op_attention_backward *op,
                          const struct attention_args *args, const struct kept_words *words) {
    if (args->dropout.is_on)
        launch_queries<T, D, true>(cuda, op, args, words);
    else
        launch_queries<T, D, false>(cuda, op, args, words);
}

// Bits of dropout are stored in the workspace if they fit.
static struct kept_words place_words(const struct op_attention_backward *op, const struct attention_args *args) {
    struct kept_words words = {};
    words.words = (int)divide_up(args->keys, (int64_t)BLOCK_ROWS) * (BLOCK_ROWS / WORD_KEYS);
    words.queries = (int)divide_up(args->queries, (int64_t)BLOCK_ROWS) * BLOCK_ROWS;
    size_t bytes = 4 * (size_t)(args->batches * args->heads) * (size_t)words.words * (size_t)words.queries;
    if (args->dropout.is_on && op->workspace.data && bytes <= tensor_bytes(op->workspace))
        words.data = (uint32_t *)op->workspace.data;
    return words;
}

bool hopper_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op) {
    const struct tensor tensors[] = {op->q, op->k, op->v, op->out, op->dout, op->dq, op->dk, op->dv};
    int64_t D = op->q.shape[3];
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        if (!tensor_takes(tensors[i]))
            return false;
    if ((D != 64 && D != 128) || op->v.shape[3] != D || op->mask.relative_bias.data || op->scores.cap > 0 ||
        op->scale <= 0 || tensor_count(op->k) == 0 || !is_hopper(cuda->index) || !map_encoder())
        return false;
    struct attention_args args = attention_backward_args(op);
    struct kept_words words = place_words(op, &args);
    tensor_attention_delta(cuda, &args, op->q.dtype);
#define QUERY_GRADIENTS(T, D) launch_either<T, D>(cuda, op, &args, &words)
    WITH_HOPPER_SHAPE(op, QUERY_GRADIENTS);
#undef QUERY_GRADIENTS
    hopper_key_gradients(cuda, op, &args, &words);
    return true;
}
