// Attention forward on GPUs of compute capability 9.0, for heads of 64 and 128: all masks, and dropout with masks of
// ours. See attention_tensor.cuh for the layout of scores and hopper.cuh for the instructions.
//
// A block has 128 queries: two groups of four warps have 64 each, and of a third group one thread copies tiles of keys
// and values, STAGES ahead of them. Scores stay in registers: rounded, they are the first factor of the product with
// the values. While the tensor cores multiply weights by values and the next keys by queries, the warps draw the next
// tile's dropout.
#include "ops/cuda/hopper/attention_hopper.cuh"

enum {
    QUERIES = BLOCK_ROWS,
    KEYS = 128,  // of a tile
};

template <int D> struct hopper_shape {
    static const int STAGES = D == 64 ? 4 : 2;
    static const int QUERY_BYTES = QUERIES * D * 2;
    static const int TILE_BYTES = KEYS * D * 2;  // of keys, and of values
    static const int BOX = KEYS * LINE_BYTES;    // 64 columns of a tile
    static const int BYTES = QUERY_BYTES + 2 * STAGES * TILE_BYTES + ALIGNMENT;
};

template <int STAGES> struct attention_barriers { uint64_t queries, full[STAGES], empty[STAGES]; };

// One thread: copies the block's queries, then tiles of keys and values from `first` on.
template <int D, int STAGES>
static __device__ __forceinline__ void copy_tiles(uint8_t *memory, attention_barriers<STAGES> &barriers,
                                                  const CUtensorMap *const maps[3], int first_query,
                                                  struct key_range range, const int places[2][2]) {
    using shape = hopper_shape<D>;
    barrier_expect(&barriers.queries, shape::QUERY_BYTES);
    for (int column = 0; column < D; column += BOX_COLUMNS)
        copy_head_box(memory + column / BOX_COLUMNS * QUERIES * LINE_BYTES, maps[0], &barriers.queries, column,
                      first_query, places[0]);
    stage_turn<STAGES> turn = {0, 1};
    for (int key = range.first; key < range.end; key += KEYS, turn.next()) {
        uint8_t *keys = memory + shape::QUERY_BYTES + turn.stage * 2 * shape::TILE_BYTES;
        uint64_t *full = &barriers.full[turn.stage];
        barrier_wait(&barriers.empty[turn.stage], turn.parity);
        barrier_expect(full, 2 * shape::TILE_BYTES);
        for (int column = 0; column < D; column += BOX_COLUMNS) {
            uint8_t *box = keys + column / BOX_COLUMNS * shape::BOX;
            copy_head_box(box, maps[1], full, column, key, places[1]);
            copy_head_box(box + shape::TILE_BYTES, maps[2], full, column, key, places[1]);
        }
    }
}

// ---- Softmax ----

// What a thread keeps of its two rows; `largest` is of scores that are not scaled.
struct hopper_rows {
    struct key_range range[2];
    float largest[2], sum[2];
};

// Scores become weights, and the rows move on to their new largest scores; correction is for what was summed before.
static __device__ __forceinline__ void weigh_scores(float (&score)[KEYS / 2], struct hopper_rows &rows,
                                                    float correction[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = rows.largest[half], sum = 0;
#pragma unroll
        for (int n = 2 * half; n < KEYS / 2; n += 4)
            largest = fmaxf(largest, fmaxf(score[n], score[n + 1]));
        largest = quad_max(largest);
        // With no key seen yet all scores are -infinity: subtract 0 instead, and every weight is 0.
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

// The weights in 16 bits as first factors, those that dropout drops being 0. It scales the result, not the weights.
template <typename T, bool HAS_DROPOUT>
static __device__ __forceinline__ void pack_weights(uint32_t (&weight)[KEYS / 4], const float (&score)[KEYS / 2],
                                                    const uint32_t (&kept)[KEYS / DRAWN_KEYS][2][2]) {
#pragma unroll
    for (int n = 0; n < KEYS / 2; n += 2) {
        float pair[2] = {score[n], score[n + 1]};
#pragma unroll
        for (int i = 0; i < 2 && HAS_DROPOUT; i++)
            pair[i] = is_kept(kept[n / 32], n % 32 / 4, (n & 2) + i) ? pair[i] : 0.0f;
        weight[n / 2] = pack2(pair[0], pair[1], T());
    }
}

// ---- A group of four warps ----

// What a group works on.
struct hopper_part {
    const uint8_t *queries, *tiles;  // of the group; of the first stage
    struct key_range all;            // tiles of keys, first to last
    int head;
    int64_t row_id;
};

template <typename T, int D, bool HAS_DROPOUT>
static __device__ __forceinline__ void walk_keys(float (&out)[D / 2], struct hopper_rows &rows,
                                                 const struct attention_args &args, const struct hopper_part &part,
                                                 attention_barriers<hopper_shape<D>::STAGES> &barriers) {
    using shape = hopper_shape<D>;
    float score[KEYS / 2], correction[2], scale = args.scale * LOG2_E;
    uint32_t kept[KEYS / DRAWN_KEYS][2][2], weight[KEYS / 4];
    stage_turn<shape::STAGES> turn = {0, 0};
    barrier_wait(&barriers.queries, 0);
    barrier_wait(&barriers.full[0], 0);
    start_scores<T, D, KEYS>(score, part.queries, part.tiles);
    if (HAS_DROPOUT)
        draw_tile<KEYS>(kept, args, part.head, part.row_id, part.all.first);
    matmul_wait<0>();
    for (int first_key = part.all.first; first_key < part.all.end; first_key += KEYS) {
        bool is_whole = first_key >= max(rows.range[0].first, rows.range[1].first) &&
                        first_key + KEYS <= min(rows.range[0].end, rows.range[1].end);
        if (!__all_sync(0xFFFFFFFFu, is_whole))
            hide_scores<KEYS>(score, rows.range, first_key);
        weigh_scores(score, rows, correction, scale);
        pack_weights<T, HAS_DROPOUT>(weight, score, kept);
#pragma unroll
        for (int n = 0; n < D / 2; n++)
            out[n] *= correction[n / 2 & 1];
        uint64_t *empty = &barriers.empty[turn.stage];
        start_values<T, D, KEYS>(out, weight, part.tiles + turn.stage * 2 * shape::TILE_BYTES + shape::TILE_BYTES);
        turn.next();
        if (first_key + KEYS < part.all.end) {
            barrier_wait(&barriers.full[turn.stage], turn.parity);
            start_scores<T, D, KEYS>(score, part.queries, part.tiles + turn.stage * 2 * shape::TILE_BYTES);
            if (HAS_DROPOUT)
                draw_tile<KEYS>(kept, args, part.head, part.row_id, first_key + KEYS);
        }
        matmul_wait<0>();
        if (threadIdx.x % 32 == 0)
            barrier_arrive(empty);
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

// Grid (query tile, head, sample). Late queries see most keys under a causal mask, so their tiles start first.
template <typename T, int D, bool HAS_DROPOUT>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    hopper_forward_kernel(struct attention_args args, const __grid_constant__ CUtensorMap q_map,
                          const __grid_constant__ CUtensorMap k_map, const __grid_constant__ CUtensorMap v_map) {
    using shape = hopper_shape<D>;
    extern __shared__ uint8_t unaligned[];
    __shared__ attention_barriers<shape::STAGES> barriers;
    __shared__ int bounds[2];
    uint8_t *memory = (uint8_t *)(((uintptr_t)unaligned + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    int warp = threadIdx.x / 32, head = blockIdx.y, sample = blockIdx.z;
    int first_query = (int)(gridDim.x - 1 - blockIdx.x) * QUERIES;
    int64_t query = first_query + warp * 16 + (threadIdx.x & 31) / 4;
    const int places[2][2] = {{head, sample}, {head / (args.heads / args.key_heads), sample}};
    struct hopper_rows rows = {};
    for (int half = 0; half < 2; half++) {
        rows.largest[half] = -INFINITY;
        if (warp < ATTENTION_WARPS)
            rows.range[half] = keys_of(args, sample, query + 8 * half);
    }
    if (threadIdx.x == 0) {
        barrier_init(&barriers.queries, 1);
        for (int i = 0; i < shape::STAGES; i++) {
            barrier_init(&barriers.full[i], 1);
            barrier_init(&barriers.empty[i], ATTENTION_WARPS);
        }
        barriers_ready();
    }
    struct key_range all = block_range(rows.range, bounds);
    all.first = all.first / KEYS * KEYS;
    if (warp >= ATTENTION_WARPS) {
        const CUtensorMap *const maps[3] = {&q_map, &k_map, &v_map};
        give_registers<24>();
        if (threadIdx.x == 32 * ATTENTION_WARPS && all.first < all.end)
            copy_tiles<D>(memory, barriers, maps, first_query, all, places);
        return;
    }
    take_registers<240>();
    float out[D / 2];
#pragma unroll
    for (int n = 0; n < D / 2; n++)
        out[n] = 0;
    const uint8_t *queries = memory + warp / 4 * GROUP_ROWS * LINE_BYTES;
    struct hopper_part part = {queries, memory + shape::QUERY_BYTES, all, head, drawn_row(args, sample, query)};
    if (all.first < all.end)
        walk_keys<T, D, HAS_DROPOUT>(out, rows, args, part, barriers);
    finish_rows<T, D>(out, rows, args, query, places[0]);
}

// ---- Launch ----

template <typename T, int D, bool HAS_DROPOUT>
static void launch_forward(struct cuda_device *cuda, const struct op_attention_forward *op,
                           const struct attention_args *args) {
    auto kernel = hopper_forward_kernel<T, D, HAS_DROPOUT>;
    int bytes = hopper_shape<D>::BYTES;
    attention_take_shared(cuda, kernel, bytes, D);
    dim3 grid(grid_x(divide_up(args->queries, (int64_t)QUERIES)), grid_yz(args->heads), grid_yz(args->batches));
    LAUNCH(cuda, kernel, grid, HOPPER_THREADS, (size_t)bytes, *args, map_heads(op->q, QUERIES), map_heads(op->k, KEYS),
           map_heads(op->v, KEYS));
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
    if (!is_taken || (D != 64 && D != 128) || op->v.shape[3] != D || op->mask.relative_bias.data || op->scale <= 0 ||
        !is_hopper(cuda->index) || !map_encoder())
        return false;
    struct attention_args args = attention_forward_args(op);
    bool is_bf16 = op->q.dtype == DTYPE_BF16;
    if (D == 64 && is_bf16)
        launch_either<__nv_bfloat16, 64>(cuda, op, &args);
    else if (D == 64)
        launch_either<__half, 64>(cuda, op, &args);
    else if (is_bf16)
        launch_either<__nv_bfloat16, 128>(cuda, op, &args);
    else
        launch_either<__half, 128>(cuda, op, &args);
    return true;
}
