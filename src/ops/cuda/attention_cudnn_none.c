// Replaces attention_cudnn.c in a build without cuDNN: the backend's own kernels do all attention.
#include "ops/cuda/attention_cudnn.h"

int cudnn_attention_libraries(const struct library **list) {
    (void)list;
    return 0;
}

struct cudnn_attention *cudnn_attention_open(const struct cudnn_options *options) {
    (void)options;
    return NULL;
}

void cudnn_attention_close(struct cudnn_attention *attention) {
    (void)attention;
}

void cudnn_attention_describe(const struct cudnn_attention *attention, char *text, size_t size) {
    (void)attention;
    if (size > 0)
        text[0] = 0;
}

bool cudnn_attention_forward(struct cudnn_attention *attention, const struct op_attention_forward *op) {
    (void)attention;
    (void)op;
    return false;
}

bool cudnn_attention_backward(struct cudnn_attention *attention, const struct op_attention_backward *op,
                              bool is_deterministic) {
    (void)attention;
    (void)op;
    (void)is_deterministic;
    return false;
}

bool cudnn_attention_takes_masks(const struct cudnn_attention *attention) {
    (void)attention;
    return false;
}

int64_t cudnn_attention_passes(const struct cudnn_attention *attention) {
    (void)attention;
    return 0;
}

int64_t cudnn_attention_parts(const struct cudnn_attention *attention) {
    (void)attention;
    return 0;
}

void cudnn_attention_cut(struct cudnn_attention *attention, int64_t elements) {
    (void)attention;
    (void)elements;
}
