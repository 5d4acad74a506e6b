// Values that are computed in registers and stored in fp8: rows of a matrix or of experts, an activation of theirs, or
// its gradient and its result. A quantizer says which; the kernels for one range (here) and for blocks of 128
// (expert_blocks.cu) take their values from it.
#ifndef OPS_CUDA_QUANTIZER_CUH
#define OPS_CUDA_QUANTIZER_CUH

#include "ops/cuda/activation.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/blocks.cuh"

enum { MOST_HALVES = 2 };

struct operand_pointers {
    uint8_t *y, *transposed;  // (N, C), (C, N) or NULL
    float *range;
};

struct quantizer_args {
    struct operand_pointers out, result;  // result: of the activation, E4M3, with its gradient
    const __nv_bfloat16 *x, *dy, *bias;   // dy and bias may be NULL
    float *partial;                       // (row blocks, C): column sums, or NULL
    int64_t rows, columns;                // columns: of y, or half of them if y has two halves
    enum activation activation;
    bool is_e5m2;  // of plain values
    // Of experts: a place without a source gets 0.
    const int32_t *sources;
    const float *weights;
    float *dweights;
    int per_row;
    struct glu_rule rule;
};

// Activations with their own code paths, with plain limits of gated units; the others share a slower one. Plain values
// have none, and may be of either dtype.
enum { FAST_GELU, FAST_SILU, ANY, AS_E4M3, AS_E5M2 };

template <int KIND_, int FUNCTION_, bool HAS_RESULT, bool IS_EXPERT_> struct quantizer {
    static const int KIND = KIND_, FUNCTION = FUNCTION_;
    static const bool IS_EXPERT = IS_EXPERT_, IS_GRADIENT = KIND >= QUANTIZE_ACTIVATION_GRADIENT;
    static const bool IS_GATED = KIND == QUANTIZE_GLU || KIND == QUANTIZE_GLU_GRADIENT;
    static const bool HAS_RULE = IS_EXPERT && IS_GATED && FUNCTION == ANY;
    static const int HALVES = KIND == QUANTIZE_GLU_GRADIENT ? 2 : 1, PARTS = HALVES + HAS_RESULT;
    // Inputs are read ahead, except around calls, which would have to save them.
    static const bool READS_AHEAD = FUNCTION != ANY;
    static const int UNROLLED = IS_EXPERT && READS_AHEAD ? PASSES : 1;
    static const int BLOCKS = KIND != QUANTIZE_GLU_GRADIENT ? 3 - IS_EXPERT : IS_EXPERT && FUNCTION == ANY ? 1 : 2;
};

// A thread's inputs from one row: x (its gate with a gated unit), up, and dy.
struct quantizer_row {
    eight<__nv_bfloat16> x, up, dy;
    int source;
};

template <typename Q>
static __device__ __forceinline__ void quantizer_fetch(struct quantizer_row *to, const struct quantizer_args &args,
                                                       int64_t place, int64_t column) {
    int64_t columns = args.columns, row = place;
    if (Q::IS_EXPERT)
        to->source = args.sources[place];
    if (Q::IS_EXPERT && Q::KIND == QUANTIZE_PLAIN)
        row = max(to->source, 0) / args.per_row;
    const __nv_bfloat16 *x = args.x + row * columns * (Q::IS_GATED ? 2 : 1);
    to->x = fetch8(x, column, columns, true);
    if (Q::IS_GATED)
        to->up = fetch8(x + columns, column, columns, true);
    if (Q::IS_GRADIENT)
        to->dy = fetch8(args.dy + row * columns, column, columns, true);
}

// Value and slope at x; `any` has those of an activation without a code path of its own.
template <int FUNCTION> static __device__ __forceinline__ float2 function_at(float x, float2 any) {
    if (FUNCTION == FAST_GELU || FUNCTION == FAST_SILU)
        return activation_at<__nv_bfloat16>(FUNCTION == FAST_GELU ? ACTIVATION_GELU_TANH : ACTIVATION_SILU, x);
    return any;
}

// The eight values of a row, with QUANTIZE_GLU_GRADIENT those of its other half, followed by the activation's result.
// Returns the row's share of its weight's gradient.
template <typename Q>
static __device__ __forceinline__ float quantizer_values(float value[MOST_PARTS][8], const struct quantizer_row &row,
                                                         const float bias[MOST_HALVES][8],
                                                         const struct quantizer_args &args) {
    bool is_there = !Q::IS_EXPERT || row.source >= 0;
    float x[8], up[8], dy[8], dweight = 0;
    float weight = Q::IS_EXPERT && Q::KIND != QUANTIZE_PLAIN && is_there ? args.weights[row.source] : 1.0f;
    eight_gates any = {};
    unpack8(x, row.x);
    if (Q::IS_GATED)
        unpack8(up, row.up);
    if (Q::IS_GRADIENT)
        unpack8(dy, row.dy);
    if (Q::KIND != QUANTIZE_PLAIN && Q::FUNCTION == ANY) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            any.x[i] = Q::HAS_RULE ? glu_gate(args.rule, x[i]) : Q::IS_EXPERT ? x[i] : x[i] + bias[0][i];
        any = any_gates<__nv_bfloat16>(args.activation, any);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (Q::KIND == QUANTIZE_PLAIN) {
            value[0][i] = is_there ? x[i] : 0.0f;
            continue;
        }
        float2 at =
            function_at<Q::FUNCTION>(Q::IS_EXPERT ? x[i] : x[i] + bias[0][i], make_float2(any.x[i], any.slope[i]));
        float other = 1;
        if (Q::IS_GATED)
            other = Q::HAS_RULE ? glu_up(args.rule, up[i]) : Q::IS_EXPERT ? up[i] : up[i] + bias[1][i];
        float y = at.x * other;
        if (Q::PARTS > Q::HALVES || !Q::IS_GRADIENT)
            value[Q::IS_GRADIENT ? Q::HALVES : 0][i] = is_there ? weight * y : 0.0f;
        if (!Q::IS_GRADIENT)
            continue;
        dweight += dy[i] * y;
        bool moves = is_there && !(Q::HAS_RULE && !glu_gate_moves(args.rule, x[i]));
        value[0][i] = moves ? weight * dy[i] * other * at.y : 0.0f;
        if (Q::IS_GATED)
            value[1][i] = is_there && !(Q::HAS_RULE && !glu_up_moves(args.rule, up[i])) ? weight * dy[i] * at.x : 0.0f;
    }
    return dweight;
}

// Column sums of the block's rows, in the order of its row threads.
template <int HALVES>
static __device__ __forceinline__ void write_partial(const struct quantizer_args &args, float *shared,
                                                     const float total[HALVES][8]) {
    int across = thread_across(), down = thread_down();
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++)
            shared[down * TILE + 8 * across + i] = total[half][i];
        __syncthreads();
        int64_t column = (int64_t)blockIdx.x * TILE + threadIdx.x;
        if (threadIdx.x >= TILE || column >= args.columns)
            continue;
        float sum = 0;
        for (int i = 0; i < ROW_THREADS; i++)
            sum += shared[i * TILE + threadIdx.x];
        args.partial[(int64_t)blockIdx.y * args.columns * HALVES + half * args.columns + column] = sum;
    }
}

// Writes the weight gradients of a tile's rows from the threads' partial sums: eight lanes of two warps share a row.
static __device__ __forceinline__ void write_dweights(const struct quantizer_args &args, float *shared,
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

// ---- With one range ----

template <typename Q>
static __device__ __forceinline__ struct turned_part part_of(const struct quantizer_args &args, int part) {
    bool is_result = part == Q::HALVES;
    const operand_pointers &to = is_result ? args.result : args.out;
    int64_t first = is_result ? 0 : part * args.columns;
    struct turned_part place;
    place.y = to.y ? to.y + first : NULL;
    place.transposed = to.transposed ? to.transposed + first * args.rows : NULL;
    place.stride = args.columns * (is_result ? 1 : Q::HALVES);
    place.scale = to.range ? to.range[RANGE_SCALE] : 0.0f;
    place.is_e5m2 = !is_result && (Q::IS_GRADIENT || Q::FUNCTION == AS_E5M2);
    return place;
}

// Tiles of columns blockIdx.x and every gridDim.x'th, of rows blockIdx.y and every gridDim.y'th. A block has all
// columns of its rows for the gradients of experts' weights, and one tile of columns for their sums.
template <typename Q>
static __global__ void __launch_bounds__(QUANTIZE_THREADS, Q::BLOCKS) quantizer_kernel(struct quantizer_args args) {
    constexpr int HALVES = Q::HALVES, PARTS = Q::PARTS, UNROLLED = Q::UNROLLED;
    __shared__ __align__(16) uint32_t tile[PARTS][TILE * WORDS];
    int down = thread_down();
    int64_t rows = args.rows, columns = args.columns, start = (int64_t)blockIdx.x * TILE;
    float total[HALVES][8] = {}, bias[MOST_HALVES][8] = {}, seen = 0;
    struct turned_part to[PARTS];
    uint32_t before = range_seen(args.out.range);
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        to[part] = part_of<Q>(args, part);
    if (!Q::IS_EXPERT && args.bias && start + 8 * thread_across() < columns) {
        load8(bias[0], args.bias, start + 8 * thread_across(), columns, true);
        if (Q::IS_GATED)
            load8(bias[1], args.bias + columns, start + 8 * thread_across(), columns, true);
    }
    for (int64_t base = (int64_t)blockIdx.y * TILE; base < rows; base += (int64_t)gridDim.y * TILE) {
        float sum[PASSES][4] = {};
        for (int64_t first = start; first < columns; first += (int64_t)gridDim.x * TILE) {
            int64_t column = first + 8 * thread_across();
#pragma unroll(UNROLLED)
            for (int pass = 0; pass < PASSES; pass++) {
                int64_t row = base + 4 * (down + ROW_THREADS * pass);
                if (column >= columns || row >= rows)
                    continue;
                struct quantizer_row in[4];
#pragma unroll
                for (int r = 0; r < 4 && Q::READS_AHEAD; r++)
                    quantizer_fetch<Q>(&in[r], args, row + r, column);
                auto values = [&](float value[MOST_PARTS][8], int r) {
                    if (!Q::READS_AHEAD)
                        quantizer_fetch<Q>(&in[r], args, row + r, column);
                    float dweight = quantizer_values<Q>(value, in[r], bias, args);
                    if (Q::IS_EXPERT && Q::IS_GRADIENT)
                        sum[pass][r] += dweight;
#pragma unroll
                    for (int i = 0; i < HALVES * 8 && !Q::IS_EXPERT && args.partial; i++)
                        total[i / 8][i % 8] += value[i / 8][i % 8];
                };
                seen = store_parts<PARTS, HALVES>(tile, to, row, column, seen, values);
            }
            write_parts<PARTS>(to, tile, first, base, columns, rows);
        }
        if (Q::IS_EXPERT && Q::IS_GRADIENT)
            write_dweights(args, (float *)tile[0], sum, base);
    }
    range_see(args.out.range, before, magnitude_bits(seen));
    if (!Q::IS_EXPERT && args.partial)
        write_partial<HALVES>(args, (float *)tile[0], total);
}

// ---- Choice ----

// A result that is not wanted has kernels without it, but for rare activations.
template <int KIND, int FUNCTION, bool IS_EXPERT, typename RUN>
static void with_result(const struct quantizer_args &args, const RUN &run) {
    constexpr bool IS_GRADIENT = KIND >= QUANTIZE_ACTIVATION_GRADIENT, IS_OPTIONAL = !IS_EXPERT && FUNCTION != ANY;
    if constexpr (IS_GRADIENT && IS_OPTIONAL)
        if (!args.result.y && !args.result.transposed)
            return run(quantizer<KIND, FUNCTION, false, IS_EXPERT>());
    run(quantizer<KIND, FUNCTION, IS_GRADIENT, IS_EXPERT>());
}

// Experts without a gate are rare.
template <int KIND, bool IS_EXPERT, typename RUN>
static void with_function(const struct quantizer_args &args, const RUN &run) {
    bool is_plain = args.rule.limit == 0 && args.rule.offset == 0;
    if constexpr (!IS_EXPERT)
        if (args.activation == ACTIVATION_GELU_TANH)
            return with_result<KIND, FAST_GELU, IS_EXPERT>(args, run);
    if constexpr (!IS_EXPERT || KIND == QUANTIZE_GLU || KIND == QUANTIZE_GLU_GRADIENT)
        if (args.activation == ACTIVATION_SILU && is_plain)
            return with_result<KIND, FAST_SILU, IS_EXPERT>(args, run);
    with_result<KIND, ANY, IS_EXPERT>(args, run);
}

// Calls run with the quantizer of a kind of values.
template <bool IS_EXPERT, typename RUN>
static void with_quantizer(enum quantize_kind kind, const struct quantizer_args &args, const RUN &run) {
    switch (kind) {
    case QUANTIZE_PLAIN:
        if (args.is_e5m2)
            run(quantizer<QUANTIZE_PLAIN, AS_E5M2, false, IS_EXPERT>());
        else
            run(quantizer<QUANTIZE_PLAIN, AS_E4M3, false, IS_EXPERT>());
        break;
    case QUANTIZE_ACTIVATION:
        with_function<QUANTIZE_ACTIVATION, IS_EXPERT>(args, run);
        break;
    case QUANTIZE_GLU:
        with_function<QUANTIZE_GLU, IS_EXPERT>(args, run);
        break;
    case QUANTIZE_ACTIVATION_GRADIENT:
        with_function<QUANTIZE_ACTIVATION_GRADIENT, IS_EXPERT>(args, run);
        break;
    case QUANTIZE_GLU_GRADIENT:
        with_function<QUANTIZE_GLU_GRADIENT, IS_EXPERT>(args, run);
        break;
    }
}

static inline struct operand_pointers pointers_of(const struct operand *to) {
    return {(uint8_t *)to->value.data, (uint8_t *)to->transposed.data, (float *)to->range.data};
}

static inline bool is_stored_as_e5m2(const struct operand *to) {
    return (to->value.data ? to->value : to->transposed).dtype == DTYPE_E5M2;
}

// Arguments common to all kinds of values.
static inline struct quantizer_args quantizer_args_of(struct tensor x, int64_t rows, int64_t columns) {
    struct quantizer_args args = {};
    if (x.dtype != DTYPE_BF16)
        die("the CUDA backend quantizes bf16 to fp8, not %s", dtype_name(x.dtype));
    args.x = (const __nv_bfloat16 *)x.data;
    args.rows = rows;
    args.columns = columns;
    return args;
}

// Stores by blocks of 128, with `out` and in backward `result` in place of those of args.
void expert_blocks_run(struct cuda_device *cuda, const struct quantizer_args &args, enum quantize_kind kind,
                       const struct operand *out, const struct operand *result);

#endif
