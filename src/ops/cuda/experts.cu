// Mixtures of experts: the kernels follow.
#include "ops/cuda/cuda.cuh"

#define MISSING(name_)                                                                                                 \
    extern "C" void cuda_##name_(struct device *device, const struct op_##name_ *op) {                                 \
        (void)device, (void)op;                                                                                        \
        die("op_" #name_ " is not built for GPUs yet; use --device cpu");                                              \
    }
MISSING(route_forward)
MISSING(route_backward)
MISSING(balance_forward)
MISSING(balance_backward)
MISSING(balance_bias)
MISSING(sort_slots)
MISSING(gather_slots)
MISSING(sum_slots)
MISSING(slot_bias_backward)
MISSING(expert_activation_forward)
MISSING(expert_activation_backward)
MISSING(grouped_matmul)
