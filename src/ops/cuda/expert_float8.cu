// Rows of experts in fp8 and their transpose: the copy to places, and the activation between the two matmuls, in one
// pass over tiles of 128 x 128 (turned.cuh). Places without a source get 0.
#include "ops/cuda/expert_float8.cuh"

template <int KIND, int HALVES>
static __device__ __forceinline__ struct turned_part expert8_part_of(const struct expert8_args &args, int part) {
    const operand_pointers &to = part < HALVES ? args.out : args.result;
    int64_t half = part < HALVES ? part * args.columns : 0;
    struct turned_part place;
    place.y = to.y ? to.y + half : NULL;
    place.transposed = to.transposed ? to.transposed + half * args.rows : NULL;
    place.stride = part < HALVES ? args.columns * HALVES : args.columns;
    place.scale = to.range[RANGE_SCALE];
    place.is_e5m2 = part < HALVES && (KIND == EXPERT8_BACKWARD || (KIND == EXPERT8_ROWS && args.is_e5m2));
    return place;
}

// Tiles of columns blockIdx.x and every gridDim.x'th, of rows blockIdx.y and every gridDim.y'th. In backward a block
// has all columns of its rows.
template <int KIND, bool IS_GATED, bool IS_SILU>
static __global__ void __launch_bounds__(QUANTIZE_THREADS, KIND == EXPERT8_BACKWARD && IS_GATED && !IS_SILU ? 1 : 2)
    expert8_kernel(struct expert8_args args) {
    constexpr int HALVES = KIND == EXPERT8_BACKWARD && IS_GATED ? 2 : 1, PARTS = HALVES + (KIND == EXPERT8_BACKWARD);
    __shared__ __align__(16) uint32_t tile[PARTS][TILE * WORDS];
    int across = thread_across(), down = thread_down();
    int64_t rows = args.rows, columns = args.columns;
    struct turned_part to[PARTS];
    uint32_t before = range_seen(args.out.range);
    float seen = 0;
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        to[part] = expert8_part_of<KIND, HALVES>(args, part);
    for (int64_t base = (int64_t)blockIdx.y * TILE; base < rows; base += (int64_t)gridDim.y * TILE) {
        float sum[PASSES][4] = {};
        for (int64_t first = (int64_t)blockIdx.x * TILE; first < columns; first += (int64_t)gridDim.x * TILE) {
            int64_t column = first + 8 * across;
#pragma unroll(IS_SILU ? PASSES : 1)
            for (int pass = 0; pass < PASSES; pass++) {
                int64_t row = base + 4 * (down + ROW_THREADS * pass);
                if (column >= columns || row >= rows)
                    continue;
                struct expert8_row in[4];  // read ahead, except around calls, which would have to save them
#pragma unroll
                for (int r = 0; r < 4 && IS_SILU; r++)
                    expert8_fetch<KIND, IS_GATED>(&in[r], args, row + r, column);
                auto values = [&](float value[MOST_PARTS][8], int r) {
                    if (!IS_SILU)
                        expert8_fetch<KIND, IS_GATED>(&in[r], args, row + r, column);
                    sum[pass][r] += expert8_values<KIND, IS_GATED, IS_SILU>(value, in[r], args);
                };
                seen = store_parts<PARTS, HALVES>(tile, to, row, column, seen, values);
            }
            write_parts<PARTS>(to, tile, first, base, columns, rows);
        }
        if (KIND == EXPERT8_BACKWARD)
            write_dweights(args, (float *)tile[0], sum, base);
    }
    range_see(args.out.range, before, magnitude_bits(seen));
}

template <int KIND, bool IS_GATED> static void launch_expert8(struct cuda_device *cuda, struct expert8_args args) {
    int64_t across = KIND == EXPERT8_BACKWARD ? 1 : divide_up(args.columns, TILE);
    dim3 grid(grid_x(across), grid_yz(min(divide_up(args.rows, TILE), (int64_t)65535)));
    auto kernel = expert8_kernel<KIND, IS_GATED, KIND == EXPERT8_ROWS>;
    if constexpr (IS_GATED)
        if (expert8_is_silu(args))
            kernel = expert8_kernel<KIND, true, true>;
    LAUNCH(cuda, kernel, grid, QUANTIZE_THREADS, 0, args);
}

static struct operand_pointers pointers_of(const struct operand *to) {
    struct operand_pointers pointers = {(uint8_t *)to->value.data, (uint8_t *)to->transposed.data,
                                        (float *)to->range.data};
    return pointers;
}

// Arguments common to all three kinds.
static struct expert8_args expert8_args_of(struct tensor x, struct tensor sources, int64_t columns) {
    struct expert8_args args = {};
    if (x.dtype != DTYPE_BF16)
        die("the CUDA backend quantizes bf16 to fp8, not %s", dtype_name(x.dtype));
    args.x = (const __nv_bfloat16 *)x.data;
    args.sources = (const int32_t *)sources.data;
    args.rows = sources.shape[0];
    args.columns = columns;
    return args;
}

extern "C" void cuda_quantize_slots(struct device *device, const struct op_quantize_slots *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct expert8_args args = expert8_args_of(op->x, op->sources, op->x.shape[1]);
    args.out = pointers_of(&op->y);
    args.per_row = (int)op->per_row;
    args.activation = ACTIVATION_SILU;  // there is none
    args.is_e5m2 = (op->y.value.data ? op->y.value.dtype : op->y.transposed.dtype) == DTYPE_E5M2;
    if (args.rows == 0 || tensor_count(op->x) == 0)
        return;
    if (op->y.scaling != SCALING_TENSOR)
        expert_blocks_run(cuda, args, EXPERT8_ROWS, false, &op->y, NULL);
    else
        launch_expert8<EXPERT8_ROWS, false>(cuda, args);
}

extern "C" void cuda_quantize_expert_forward(struct device *device, const struct op_quantize_expert_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct expert8_args args = expert8_args_of(op->x, op->sources, op->x.shape[1] / (op->is_gated ? 2 : 1));
    args.out = pointers_of(&op->y);
    args.weights = (const float *)op->weights.data;
    args.activation = op->activation;
    args.rule = op->rule;
    if (tensor_count(op->x) == 0)
        return;
    if (op->y.scaling != SCALING_TENSOR)
        expert_blocks_run(cuda, args, EXPERT8_FORWARD, op->is_gated, &op->y, NULL);
    else if (op->is_gated)
        launch_expert8<EXPERT8_FORWARD, true>(cuda, args);
    else
        launch_expert8<EXPERT8_FORWARD, false>(cuda, args);
}

extern "C" void cuda_quantize_expert_backward(struct device *device, const struct op_quantize_expert_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct expert8_args args = expert8_args_of(op->x, op->sources, op->dy.shape[1]);
    args.out = pointers_of(&op->dx);
    args.result = pointers_of(&op->y);
    args.dy = (const __nv_bfloat16 *)op->dy.data;
    args.weights = (const float *)op->weights.data;
    args.dweights = (float *)op->dweights.data;
    args.activation = op->activation;
    args.rule = op->rule;
    // For slots without a place.
    CHECK_CUDA(cudaMemsetAsync(args.dweights, 0, tensor_bytes(op->dweights), cuda->streams[STREAM_COMPUTE]));
    if (tensor_count(op->x) == 0)
        return;
    if (op->dx.scaling != SCALING_TENSOR)
        expert_blocks_run(cuda, args, EXPERT8_BACKWARD, op->is_gated, &op->dx, &op->y);
    else if (op->is_gated)
        launch_expert8<EXPERT8_BACKWARD, true>(cuda, args);
    else
        launch_expert8<EXPERT8_BACKWARD, false>(cuda, args);
}
