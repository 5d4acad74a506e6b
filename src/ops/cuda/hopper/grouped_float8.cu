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
//
// By blocks, see grouped_blocks.cuh.
#include "ops/cuda/hopper/grouped_blocks.cuh"

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
