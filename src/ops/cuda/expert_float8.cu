// Rows of experts in fp8 and their transpose: the copy to places, and the activation between the two matmuls, in one
// pass over tiles of 128 x 128 (blocks.cuh).
#include "ops/cuda/quantizer.cuh"

static struct quantizer_args expert_args(struct tensor x, struct tensor sources, int64_t columns) {
    struct quantizer_args args = quantizer_args_of(x, sources.shape[0], columns);
    args.sources = (const int32_t *)sources.data;
    return args;
}

static void expert_run(struct cuda_device *cuda, struct quantizer_args args, enum quantize_kind kind,
                       const struct operand *out, const struct operand *result) {
    int64_t across = kind >= QUANTIZE_ACTIVATION_GRADIENT ? 1 : divide_up(args.columns, TILE);
    dim3 grid(grid_x(across), grid_yz(min(divide_up(args.rows, TILE), (int64_t)65535)));
    args.is_e5m2 = is_stored_as_e5m2(out);
    args.out = pointers_of(out);
    if (result)
        args.result = pointers_of(result);
    if (args.rows == 0 || args.columns == 0)
        return;
    if (out->scaling != SCALING_TENSOR)
        expert_blocks_run(cuda, args, kind, out, result);
    else
        with_quantizer<true>(kind, args, [&](auto quantizer) {
            LAUNCH(cuda, quantizer_kernel<decltype(quantizer)>, grid, QUANTIZE_THREADS, 0, args);
        });
}

extern "C" void cuda_quantize_slots(struct device *device, const struct op_quantize_slots *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct quantizer_args args = expert_args(op->x, op->sources, op->x.shape[1]);
    args.per_row = (int)op->per_row;
    if (tensor_count(op->x) > 0)
        expert_run(cuda, args, QUANTIZE_PLAIN, &op->y, NULL);
}

extern "C" void cuda_quantize_expert_forward(struct device *device, const struct op_quantize_expert_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct quantizer_args args = expert_args(op->x, op->sources, op->x.shape[1] / (op->is_gated ? 2 : 1));
    args.weights = (const float *)op->weights.data;
    args.activation = op->activation;
    args.rule = op->rule;
    expert_run(cuda, args, op->is_gated ? QUANTIZE_GLU : QUANTIZE_ACTIVATION, &op->y, NULL);
}

extern "C" void cuda_quantize_expert_backward(struct device *device, const struct op_quantize_expert_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct quantizer_args args = expert_args(op->x, op->sources, op->dy.shape[1]);
    args.dy = (const __nv_bfloat16 *)op->dy.data;
    args.weights = (const float *)op->weights.data;
    args.dweights = (float *)op->dweights.data;
    args.activation = op->activation;
    args.rule = op->rule;
    // For slots without a place.
    CHECK_CUDA(cudaMemsetAsync(args.dweights, 0, tensor_bytes(op->dweights), cuda->streams[STREAM_COMPUTE]));
    expert_run(cuda, args, op->is_gated ? QUANTIZE_GLU_GRADIENT : QUANTIZE_ACTIVATION_GRADIENT, &op->dx, &op->y);
}
