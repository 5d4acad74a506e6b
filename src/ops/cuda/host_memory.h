// Large blocks of page-locked host memory. The driver fills the pages of a block one by one, which takes a minute for
// 75 GB (optimizer states). So a large block is allocated from the system, in huge pages if possible, filled by all
// processors at once, and then registered with the driver.
#ifndef OPS_CUDA_HOST_MEMORY_H
#define OPS_CUDA_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

enum { HOST_MEMORY_MOST = 4 };

struct host_memory {
    void *blocks[HOST_MEMORY_MOST];  // NULL: none
    size_t bytes[HOST_MEMORY_MOST];
};

// Page-locked memory that the GPU reads at the same addresses. NULL if the caller must allocate in another way: the
// block is not large, there are too many, the GPU cannot read such memory, or it cannot be locked.
void *host_memory_take(struct host_memory *memory, int gpu, size_t bytes);
// Frees such a block; false if it is not one.
bool host_memory_give(struct host_memory *memory, void *block);

#endif
