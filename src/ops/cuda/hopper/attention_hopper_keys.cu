// Attention backward on GPUs of compute capability 9.0: the gradients of keys and values. A block has 128 keys and
// walks over the queries that may see them. Scores are transposed in registers: keys are rows. With the tiles of
// queries, a warp copies per-query data. See attention_walk.cuh and attention_hopper_backward.cu.
#include "ops/cuda/hopper/attention_walk.cuh"

// The sums of wide heads leave registers for fewer scores.
template <int D_> struct key_shape {
    static const int D = D_, QUERIES = D == 64 ? 64 : 32, STAGES = D == 64 ? 4 : 6, FIXED = D == 64 ? 2 : 1;
    static const int FIXED_BYTES = 2 * BLOCK_ROWS * D * 2, PASSING_BYTES = 2 * QUERIES * D * 2;
    static const int BYTES = FIXED * FIXED_BYTES + STAGES * PASSING_BYTES + ALIGNMENT;
};

// Source of the dropout of the kernel of keys.
enum kept_source { KEPT_ALL, KEPT_DRAWN, KEPT_READ };

// Per-query data of a stage.
template <int QUERIES> struct passing_facts {
    float lse[QUERIES], delta[QUERIES];  // lse: in powers of two
    struct key_range range[QUERIES];
    struct key_range common;  // keys that all of them see
    union {
        int64_t row_ids[QUERIES];
        uint32_t words[BLOCK_ROWS / WORD_KEYS][QUERIES];
    };
};

// The queries [first, end) that may see a tile of keys, `first` rounded down to a tile; all threads of a warp find it.
template <int QUERIES>
static __device__ __forceinline__ struct key_range queries_of_tile(const struct attention_args &args,
                                                                   const struct tile_walk &walk) {
    int first_key = walk.tile * BLOCK_ROWS;
    int64_t first = 0, end = args.queries;
    if (args.is_causal)
        first = max((int64_t)0, first_key - (args.keys - args.queries)) / QUERIES * QUERIES;
    if (args.first_keys || args.window > 0)
        end = queries_before(args, walk.sample, first, first_key + BLOCK_ROWS);
    if (args.key_counts && first_key >= args.key_counts[walk.sample])
        end = first;
    return {(int)first, (int)max(first, end)};
}

// *from, or 0 without a read. Branch-free, so that the code after it need not wait for the value.
static __device__ __forceinline__ uint32_t read_if(bool is_there, const void *from) {
    uint32_t value;
    asm volatile("{\n.reg .pred there;\nsetp.ne.b32 there, %2, 0;\nmov.b32 %0, 0;\n@there ld.global.b32 %0, [%1];\n}"
                 : "=r"(value)
                 : "l"(from), "r"((int)is_there)
                 : "memory");
    return value;
}

// Data that a lane of the copying warp reads of queries 32 apart.
template <int QUERIES, int KEPT> struct read_facts {
    enum { COUNT = QUERIES / 32, WORDS = BLOCK_ROWS / WORD_KEYS };
    float lse[COUNT], delta[COUNT];
    struct key_range range[COUNT];
    int64_t row_id[COUNT];
    uint32_t word[COUNT][WORDS];

    __device__ __forceinline__ void read(const struct attention_args &args, const struct kept_words &words,
                                         const int place[2], int first_query, int first_key) {
        int64_t row = (int64_t)place[1] * args.heads + place[0];
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            int64_t query = first_query + threadIdx.x % 32 + 32 * n;
            range[n] = keys_of(args, place[1], query);
            bool sees = range[n].first < range[n].end;
            lse[n] = __uint_as_float(read_if(sees, args.lse + row * args.queries + query));
            delta[n] = __uint_as_float(read_if(sees, args.delta + row * args.queries + query));
            if (KEPT == KEPT_DRAWN)
                row_id[n] = sees ? args.dropout.row_ids[place[1] * args.queries + query] : 0;
#pragma unroll
            for (int i = 0; i < WORDS && KEPT == KEPT_READ; i++) {
                int key = first_key + i * WORD_KEYS;
                bool is_drawn = range[n].first < key + WORD_KEYS && range[n].end > key;
                word[n][i] = read_if(is_drawn, words_of(words, row, key) + query);
            }
        }
    }

    __device__ __forceinline__ void write(passing_facts<QUERIES> &facts) const {
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            int at = threadIdx.x % 32 + 32 * n;
            facts.lse[at] = lse[n] * LOG2_E;
            facts.delta[at] = delta[n];
            facts.range[at] = range[n];
            if (KEPT == KEPT_DRAWN)
                facts.row_ids[at] = row_id[n];
#pragma unroll
            for (int i = 0; i < WORDS && KEPT == KEPT_READ; i++)
                facts.words[i][at] = word[n][i];
        }
        int first = __reduce_max_sync(~0u, max(range[0].first, range[COUNT - 1].first));
        int end = __reduce_min_sync(~0u, min(range[0].end, range[COUNT - 1].end));
        if (threadIdx.x % 32 == 0)
            facts.common = {first, end};
    }
};

// A warp copies the keys of the block's tiles, the queries that may see them, and the data of these queries.
template <int D, int KEPT>
static __device__ __forceinline__ void
copy_queries(walk_memory<key_shape<D>> &memory, passing_facts<key_shape<D>::QUERIES> *facts,
             const struct attention_args &args, const struct kept_words &words, const CUtensorMap *const maps[4]) {
    using shape = key_shape<D>;
    stage_turn<shape::FIXED> fixed = {0, 1};
    stage_turn<shape::STAGES> turn = {0, 1};
    struct tile_walk walk(args.keys, args.key_heads, args.batches);
    int group = args.heads / args.key_heads;
    while (walk.next()) {
        struct key_range queries = queries_of_tile<shape::QUERIES>(args, walk);
        const int place[2] = {walk.head, walk.sample};
        int first_key = walk.tile * BLOCK_ROWS;
        if (queries.first >= queries.end)
            continue;
        if (threadIdx.x % 32 == 0) {
            barrier_wait(&memory.fixed_empty[fixed.stage], fixed.parity);
            copy_rows<D, BLOCK_ROWS, 2>(memory.fixed + fixed.stage * shape::FIXED_BYTES, maps,
                                        &memory.fixed_full[fixed.stage], first_key, place);
        }
        fixed.next();
        for (int head = walk.head * group; head < (walk.head + 1) * group; head++)
            for (int query = queries.first; query < queries.end; query += shape::QUERIES, turn.next()) {
                const int query_place[2] = {head, walk.sample};
                read_facts<shape::QUERIES, KEPT> read;
                read.read(args, words, query_place, query, first_key);
                barrier_wait(&memory.empty[turn.stage], turn.parity);
                if (threadIdx.x % 32 == 0)
                    copy_rows<D, shape::QUERIES, 2>(memory.passing + turn.stage * shape::PASSING_BYTES, maps + 2,
                                                    &memory.full[turn.stage], query, query_place);
                read.write(facts[turn.stage]);
                barrier_arrive(&memory.full[turn.stage]);
            }
    }
}

// Sets the scores of queries that do not see the thread's keys, `key` and `key` + 8, to -infinity.
template <int QUERIES>
static __device__ __forceinline__ void hide_turned(float (&score)[QUERIES / 2], const passing_facts<QUERIES> &facts,
                                                   int key) {
#pragma unroll
    for (int n = 0; n < QUERIES / 2; n++) {
        struct key_range range = facts.range[n / 4 * 8 + 2 * (threadIdx.x & 3) + (n & 1)];
        int at = key + 8 * (n / 2 & 1);
        score[n] = at >= range.first && at < range.end ? score[n] : -INFINITY;
    }
}

// A group of warps of the kernel of keys.
template <typename T_, int D, int KEPT> struct key_group {
    typedef key_shape<D> shape;
    static const int QUERIES = shape::QUERIES;
    walk_memory<shape> &memory;
    const passing_facts<QUERIES> *facts;
    const struct attention_args &args;
    stage_turn<shape::STAGES> turn;
    float score[QUERIES / 2], dweight[QUERIES / 2];
    uint32_t kept[2][4], weight[QUERIES / 4], gradient[QUERIES / 4];

    __device__ __forceinline__ const uint8_t *queries() const {
        return memory.passing + turn.stage * shape::PASSING_BYTES;
    }

    // Starts the matmuls of a stage of queries of a head with the group's keys, and draws.
    __device__ __forceinline__ void start(const uint8_t *keys, int head, int warp_key) {
        barrier_wait(&memory.full[turn.stage], turn.parity);
        start_scores<T_, D, QUERIES>(score, keys, queries());
        start_scores<T_, D, QUERIES>(dweight, keys + BLOCK_ROWS * D * 2, queries() + QUERIES * D * 2);
        if (KEPT == KEPT_DRAWN)
            turned_kept<QUERIES>(kept, facts[turn.stage].row_ids, args, head, warp_key);
    }

    // Whether the score in register i of columns 8 j … is kept; `words` are those of its two queries.
    __device__ __forceinline__ bool keeps(const uint32_t words[2], int j, int i) const {
        return KEPT == KEPT_READ ? words[i & 1] >> 2 * (i / 2) & 1 : is_kept_turned<QUERIES>(kept, j, i);
    }

    // Computes weights and gradients of scores, in 16 bits, from scores and gradients of weights. Weights are not
    // scaled by the dropout.
    __device__ __forceinline__ void weigh(const passing_facts<QUERIES> &now) {
        float scale = args.scale * LOG2_E;
        int warp = threadIdx.x / 32, part = threadIdx.x % 32 / 4;
        int shift = kept_bit(part) + 4 * (warp & 1);  // a warp has 16 of a word's 32 keys
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++) {
            int column = 8 * j + 2 * (threadIdx.x & 3);
            float2 lse = *(const float2 *)&now.lse[column], delta = *(const float2 *)&now.delta[column];
            float w[4], g[4];
            uint32_t words[2] = {0, 0};
            if (KEPT == KEPT_READ) {
                uint2 both = *(const uint2 *)&now.words[warp / 2][column];
                words[0] = both.x >> shift;
                words[1] = both.y >> shift;
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float p = power_of_two(score[4 * j + i] * scale - (i & 1 ? lse.y : lse.x)), d = dweight[4 * j + i];
                w[i] = p;
                if (KEPT != KEPT_ALL) {
                    bool is_there = keeps(words, j, i);
                    w[i] = is_there ? p : 0.0f;
                    d = (is_there ? d : 0.0f) * args.dropout.scale;
                }
                g[i] = p * (d - (i & 1 ? delta.y : delta.x));
            }
            weight[2 * j] = pack2(w[0], w[1], T_());
            weight[2 * j + 1] = pack2(w[2], w[3], T_());
            gradient[2 * j] = pack2(g[0], g[1], T_());
            gradient[2 * j + 1] = pack2(g[2], g[3], T_());
        }
    }

    // `steps` stages, `tiles` of each head; the group's first key is `key`.
    __device__ __forceinline__ void walk_queries(float (&dk)[D / 2], float (&dv)[D / 2], const uint8_t *keys, int key,
                                                 int head, int steps, int tiles) {
        int warp_key = key + threadIdx.x / 32 % 4 * 16;
        start(keys, head, warp_key);
        matmul_wait<0>();
        for (int step = 1; step <= steps; step++) {
            const passing_facts<QUERIES> &now = facts[turn.stage];
            settle(score);
            settle(dweight);
            if (key < now.common.first || key + GROUP_ROWS > now.common.end)
                hide_turned(score, now, warp_key + threadIdx.x % 32 / 4);
            weigh(now);
            uint64_t *empty = &memory.empty[turn.stage];
            start_values<T_, D, QUERIES>(dv, weight, queries() + QUERIES * D * 2);
            start_values<T_, D, QUERIES>(dk, gradient, queries());
            turn.next();
            if (step < steps)
                start(keys, head + step / tiles, warp_key);
            matmul_wait<0>();
            release(empty);
        }
        settle(dk);
        settle(dv);
    }
};

template <typename T, int D, int KEPT>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    hopper_key_kernel(struct attention_args args, struct kept_words words, const __grid_constant__ CUtensorMap k_map,
                      const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap q_map,
                      const __grid_constant__ CUtensorMap dout_map) {
    using shape = key_shape<D>;
    // Tuned to the needs of both sides.
    enum { COPY_REGISTERS = KEPT == KEPT_DRAWN ? (D == 64 ? 72 : 40) : (D == 64 ? 88 : 72) };
    extern __shared__ uint8_t unaligned[];
    __shared__ walk_memory<shape> memory;
    __shared__ passing_facts<shape::QUERIES> facts[shape::STAGES];
    int warp = threadIdx.x / 32;
    open_memory(memory, unaligned, 33);
    if (warp >= ATTENTION_WARPS) {
        const CUtensorMap *const maps[4] = {&k_map, &v_map, &q_map, &dout_map};
        give_registers<COPY_REGISTERS>();
        if (warp == ATTENTION_WARPS)
            copy_queries<D, KEPT>(memory, facts, args, words, maps);
        return;
    }
    take_registers<(504 - COPY_REGISTERS) / 2>();
    key_group<T, D, KEPT> group = {memory, facts, args, {0, 0}};
    stage_turn<shape::FIXED> fixed = {0, 0};
    struct tile_walk walk(args.keys, args.key_heads, args.batches);
    int heads = args.heads / args.key_heads;
    while (walk.next()) {
        int group_row = warp / 4 * GROUP_ROWS, first_key = walk.tile * BLOCK_ROWS + group_row;
        struct key_range queries = queries_of_tile<shape::QUERIES>(args, walk);
        int tiles = (queries.end - queries.first + shape::QUERIES - 1) / shape::QUERIES;
        float dk[D / 2], dv[D / 2];
        clear_sums(dk);
        clear_sums(dv);
        if (tiles > 0) {
            barrier_wait(&memory.fixed_full[fixed.stage], fixed.parity);
            group.walk_queries(dk, dv, memory.fixed + fixed.stage * shape::FIXED_BYTES + group_row * LINE_BYTES,
                               first_key, walk.head * heads, heads * tiles, tiles);
            release(&memory.fixed_empty[fixed.stage]);
            fixed.next();
        }
        store_group<T, D>(view_head<T>(args.dk, walk.sample, walk.head), args.dk.time, first_key, args.keys, dk,
                          args.scale);
        store_group<T, D>(view_head<T>(args.dv, walk.sample, walk.head), args.dv.time, first_key, args.keys, dv,
                          KEPT == KEPT_ALL ? 1.0f : args.dropout.scale);
    }
}

template <typename T, int D, int KEPT>
static void launch_keys(struct cuda_device *cuda, const struct op_attention_backward *op,
                        const struct attention_args *args, const struct kept_words *words) {
    auto kernel = hopper_key_kernel<T, D, KEPT>;
    int bytes = key_shape<D>::BYTES, queries = key_shape<D>::QUERIES;
    attention_take_shared(cuda, kernel, bytes, D);
    LAUNCH(cuda, kernel, block_count(cuda, args->keys, args->key_heads, args->batches), HOPPER_THREADS, (size_t)bytes,
           *args, *words, map_heads(op->k, BLOCK_ROWS), map_heads(op->v, BLOCK_ROWS), map_heads(op->q, queries),
           map_heads(op->dout, queries));
}

template <typename T, int D>
static void launch_source(struct cuda_device *cuda, const struct op_attention_backward *op,
                          const struct attention_args *args, const struct kept_words *words) {
    if (!args->dropout.is_on)
        launch_keys<T, D, KEPT_ALL>(cuda, op, args, words);
    else if (words->data)
        launch_keys<T, D, KEPT_READ>(cuda, op, args, words);
    else
        launch_keys<T, D, KEPT_DRAWN>(cuda, op, args, words);
}

void hopper_key_gradients(struct cuda_device *cuda, const struct op_attention_backward *op,
                          const struct attention_args *args, const struct kept_words *words) {
#define KEY_GRADIENTS(T, D) launch_source<T, D>(cuda, op, args, words)
    WITH_HOPPER_SHAPE(op, KEY_GRADIENTS);
#undef KEY_GRADIENTS
}
