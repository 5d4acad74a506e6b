// Rows of experts before they are stored in fp8: copied to places, and between the two matmuls.
#ifndef OPS_CUDA_EXPERT_FLOAT8_CUH
#define OPS_CUDA_EXPERT_FLOAT8_CUH

#include "ops/cuda/activation.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/turned.cuh"

enum expert8_kind { EXPERT8_ROWS, EXPERT8_FORWARD, EXPERT8_BACKWARD };

struct operand_pointers {
    uint8_t *y, *transposed;
    float *range;
};

struct expert8_args {
    struct operand_pointers out, result;  // result: of the activation, in backward
    const __nv_bfloat16 *x, *dy;
    const int32_t *sources;
    const float *weights;
    float *dweights;
    int64_t rows, columns;  // columns: of y, or half of them if dx has two halves
    int per_row;
    enum activation activation;
    struct glu_rule rule;
    bool is_e5m2;
};

// A thread's inputs from a place's row: x (its gate with a gated unit), up, and dy.
struct expert8_row {
    eight<__nv_bfloat16> x, up, dy;
    int source;
};

template <int KIND, bool IS_GATED>
static __device__ __forceinline__ void expert8_fetch(struct expert8_row *to, const struct expert8_args &args,
                                                     int64_t place, int64_t column) {
    int64_t columns = args.columns, row = place;
    to->source = args.sources[place];
    if (KIND == EXPERT8_ROWS)
        row = max(to->source, 0) / args.per_row;
    const __nv_bfloat16 *x = args.x + row * columns * (IS_GATED ? 2 : 1);
    to->x = fetch8(x, column, columns, true);
    if (IS_GATED)
        to->up = fetch8(x + columns, column, columns, true);
    if (KIND == EXPERT8_BACKWARD)
        to->dy = fetch8(args.dy + row * columns, column, columns, true);
}

// Llama's gated unit has its own code path (IS_SILU). Rare units use the path of any activation: those without a gate,
// and in blocks those whose halves are not whole blocks. Rows that are only copied have no activation.
static __device__ __host__ __forceinline__ bool expert8_is_silu(const struct expert8_args &args) {
    return args.activation == ACTIVATION_SILU && args.rule.limit == 0 && args.rule.offset == 0;
}

// The eight values of each part; returns the row's share of its weight's gradient. IS_SILU: a unit without limits.
template <int KIND, bool IS_GATED, bool IS_SILU>
static __device__ __forceinline__ float expert8_values(float value[MOST_PARTS][8], const struct expert8_row &row,
                                                       const struct expert8_args &args) {
    bool is_there = row.source >= 0;
    float x[8], up[8], dy[8], dweight = 0;
    float weight = KIND != EXPERT8_ROWS && is_there ? args.weights[row.source] : 0.0f;
    unpack8(x, row.x);
    if (IS_GATED)
        unpack8(up, row.up);
    if (KIND == EXPERT8_BACKWARD)
        unpack8(dy, row.dy);
    bool is_silu = IS_SILU || expert8_is_silu(args);
    eight_gates gates = {};
    if (KIND != EXPERT8_ROWS && !IS_SILU) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            gates.x[i] = IS_GATED ? glu_gate(args.rule, x[i]) : x[i];
        gates = any_gates<__nv_bfloat16>(args.activation, gates);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (KIND == EXPERT8_ROWS) {
            value[0][i] = is_there ? x[i] : 0.0f;
            continue;
        }
        float2 at =
            IS_SILU ? activation_at<__nv_bfloat16>(ACTIVATION_SILU, x[i]) : make_float2(gates.x[i], gates.slope[i]);
        float other = !IS_GATED ? 1.0f : is_silu ? up[i] : glu_up(args.rule, up[i]), y = at.x * other;
        value[KIND == EXPERT8_BACKWARD ? 1 + IS_GATED : 0][i] = is_there ? weight * y : 0.0f;
        if (KIND != EXPERT8_BACKWARD)
            continue;
        dweight += dy[i] * y;
        bool has_rule = IS_GATED && !IS_SILU;
        bool moves = is_there && !(has_rule && !glu_gate_moves(args.rule, x[i]));
        value[0][i] = moves ? weight * dy[i] * other * at.y : 0.0f;
        if (IS_GATED)
            value[1][i] = is_there && !(has_rule && !glu_up_moves(args.rule, up[i])) ? weight * dy[i] * at.x : 0.0f;
    }
    return dweight;
}

// Writes the weight gradients of a tile's rows from the threads' partial sums: eight lanes of two warps share a row.
static __device__ __forceinline__ void write_dweights(const struct expert8_args &args, float *shared,
                                                      const float (&sum)[PASSES][4], int64_t base) {
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float total = sum[pass][r];
#pragma unroll
            for (int offset = 1; offset < 8; offset *= 2)
                total += __shfl_xor_sync(0xFFFFFFFFu, total, offset);
            if (threadIdx.x % 8 == 0)
                shared[threadIdx.x / 32 % 2 * TILE + 4 * (thread_down() + ROW_THREADS * pass) + r] = total;
        }
    __syncthreads();
    int64_t place = base + threadIdx.x;
    if (threadIdx.x < TILE && place < args.rows && args.sources[place] >= 0)
        args.dweights[args.sources[place]] = shared[threadIdx.x] + shared[TILE + threadIdx.x];
    __syncthreads();
}

// Stores by blocks of 128: the rows at their places, or the activation or its gradient, to `out`, and in backward the
// activation's result to `result`.
void expert_blocks_run(struct cuda_device *cuda, const struct expert8_args &args, enum expert8_kind kind, bool is_gated,
                       const struct operand *out, const struct operand *result);

#endif
