// Stands in for ops/cuda/ in a build without CUDA: there are no GPUs, and asking for one says what to do.
#include "ops/attention_parts.h"
#include "ops/device.h"
#include "base/error.h"

int cuda_open(struct device **device, const struct device_options *options) {
    *device = NULL;
    return error_set("cannot open GPU %d: this bevatron was built without CUDA; install the CUDA toolkit and configure "
                     "with -DBEVATRON_CUDA=ON, or run with --device cpu",
                     options->index);
}

int device_libraries(const struct library **list) {
    (void)list;
    return 0;
}

int cuda_count(void) {
    return 0;
}

bool cuda_cudnn_takes_masks(const struct device *device) {
    (void)device;
    return false;
}

int64_t cuda_cudnn_passes(const struct device *device) {
    (void)device;
    return 0;
}

int64_t cuda_cudnn_parts(const struct device *device) {
    (void)device;
    return 0;
}

void cuda_cudnn_cut(struct device *device, int64_t elements) {
    (void)device;
    (void)elements;
}
