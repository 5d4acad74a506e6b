// Which micro-kernel serves a dtype on this processor, and tiles that are not whole.
#include "ops/cpu/kernel.h"
#include <stddef.h>

const float kernel_zeros[KERNEL_MOST_COLUMNS];

const struct cpu_kernel *cpu_kernel(enum dtype dtype) {
    if (dtype == DTYPE_F32)
        return kernel_neon();
    return dtype == DTYPE_BF16 ? kernel_neon_bf16() : NULL;
}

// The kernel writes a whole tile elsewhere, from where what is wanted is taken.
void kernel_multiply_part(const struct cpu_kernel *kernel, const struct kernel_tile *tile,
                          const struct kernel_part *part) {
    _Alignas(64) float product[KERNEL_MOST_ROWS * KERNEL_MOST_COLUMNS];
    struct kernel_tile whole = *tile;
    whole.addend = kernel_zeros;
    whole.addend_stride = 0;
    whole.d = product;
    whole.stride = kernel->columns;
    kernel->multiply(&whole);
    for (int64_t i = 0; i < part->rows; i++) {
        float *d = tile->d + i * tile->stride;
        const float *addend = tile->addend + i * tile->addend_stride;
        for (int64_t j = 0; j < part->columns; j++)
            d[j] = part->alpha * product[i * whole.stride + j] + part->addend_factor * addend[j];
    }
}
