// The attention of the CUDA backend: the first implementation that takes the operation, from the fastest to the most
// general. cuDNN; kernels for Hopper GPUs (hopper/attention_hopper*); tensor cores (attention_tensor*); fp32
// arithmetic in tiles, without a mask (attention_forward.cu, attention_backward.cu); and a warp for each query, with
// any mask (attention_masked.cu). Caps of scores are for tensor cores and the last, sinks for those of Hopper GPUs too.
#include "ops/cuda/attention.cuh"

#ifndef BEVATRON_HOPPER
bool hopper_attention_forward(struct cuda_device *cuda, const struct op_attention_forward *op) {
    (void)cuda;
    (void)op;
    return false;
}

bool hopper_attention_backward(struct cuda_device *cuda, const struct op_attention_backward *op) {
    (void)cuda;
    (void)op;
    return false;
}
#endif

extern "C" void cuda_attention_forward(struct device *device, const struct op_attention_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    bool is_plain = attention_has_plain_scores(&op->scores);
    if (tensor_count(op->q) == 0 || (is_plain && cudnn_attention_forward(cuda->cudnn, op)) ||
        hopper_attention_forward(cuda, op) || tensor_attention_forward(cuda, op))
        return;
    if (!is_plain || attention_has_mask(&op->mask))
        masked_attention_forward(cuda, op);
    else
        tiled_attention_forward(cuda, op);
}

// Reasons why attention does not use the fast kernels, each logged once per device.
enum attention_note { NOTE_DROPOUT, NOTE_BIAS, NOTE_MASK, NOTE_LENGTH, NOTE_OTHER, NOTE_PLAIN, NOTE_SCORES };

static void note_once(struct cuda_device *cuda, enum attention_note note, const char *text) {
    if (cuda->attention_notes >> note & 1)
        return;
    cuda->attention_notes |= 1u << note;
    log_info("attention: %s", text);
}

// Logs why cuDNN does not compute a 16-bit backward pass. A shape that cuDNN refuses is reported at that point.
static void note_not_cudnn(struct cuda_device *cuda, const struct op_attention_backward *op) {
    enum { LENGTH_MULTIPLE = 128 };
    if (op->q.dtype == DTYPE_F32 || !cuda->cudnn)
        return;
    if (op->dropout.rate > 0 && !cuda->draws_fast)
        note_once(cuda, NOTE_DROPOUT,
                  cudnn_attention_takes_masks(cuda->cudnn)
                      ? "dropout that is the same on every layout of ranks runs on kernels of our own; "
                        "--fast-attention-dropout, or --attention-dropout 0, would be faster"
                      : "dropout runs on kernels of our own; --attention-dropout 0 would be faster");
    else if (!attention_has_plain_scores(&op->scores))
        note_once(cuda, NOTE_SCORES, "soft caps of scores and sinks run on kernels of our own");
    else if (op->mask.relative_bias.data)
        note_once(cuda, NOTE_BIAS, "biases by distance run on kernels of our own");
    else if (attention_has_mask(&op->mask))
        note_once(cuda, NOTE_MASK, "padding, documents and windows run on kernels of our own here");
    else if (op->q.shape[1] % LENGTH_MULTIPLE != 0 || op->k.shape[1] % LENGTH_MULTIPLE != 0)
        note_once(cuda, NOTE_LENGTH, "lengths that are not a multiple of 128 run on slower kernels of our own");
    else
        note_once(cuda, NOTE_OTHER, "what cuDNN has no plan for runs on slower kernels of our own");
}

extern "C" void cuda_attention_backward(struct device *device, const struct op_attention_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->q) == 0)
        return;
    bool is_plain = attention_has_plain_scores(&op->scores);
    if (is_plain && cudnn_attention_backward(cuda->cudnn, op, cuda->is_deterministic))
        return;
    note_not_cudnn(cuda, op);
    if (hopper_attention_backward(cuda, op) || tensor_attention_backward(cuda, op))
        return;
    if (op->q.dtype != DTYPE_F32)
        note_once(cuda, NOTE_PLAIN,
                  "runs without tensor cores, many times slower: they take heads in multiples of 8, on data-center "
                  "GPUs up to 256 wide, on others up to 128");
    if (!is_plain || attention_has_mask(&op->mask))
        masked_attention_backward(cuda, op);
    else
        tiled_attention_backward(cuda, op);
}
