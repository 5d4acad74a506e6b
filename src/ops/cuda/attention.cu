// The attention of the CUDA backend: the first of four implementations that takes the operation, from the fastest to
// the most general. cuDNN; tensor cores (attention_tensor*); fp32 arithmetic in tiles, without a mask
// (attention_forward.cu, attention_backward.cu); and a warp for each query, with any mask (attention_masked.cu).
#include "ops/cuda/attention.cuh"

extern "C" void cuda_attention_forward(struct device *device, const struct op_attention_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->q) == 0 || cudnn_attention_forward(cuda->cudnn, op) || tensor_attention_forward(cuda, op))
        return;
    if (attention_has_mask(&op->mask))
        masked_attention_forward(cuda, op);
    else
        tiled_attention_forward(cuda, op);
}

extern "C" void cuda_attention_backward(struct device *device, const struct op_attention_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->q) == 0 || cudnn_attention_backward(cuda->cudnn, op, cuda->is_deterministic) ||
        tensor_attention_backward(cuda, op))
        return;
    if (attention_has_mask(&op->mask))
        masked_attention_backward(cuda, op);
    else
        tiled_attention_backward(cuda, op);
}
