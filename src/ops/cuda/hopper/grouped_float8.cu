// Matmuls over ragged groups of rows in fp8 on GPUs of compute capability 9.0, see grouped_tiles.cuh. A stage has 128
// steps of the inner dimension, which is contiguous in both operands.
//
// Tensor cores accumulate fp8 products with some 14 bits. The forward pass uses these sums directly. For gradients the
// sums of each stage are added to fp32 sums, as cuBLASLt does without CUBLASLT_MATMUL_DESC_FAST_ACCUM; registers hold
// those of half a tile's columns at a time.
//
// The inner dimension of weight gradients is an expert's rows. Copies begin at multiples of 128 bytes: unaligned ones
// read two lines of memory for each of theirs and are slower by a fifth (H200, 2026-11-18). Elements of the first
// operand before and after the expert's rows belong to other experts, and are set to 0.
#include "ops/cuda/hopper/grouped_tiles.cuh"

enum { STEP8 = LINE_BYTES, STEP8_MATMULS = STEP8 / 32, HALF_COLUMNS = COLUMNS / 2 };

struct float8_args : grouped_args {
    const float *a_range, *b_range;  // ranges, or factors of blocks
    int64_t a_width, b_width;        // columns of the factors
};

// Multiplies a stage: all of its columns, or half of them.
template <bool A_IS_E5M2, int COUNT>
static __device__ __forceinline__ void multiply_stage(float (&sums)[COUNT], uint64_t a, uint64_t b, bool keeps) {
    matmul_fence();
#pragma unroll
    for (int i = 0; i < STEP8_MATMULS; i++) {
        matmul_float8<A_IS_E5M2>(sums, a, b, keeps || i > 0);
        a = next_steps<false>(a);
        b = next_steps<false>(b);
    }
    matmul_commit();
}

// ---- factors of blocks ----

// Matmuls over ragged groups of operands in fp8 by blocks of 128, on GPUs of compute capability 9.0 (DeepSeek-V3's
// recipe). A stage is as long as a block: its sums are multiplied by the factors of both operands and added to fp32
// sums, half of a tile's columns at a time, while the other group of warps uses the tensor cores.
//
// A thread has two rows of a tile, eight apart. Rows of places have a factor for each block of the inner dimension;
// weights have one for 128 x 128, so half of a tile's columns share it. With gradients of weights both operands have a
// factor for each line. Offsets are multiples of 128, so that no tile and no block spans two experts.
//
// Factors are read during the matmuls: those of the next stage's rows during this one's matmuls, those of columns
// during the matmuls that they scale. Lines and columns beyond the matrix read unrelated factors; their sums are not
// stored.

enum {
    ROW_STEP = 8,                               // between the two rows of a thread
    COLUMN_GROUP = 8,                           // columns, two of them per thread
    HALF_GROUPS = HALF_COLUMNS / COLUMN_GROUP,  // in half a tile
    COLUMN_TURNS = 4,                           // steps in which their factors are read
    TURN_GROUPS = HALF_GROUPS / COLUMN_TURNS,
    FACTOR_LINE = LINE_BYTES / (int)sizeof(float),  // factors in a cache line
    FACTORS_AHEAD = 2,  // stages by which factors of columns are prefetched into the L2 cache
};

// A thread's first row; `tile` begins at the row of its group of warps.
static __device__ __forceinline__ int64_t thread_row(const struct hopper_tile &tile) {
    return tile.row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
}

// Half of a tile's columns of a stage; `beside` is called while their sums are computed. The last half releases the
// stage.
template <bool A_IS_E5M2, typename BESIDE>
static __device__ __forceinline__ void multiply_half(float (&part)[64], stages<GROUPED_STAGES> &stages,
                                                     const stage_turn<GROUPED_STAGES> &turn, int group, int half,
                                                     const BESIDE &beside) {
    const uint8_t *stage = stages.memory + turn.stage * STAGE_BYTES;
    multiply_stage<A_IS_E5M2>(part, describe_operand(stage + group * BOX_BYTES, 0),
                              describe_operand(stage + A_BYTES + half * HALF_COLUMNS * LINE_BYTES, 0), false);
    beside();
    matmul_wait<0>();
    if (half == 1)
        release_stage(&stages.empty[turn.stage]);
}

static __device__ __forceinline__ void clear_sums(float (&sums)[128]) {
#pragma unroll
    for (int i = 0; i < 128; i++)
        sums[i] = 0;
}

// The sums of places times weights.
template <enum grouped_kind KIND, bool A_IS_E5M2>
static __device__ __forceinline__ void multiply_places(float (&sums)[128], stages<GROUPED_STAGES> &stages,
                                                       stage_turn<GROUPED_STAGES> &turn, const struct hopper_tile &tile,
                                                       const struct float8_args &args, int group) {
    int64_t columns = KIND == GROUPED_FORWARD ? args.outputs : args.inputs;
    int64_t blocks = (columns + HALF_COLUMNS - 1) / HALF_COLUMNS, block = tile.column / HALF_COLUMNS;
    int64_t second = block + 1 < blocks ? args.b_width : 0;
    const float *a = args.a_range + thread_row(tile);
    const float *b = args.b_range + (tile.expert * blocks + block) * args.b_width;
    float next_row[2] = {a[0], a[ROW_STEP]}, next_half[2] = {b[0], b[second]};
    clear_sums(sums);
    for (int64_t step = 0; step < tile.inner; step += STEP8, turn.next()) {
        float of_row[2] = {next_row[0], next_row[1]}, of_half[2] = {next_half[0], next_half[1]};
        barrier_wait(&stages.full[turn.stage], turn.parity);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float part[64];
            multiply_half<A_IS_E5M2>(part, stages, turn, group, half, [&]() {
                if (half == 1 || step + STEP8 >= tile.inner)
                    return;
                a += args.a_width;
                b++;
                next_row[0] = a[0], next_row[1] = a[ROW_STEP];
                next_half[0] = b[0], next_half[1] = b[second];
            });
            float first = of_row[0] * of_half[half], other = of_row[1] * of_half[half];
#pragma unroll
            for (int i = 0; i < 64; i += 4) {
                float *to = sums + half * 64 + i;
                to[0] += part[i] * first, to[1] += part[i + 1] * first;
                to[2] += part[i + 2] * other, to[3] += part[i + 3] * other;
            }
        }
    }
}

// The factors of every fourth group of columns of half a tile, from group `first` of the tile on. A partial tile ends
// with group `last`.
template <bool IS_WHOLE>
static __device__ __forceinline__ void read_columns(float2 (&of_column)[TURN_GROUPS], const float *b, int first,
                                                    int last) {
#pragma unroll
    for (int i = 0; i < TURN_GROUPS; i++) {
        int group = first + i * COLUMN_TURNS;
        of_column[i] = *(const float2 *)(b + COLUMN_GROUP * (IS_WHOLE ? group : min(group, last)));
    }
}

// Adds those groups' sums of a stage.
static __device__ __forceinline__ void add_columns(float *sums, const float (&part)[64],
                                                   const float2 (&of_column)[TURN_GROUPS], const float (&of_row)[2],
                                                   int first) {
#pragma unroll
    for (int i = 0; i < TURN_GROUPS; i++) {
        const float *from = part + 4 * (first + i * COLUMN_TURNS);
        float *to = sums + 4 * (first + i * COLUMN_TURNS);
        to[0] += from[0] * of_column[i].x * of_row[0], to[1] += from[1] * of_column[i].y * of_row[0];
        to[2] += from[2] * of_column[i].x * of_row[1], to[3] += from[3] * of_column[i].y * of_row[1];
    }
}

// The sums of gradients of weights, over the rows of an expert. A thread has two columns of each group of eight. While
// the tensor cores work, it reads every fourth group of half a tile, which touches all cache lines. There are no
// registers for more.
template <bool A_IS_E5M2, bool IS_WHOLE>
static __device__ __forceinline__ void
multiply_gradient_tile(float (&sums)[128], stages<GROUPED_STAGES> &stages, stage_turn<GROUPED_STAGES> &turn,
                       const struct hopper_tile &tile, const struct float8_args &args, int group) {
    int64_t row = thread_row(tile), block = tile.first / STEP8;
    int left = (int)(tile.inner / STEP8), last = (int)(min((int64_t)COLUMNS, args.inputs - tile.column) - 1);
    // The number of outputs is a multiple of 16: either both rows of a thread exist, or none.
    const float *a = args.a_range + block * args.a_width + (row < tile.rows_end ? row : 0);
    const float *b = args.b_range + block * args.b_width + tile.column + threadIdx.x % 4 * 2;
    int aside = (threadIdx.x - (HOPPER_THREADS - COMPUTE_THREADS)) * FACTOR_LINE;
    bool brings = aside <= last;
    last /= COLUMN_GROUP;
    clear_sums(sums);
    for (; left > 0; left--, turn.next(), a += args.a_width, b += args.b_width) {
        asm volatile("" : "+r"(last));  // otherwise the addresses of all groups would be kept in registers
        float of_row[2];
        barrier_wait(&stages.full[turn.stage], turn.parity);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float part[64];
            float2 of_column[TURN_GROUPS];
            multiply_half<A_IS_E5M2>(part, stages, turn, group, half, [&]() {
                read_columns<IS_WHOLE>(of_column, b, half * HALF_GROUPS, last);
                if (half == 1)
                    return;
                of_row[0] = a[0], of_row[1] = a[ROW_STEP];
                if (brings && left > FACTORS_AHEAD)
                    asm volatile("prefetch.global.L2 [%0];" ::"l"(b + FACTORS_AHEAD * args.b_width + aside));
            });
            add_columns(sums + half * 64, part, of_column, of_row, 0);
#pragma unroll
            for (int i = 1; i < COLUMN_TURNS; i++) {
                read_columns<IS_WHOLE>(of_column, b, half * HALF_GROUPS + i, last);
                add_columns(sums + half * 64, part, of_column, of_row, i);
            }
        }
    }
}

template <bool A_IS_E5M2>
static __device__ __forceinline__ void
multiply_gradients(float (&sums)[128], stages<GROUPED_STAGES> &stages, stage_turn<GROUPED_STAGES> &turn,
                   const struct hopper_tile &tile, const struct float8_args &args, int group) {
    if (tile.column + COLUMNS <= args.inputs)
        multiply_gradient_tile<A_IS_E5M2, true>(sums, stages, turn, tile, args, group);
    else
        multiply_gradient_tile<A_IS_E5M2, false>(sums, stages, turn, tile, args, group);
}

// ---- tiles ----

enum { CHUNK = 16 };
enum scaled8 { BY_RANGE, BY_BLOCKS_E4M3, BY_BLOCKS_E5M2 };  // the dtype is that of the first operand

// The copies of a tile along the inner dimension: first step, number of steps, and how many of the first ones are rows
// of another expert.
struct inner_range {
    int64_t first, count;
    int before;
};

template <enum grouped_kind KIND>
static __device__ __forceinline__ struct inner_range inner_of(const struct hopper_tile &tile) {
    struct inner_range range = {tile.first, tile.inner, 0};
    if (KIND == GROUPED_WEIGHT && tile.inner > 0) {
        range.before = (int)(tile.first % STEP8);
        range.first -= range.before;
        range.count += range.before;
    }
    return range;
}

// Zeroes the bytes of a 16-byte chunk before `first` and from `end` on.
static __device__ __forceinline__ void clear_bytes(uint4 *chunk, int first, int end) {
    uint32_t word[4] = {chunk->x, chunk->y, chunk->z, chunk->w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int low = min(max(first - 4 * i, 0), 4), high = min(max(end - 4 * i, 0), 4);
        uint32_t below = high == 4 ? 0xFFFFFFFFu : (1u << 8 * high) - 1;
        uint32_t above = low == 4 ? 0 : ~((1u << 8 * low) - 1);
        word[i] &= below & above;
    }
    *chunk = make_uint4(word[0], word[1], word[2], word[3]);
}

// Zeroes the steps of the first operand before `first` and from `end` on; both groups together, two threads per line.
static __device__ __forceinline__ void clear_steps(uint8_t *stage, int first, int end) {
    int thread = threadIdx.x - (HOPPER_THREADS - COMPUTE_THREADS), line = thread % ROWS;
    for (int chunk = thread / ROWS; chunk < LINE_BYTES / CHUNK; chunk += COMPUTE_THREADS / ROWS) {
        int low = first - chunk * CHUNK, high = end - chunk * CHUNK;
        if (low > 0 || high < CHUNK)
            clear_bytes((uint4 *)(stage + line * LINE_BYTES + (chunk ^ line % 8) * CHUNK), low, high);
    }
    fence_async();
    meet<1, COMPUTE_THREADS>();
}

static __device__ __forceinline__ void multiply_short(float (&sums)[128], stages<GROUPED_STAGES> &stages,
                                                      stage_turn<GROUPED_STAGES> &turn, int64_t inner, int group) {
    int last = 0;
    for (int64_t step = 0; step < inner; step += STEP8, turn.next()) {
        const uint8_t *stage = stages.memory + turn.stage * STAGE_BYTES;
        barrier_wait(&stages.full[turn.stage], turn.parity);
        multiply_stage<false>(sums, describe_operand(stage + group * BOX_BYTES, 0),
                              describe_operand(stage + A_BYTES, 0), step > 0);
        matmul_wait<1>();
        if (step > 0)
            release_stage(&stages.empty[last]);
        last = turn.stage;
    }
    matmul_wait<0>();
    if (inner > 0)
        release_stage(&stages.empty[last]);
}

// Half of a tile's columns at a time: registers hold their sums and those of a stage.
template <bool HAS_OTHERS>
static __device__ __forceinline__ void multiply_exactly(float (&sums)[128], stages<GROUPED_STAGES> &stages,
                                                        stage_turn<GROUPED_STAGES> &turn, struct inner_range inner,
                                                        int group) {
#pragma unroll
    for (int i = 0; i < 128; i++)
        sums[i] = 0;
    for (int64_t step = 0; step < inner.count; step += STEP8, turn.next()) {
        uint8_t *stage = stages.memory + turn.stage * STAGE_BYTES;
        barrier_wait(&stages.full[turn.stage], turn.parity);
        if (HAS_OTHERS && ((step == 0 && inner.before > 0) || inner.count - step < STEP8))
            clear_steps(stage, step == 0 ? inner.before : 0, (int)min(inner.count - step, (int64_t)STEP8));
        uint64_t a = describe_operand(stage + group * BOX_BYTES, 0);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float part[64];
            multiply_stage<true>(part, a, describe_operand(stage + A_BYTES + half * HALF_COLUMNS * LINE_BYTES, 0),
                                 false);
            matmul_wait<0>();
#pragma unroll
            for (int i = 0; i < 64; i++)
                sums[half * 64 + i] += part[i];
        }
        release_stage(&stages.empty[turn.stage]);
    }
}

template <grouped_kind KIND_, scaled8 SCALED> struct float8_engine {
    typedef __nv_bfloat16 T;
    typedef struct float8_args ARGS;
    static const grouped_kind KIND = KIND_;
    static const int COPY_REGISTERS = 24, SUM_REGISTERS = 240;
    const ARGS &args;
    float factor;

    __device__ __forceinline__ float8_engine(const ARGS &a)
        : args(a), factor(SCALED == BY_RANGE ? a.a_range[RANGE_FACTOR] * a.b_range[RANGE_FACTOR] : 1.0f) {}

    static __device__ __forceinline__ void copy(stages<GROUPED_STAGES> &stages, const hopper_tiles<KIND> &tiles,
                                                const CUtensorMap *a_map, const CUtensorMap *b_map) {
        stage_turn<GROUPED_STAGES> turn = {0, 1};
        for (int64_t number = blockIdx.x; number < tiles.count; number += gridDim.x) {
            struct hopper_tile tile = tiles.at(number);
            // GROUPED_INPUT: the experts' matrices are side by side.
            struct inner_range inner = inner_of<KIND>(tile);
            int64_t b_first = KIND == GROUPED_INPUT ? tile.expert * tile.inner : inner.first;
            int matrix = KIND == GROUPED_FORWARD ? tile.expert : 0;
            for (int64_t step = 0; step < inner.count; step += STEP8, turn.next()) {
                uint64_t *full = &stages.full[turn.stage];
                uint8_t *a = stages.memory + turn.stage * STAGE_BYTES;
                barrier_wait(&stages.empty[turn.stage], turn.parity);
                barrier_expect(full, STAGE_BYTES);
                copy_box(a, a_map, full, inner.first + step, tile.row, 0);
                copy_box(a + A_BYTES, b_map, full, b_first + step, tile.column, matrix);
            }
        }
    }

    // Times the factors of both operands.
    __device__ __forceinline__ void multiply(float (&sums)[128], stages<GROUPED_STAGES> &stages,
                                             stage_turn<GROUPED_STAGES> &turn, const struct hopper_tile &tile,
                                             int group) const {
        if constexpr (SCALED != BY_RANGE && KIND == GROUPED_WEIGHT)
            multiply_gradients<SCALED == BY_BLOCKS_E5M2>(sums, stages, turn, tile, args, group);
        else if constexpr (SCALED != BY_RANGE)
            multiply_places<KIND, SCALED == BY_BLOCKS_E5M2>(sums, stages, turn, tile, args, group);
        else if constexpr (KIND == GROUPED_FORWARD)
            multiply_short(sums, stages, turn, tile.inner, group);
        else
            multiply_exactly<KIND == GROUPED_WEIGHT>(sums, stages, turn, inner_of<KIND>(tile), group);
#pragma unroll
        for (int i = 0; i < 128 && SCALED == BY_RANGE; i++)
            sums[i] *= factor;
    }
};

template <enum scaled8 SCALED>
static void launch_scaled(struct cuda_device *cuda, const struct op_grouped_matmul *op, const struct float8_args &args,
                          int64_t rows) {
    const int lines[2] = {ROWS, COLUMNS};
#define IN_FLOAT8(KIND) grouped_launch<float8_engine<KIND, SCALED>>(cuda, op, args, lines, rows)
    WITH_GROUPED_KIND(op->kind, IN_FLOAT8);
#undef IN_FLOAT8
}

void grouped_run_float8(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args grouped) {
    bool is_weight = op->kind == GROUPED_WEIGHT;
    int64_t rows = op->a.shape[is_weight ? 1 : 0];
    struct float8_args args = {};
    static_cast<struct grouped_args &>(args) = grouped;
    args.a_range = (const float *)op->a_range.data;
    args.b_range = (const float *)op->b_range.data;
    if (!is_hopper(cuda->index) || !map_encoder())
        die("fp8 matmuls of experts need a GPU of compute capability 9.0");
    if (!is_weight && op->d.dtype != DTYPE_BF16)
        die("the CUDA backend multiplies experts' fp8 to bf16, not %s", dtype_name(op->d.dtype));
    if (op->a_scaling != SCALING_TENSOR && op->a_scaling != SCALING_VECTOR128)
        die("the CUDA backend multiplies experts' fp8 with one range or by blocks of 128");
    if (rows == 0) {  // a tensor map cannot be empty
        if (is_weight && !grouped.adds)
            CHECK_CUDA(cudaMemsetAsync(grouped.d, 0, tensor_bytes(op->d), cuda->streams[STREAM_COMPUTE]));
        return;
    }
    if (op->a_scaling == SCALING_TENSOR) {  // the dtype of the first operand follows from the kind
        launch_scaled<BY_RANGE>(cuda, op, args, rows);
        return;
    }
    args.a_width = op->a_range.shape[1];
    args.b_width = op->b_range.shape[1];
    if (op->a.dtype == DTYPE_E5M2)
        launch_scaled<BY_BLOCKS_E5M2>(cuda, op, args, rows);
    else
        launch_scaled<BY_BLOCKS_E4M3>(cuda, op, args, rows);
}
