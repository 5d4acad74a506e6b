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
#ifndef OPS_CUDA_HOPPER_GROUPED_BLOCKS_CUH
#define OPS_CUDA_HOPPER_GROUPED_BLOCKS_CUH

#include "ops/cuda/hopper/grouped_float8.cuh"

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

#endif
