// Which micro-kernel serves a dtype on this processor.
#include "ops/cpu/kernel.h"
#include <stddef.h>

const struct cpu_kernel *cpu_kernel(enum dtype dtype) {
    if (dtype == DTYPE_F32)
        return kernel_neon();
    return dtype == DTYPE_BF16 ? kernel_neon_bf16() : NULL;
}
