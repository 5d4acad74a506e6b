// The micro-kernels that this processor can run, and tiles that are not full.
#include "ops/cpu/kernel.h"
#include "base/error.h"
#include "ops/device.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const float kernel_zeros[KERNEL_MOST_COLUMNS];

// Those of this kind of processor, best first within a dtype, then NULL.
static const struct cpu_kernel *(*const known[KERNEL_MOST + 1])(void) = {
#if defined(__x86_64__)
    kernel_amx,
    kernel_avx512_bf16,
    kernel_avx512,
    kernel_avx2,
#elif defined(__aarch64__)
    kernel_bfmmla,
    kernel_neon,
#endif
};

static bool is_named(const char *name, const char *names, size_t length) {
    return strlen(name) == length && memcmp(name, names, length) == 0;
}

void cpu_list_kernels(char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; known[i] && used < size; i++) {
        const struct cpu_kernel *kernel = known[i]();
        if (kernel)
            used += (size_t)snprintf(text + used, size - used, "%s, ", kernel->name);
    }
    if (used < size)
        (void)snprintf(text + used, size - used, "openblas");
}

// Marks the kernel of this name as chosen; -1 if the processor has no such kernel.
static int mark(bool is_chosen[KERNEL_MOST], const char *name, size_t length) {
    for (int i = 0; known[i]; i++) {
        const struct cpu_kernel *kernel = known[i]();
        if (kernel && is_named(kernel->name, name, length)) {
            is_chosen[i] = true;
            return 0;
        }
    }
    if (is_named("openblas", name, length))
        return 0;
    char list[128];
    cpu_list_kernels(list, sizeof list);
    return error_set("this processor has no matmul kernel \"%.*s\"; choose --cpu-kernels from %s", (int)length, name,
                     list);
}

int kernel_choose(const struct cpu_kernel *chosen[KERNEL_MOST + 1], const char *names) {
    bool is_chosen[KERNEL_MOST] = {false};
    for (const char *name = names; name;) {
        size_t length = strcspn(name, ",");
        TRY(mark(is_chosen, name, length));
        name = name[length] ? name + length + 1 : NULL;
    }
    int count = 0;
    for (int i = 0; known[i]; i++) {
        if ((!names || is_chosen[i]) && known[i]())
            chosen[count++] = known[i]();
    }
    chosen[count] = NULL;
    return 0;
}

// The kernel writes a whole tile to a buffer, from which the wanted part is copied.
void kernel_multiply_part(const struct cpu_kernel *kernel, const struct kernel_tile *tile,
                          const struct kernel_part *part) {
    _Alignas(64) float result[KERNEL_MOST_ROWS * KERNEL_MOST_COLUMNS];
    struct kernel_tile whole = *tile;
    whole.addend = kernel_zeros;
    whole.addend_stride = 0;
    whole.d = result;
    whole.stride = kernel->b.width;
    kernel->multiply(&whole);
    for (int64_t i = 0; i < part->rows; i++) {
        float *d = tile->d + i * tile->stride;
        const float *addend = tile->addend + i * tile->addend_stride;
        for (int64_t j = 0; j < part->columns; j++)
            d[j] = part->alpha * result[i * whole.stride + j] + part->addend_factor * addend[j];
    }
}
