// Blocks and shared memory of the attention kernels for GPUs of compute capability 9.0.
//
// Blocks are persistent. They take tiles of 128 rows in pairs, one from each end, so that all pairs are equal work
// under a causal mask. The rows of a tile are "fixed" while those of the other side pass; copies of the next tile begin
// while the last one is being computed.
#ifndef OPS_CUDA_HOPPER_ATTENTION_WALK_CUH
#define OPS_CUDA_HOPPER_ATTENTION_WALK_CUH

#include "ops/cuda/hopper/attention_hopper.cuh"

enum { WORD_KEYS = 32 };  // keys whose dropout bits form a word

// Stored bits of dropout: a word of 32 keys of a query as draw_word draws it, (B, H, words, queries).
struct kept_words {
    uint32_t *data;  // NULL if the workspace is too small for them
    int words, queries;
};

static __device__ __forceinline__ uint32_t *words_of(const struct kept_words &kept, int64_t row, int key) {
    return kept.data + (row * kept.words + key / WORD_KEYS) * kept.queries;
}

// Walks over the queries of tiles of keys: dk and dv. In attention_hopper_keys.cu.
void hopper_key_gradients(struct cuda_device *cuda, const struct op_attention_backward *op,
                          const struct attention_args *args, const struct kept_words *words);

// ---- Blocks ----

// The tiles that a block takes: `tile` of `head` of `sample`.
struct tile_walk {
    int tiles, heads, units, unit, side, tile, head, sample;

    __device__ __forceinline__ tile_walk(int64_t rows, int heads_, int64_t batches) {
        tiles = (int)((rows + BLOCK_ROWS - 1) / BLOCK_ROWS);
        heads = heads_;
        units = (tiles + 1) / 2 * heads * (int)batches;
        unit = blockIdx.x;
        side = 0;
    }

    __device__ __forceinline__ bool next() {
        while (unit < units) {
            int pairs = (tiles + 1) / 2, pair = unit % pairs, place = unit / pairs;
            bool is_second = side == 1;
            tile = is_second ? tiles - 1 - pair : pair;
            head = place % heads;
            sample = place / heads;
            side ^= 1;
            unit += is_second ? gridDim.x : 0;
            if (!is_second || tile != pair)
                return true;
        }
        return false;
    }
};

// Shared memory of a kernel: FIXED times FIXED_BYTES for the block's rows and STAGES times PASSING_BYTES for those that
// it walks over, with barriers: full (copies have arrived) and empty (all threads are done with them).
template <typename SHAPE> struct walk_memory {
    uint8_t *fixed, *passing;
    uint64_t fixed_full[SHAPE::FIXED], fixed_empty[SHAPE::FIXED], full[SHAPE::STAGES], empty[SHAPE::STAGES];
};

// All threads of a block call it. `arrivals` complete a stage.
template <typename SHAPE>
static __device__ __forceinline__ void open_memory(walk_memory<SHAPE> &memory, uint8_t *unaligned, int arrivals) {
    if (threadIdx.x == 0) {
        memory.fixed = (uint8_t *)(((uintptr_t)unaligned + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        memory.passing = memory.fixed + SHAPE::FIXED * SHAPE::FIXED_BYTES;
        for (int i = 0; i < SHAPE::FIXED; i++) {
            barrier_init(&memory.fixed_full[i], 1);
            barrier_init(&memory.fixed_empty[i], ATTENTION_WARPS * 32);
        }
        for (int i = 0; i < SHAPE::STAGES; i++) {
            barrier_init(&memory.full[i], arrivals);
            barrier_init(&memory.empty[i], ATTENTION_WARPS * 32);
        }
        barriers_ready();
    }
    __syncthreads();
}

// One thread copies LINES rows of COUNT tensors, one after the other, from `row` of a place (head, sample) on.
template <int D, int LINES, int COUNT>
static __device__ __forceinline__ void copy_rows(uint8_t *to, const CUtensorMap *const maps[COUNT], uint64_t *barrier,
                                                 int row, const int place[2]) {
    barrier_expect(barrier, COUNT * LINES * D * 2);
#pragma unroll
    for (int column = 0; column < D; column += BOX_COLUMNS)
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            copy_head_box(to + i * LINES * D * 2 + column / BOX_COLUMNS * LINES * LINE_BYTES, maps[i], barrier, column,
                          row, place);
}

// Signals that a thread is done with a stage: each has read of it, and waiting for matmuls orders no other reads.
static __device__ __forceinline__ void release(uint64_t *empty) {
    barrier_arrive(empty);
}

// Keeps the compiler from reading sums before this point.
template <int N> static __device__ __forceinline__ void settle(float (&sums)[N]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+f"(sums[n])::"memory");
}

template <int N> static __device__ __forceinline__ void clear_sums(float (&sums)[N]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        sums[n] = 0;
}

// Writes factor times the warp's 16 rows of a group's sums; `row` is that of the group.
template <typename T, int D>
static __device__ __forceinline__ void store_group(T *to, int64_t stride, int64_t row, int64_t rows,
                                                   const float (&sums)[D / 2], float factor) {
    const float factors[2] = {factor, factor};
    store_rows<T, D>(to, stride, row + threadIdx.x / 32 % 4 * 16, rows, D, (const float(*)[4])sums, factors);
}

// The first and last key that any query of a tile sees, the first rounded down to a tile of KEYS; all threads of a
// warp find it.
template <int KEYS>
static __device__ __forceinline__ struct key_range keys_of_tile(const struct attention_args &args,
                                                                const struct tile_walk &walk) {
    int first = INT32_MAX, end = 0;
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < BLOCK_ROWS; i += 32) {
        struct key_range range = keys_of(args, walk.sample, (int64_t)walk.tile * BLOCK_ROWS + i);
        if (range.first < range.end) {
            first = min(first, range.first);
            end = max(end, range.end);
        }
    }
    return {__reduce_min_sync(~0u, first) / KEYS * KEYS, __reduce_max_sync(~0u, end)};
}

// ---- Dropout ----

// Dropout bits of the keys of each stage: words for the block's queries.
template <typename SHAPE> struct drawn_words { uint32_t word[SHAPE::STAGES][SHAPE::KEYS / WORD_KEYS][BLOCK_ROWS]; };

// The query whose dropout a thread of the third group draws.
struct drawn_query {
    struct key_range range;
    int64_t row_id, place;  // place: of the head, as that of lse
    int head, query;
};

static __device__ __forceinline__ struct drawn_query drawn_query_of(const struct attention_args &args,
                                                                    const struct tile_walk &walk) {
    struct drawn_query mine;
    mine.query = walk.tile * BLOCK_ROWS + threadIdx.x % BLOCK_ROWS;
    mine.range = keys_of(args, walk.sample, mine.query);
    mine.row_id = mine.query < args.queries ? args.dropout.row_ids[walk.sample * args.queries + mine.query] : 0;
    mine.head = walk.head;
    mine.place = (int64_t)walk.sample * args.heads + walk.head;
    return mine;
}

// The signs of both halves of a word say which of its two elements are kept. For a threshold t up to 2^15, min(h, t) +
// 2^15 - t has its highest bit set if the half h is at least t; this takes one instruction less than the method of
// dropout_kept.
template <bool IS_LOW> static __device__ __forceinline__ uint32_t kept_signs(uint32_t word, uint32_t threshold) {
    uint32_t t = threshold * 0x10001u;
    return IS_LOW ? __vminu2(word, t) + (0x80008000u - t) : __vhaddu2(word, (65536 - threshold) * 0x10001u);
}

// draw_word of 64 keys, as two words. The calls are interleaved: a single one is a chain of dependent instructions, and
// few warps draw.
enum { DRAWN_KEYS = 64, DRAWN_CALLS = DRAWN_KEYS / 8 };

template <bool IS_LOW>
static __device__ __forceinline__ void pack_kept(uint32_t (&word)[2], const uint32_t (&drawn)[4][DRAWN_CALLS],
                                                 uint32_t threshold) {
#pragma unroll
    for (int i = 0; i < DRAWN_CALLS; i++) {
        uint32_t sign[4], place = i % 4;
#pragma unroll
        for (int n = 0; n < 4; n++)
            sign[n] = kept_signs<IS_LOW>(drawn[n][i], threshold);
        uint32_t first = spread_signs(sign[0], sign[1]) & 0x01010101u << 2 * place;
        uint32_t bits = first | (spread_signs(sign[2], sign[3]) & 0x02020202u << 2 * place);
        word[i / 4] = place == 0 ? bits : word[i / 4] | bits;
    }
}

static __device__ __forceinline__ void draw_words(uint32_t (&word)[2], const struct attention_args &args, int head,
                                                  int64_t row_id, int first_key) {
    uint32_t c[4][DRAWN_CALLS], k0 = (uint32_t)args.dropout.seed, k1 = (uint32_t)(args.dropout.seed >> 32);
    uint32_t site = head_site(args, head);
#pragma unroll
    for (int i = 0; i < DRAWN_CALLS; i++) {
        c[0][i] = (uint32_t)first_key / 8 + i;
        c[1][i] = (uint32_t)row_id;
        c[2][i] = (uint32_t)((uint64_t)row_id >> 32);
        c[3][i] = site;
    }
#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
#pragma unroll
        for (int i = 0; i < DRAWN_CALLS; i++) {
            uint4 next = philox_round(make_uint4(c[0][i], c[1][i], c[2][i], c[3][i]), k0, k1);
            c[0][i] = next.x;
            c[1][i] = next.y;
            c[2][i] = next.z;
            c[3][i] = next.w;
        }
        k0 += PHILOX_STEP_0;
        k1 += PHILOX_STEP_1;
    }
    if (args.dropout.threshold <= 0x8000)
        pack_kept<true>(word, c, args.dropout.threshold);
    else
        pack_kept<false>(word, c, args.dropout.threshold);
}

// Draws the keys of a stage, 64 at a time if the query may see one of them, and stores the bits in `kept` if there is
// memory.
template <int WORDS>
static __device__ __forceinline__ void draw_keys(uint32_t (&drawn)[WORDS][BLOCK_ROWS],
                                                 const struct attention_args &args, const struct kept_words &kept,
                                                 const struct drawn_query &mine, int first_key) {
#pragma unroll 1
    for (int i = 0; i < WORDS; i += 2) {
        int key = first_key + i * WORD_KEYS;
        if (mine.range.first >= key + DRAWN_KEYS || mine.range.end <= key)
            continue;
        uint32_t word[2];
        draw_words(word, args, mine.head, mine.row_id, key);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            drawn[i + n][threadIdx.x % BLOCK_ROWS] = word[n];
            if (kept.data)
                words_of(kept, mine.place, key + n * WORD_KEYS)[mine.query] = word[n];
        }
    }
}

// The dropout of a thread's two rows of scores: bits 1, 3, 5 and 7 are those of the first of two neighbouring keys in
// columns 0, 8, 16 and 24 …, bits 9, … those of the second.
template <int WORDS>
static __device__ __forceinline__ void read_drawn(uint32_t (&kept)[WORDS][2],
                                                  const uint32_t (&drawn)[WORDS][BLOCK_ROWS]) {
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, shift = kept_bit(2 * (threadIdx.x & 3)) - 1;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t word = drawn[i][row + 8 * half];
            kept[i][half] = __funnelshift_r(word, word, shift);
        }
}

// Whether the score in register n of a tile is kept.
template <int WORDS> static __device__ __forceinline__ bool is_drawn(const uint32_t (&kept)[WORDS][2], int n) {
    return kept[n / 16][n / 2 & 1] >> (n % 16 / 4 * 2 + (n & 1) * 8 + 1) & 1;
}

// A mask for the scores in registers n and n + 1: 16 ones for each that is kept.
template <int WORDS> static __device__ __forceinline__ uint32_t drawn_pair(const uint32_t (&kept)[WORDS][2], int n) {
    uint32_t mask, signs = kept[n / 16][n / 2 & 1] << (6 - n % 16 / 4 * 2);
    asm("prmt.b32 %0, %1, 0, 0x9988;" : "=r"(mask) : "r"(signs));
    return mask;
}

// ---- The third group ----

// A warp copies the queries of the block's tiles, of FIXED_COUNT tensors, and the keys and values that they see. With
// dropout all four warps call it, and each thread draws for a query.
template <bool DRAWS, typename SHAPE>
static __device__ __forceinline__ void copy_keys(walk_memory<SHAPE> &memory, const struct attention_args &args,
                                                 const CUtensorMap *const *maps, drawn_words<SHAPE> *drawn,
                                                 const struct kept_words &kept) {
    enum { D = SHAPE::D, KEYS = SHAPE::KEYS, COUNT = SHAPE::FIXED_COUNT };
    stage_turn<SHAPE::FIXED> fixed = {0, 1};
    stage_turn<SHAPE::STAGES> turn = {0, 1};
    bool is_copier = threadIdx.x == ATTENTION_WARPS * 32;
    struct tile_walk walk(args.queries, args.heads, args.batches);
    while (walk.next()) {
        struct key_range all = keys_of_tile<KEYS>(args, walk);
        const int place[2] = {walk.head, walk.sample};
        const int key_place[2] = {walk.head / (args.heads / args.key_heads), walk.sample};
        if (all.first >= all.end)
            continue;
        struct drawn_query mine = {};
        if (DRAWS)
            mine = drawn_query_of(args, walk);
        if (is_copier) {
            barrier_wait(&memory.fixed_empty[fixed.stage], fixed.parity);
            copy_rows<D, BLOCK_ROWS, COUNT>(memory.fixed + fixed.stage * SHAPE::FIXED_BYTES, maps,
                                            &memory.fixed_full[fixed.stage], walk.tile * BLOCK_ROWS, place);
        }
        for (int key = all.first; key < all.end && (DRAWS || is_copier); key += KEYS, turn.next()) {
            barrier_wait(&memory.empty[turn.stage], turn.parity);
            if (is_copier)
                copy_rows<D, KEYS, 2>(memory.passing + turn.stage * SHAPE::PASSING_BYTES, maps + COUNT,
                                      &memory.full[turn.stage], key, key_place);
            if (DRAWS) {
                draw_keys(drawn->word[turn.stage], args, kept, mine, key);
                barrier_arrive(&memory.full[turn.stage]);
            }
        }
        fixed.next();
        __syncwarp();
    }
}

// Blocks for the pairs of tiles of `rows`, at most one for each multiprocessor.
static unsigned block_count(const struct cuda_device *cuda, int64_t rows, int64_t heads, int64_t batches) {
    int processors = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, cuda->index));
    int64_t units = divide_up(divide_up(rows, (int64_t)BLOCK_ROWS), 2) * heads * batches;
    return grid_x(grid_x(units) < (unsigned)processors ? units : processors);
}

// LAUNCH_SHAPE(T, D) for the dtype and head size of an operation.
#define WITH_HOPPER_SHAPE(op, LAUNCH_SHAPE)                                                                            \
    do {                                                                                                               \
        bool is_bf16 = (op)->q.dtype == DTYPE_BF16;                                                                    \
        if ((op)->q.shape[3] == 64 && is_bf16)                                                                         \
            LAUNCH_SHAPE(__nv_bfloat16, 64);                                                                           \
        else if ((op)->q.shape[3] == 64)                                                                               \
            LAUNCH_SHAPE(__half, 64);                                                                                  \
        else if (is_bf16)                                                                                              \
            LAUNCH_SHAPE(__nv_bfloat16, 128);                                                                          \
        else                                                                                                           \
            LAUNCH_SHAPE(__half, 128);                                                                                 \
    } while (0)

#endif
