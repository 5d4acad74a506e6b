// See host_memory.h.
#include "ops/cuda/host_memory.h"

#include "base/error.h"
#include "base/pool.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_BYTES ((size_t)256 << 20)
#define PART_BYTES ((size_t)64 << 20)  // filled by a thread at a time

struct filling {
    unsigned char *memory;
    size_t bytes;
};

static void fill_part(void *context, int64_t index, int thread) {
    const struct filling *filling = context;
    size_t first = (size_t)index * PART_BYTES, left = filling->bytes - first;
    (void)thread;
    memset(filling->memory + first, 0, left < PART_BYTES ? left : PART_BYTES);
}

static void fill(void *memory, size_t bytes) {
    struct filling filling = {memory, bytes};
    struct pool *pool = NULL;
    if (pool_create(&pool, pool_available_processors()) < 0)
        error_clear();  // locking fills the pages instead
    else
        pool_run(pool, (int64_t)((bytes + PART_BYTES - 1) / PART_BYTES), fill_part, &filling);
    pool_free(pool);
}

void *host_memory_take(struct host_memory *memory, int gpu, size_t bytes) {
    int free_place = 0, is_read_there = 0;
    while (free_place < HOST_MEMORY_MOST && memory->blocks[free_place])
        free_place++;
    if (bytes < LARGE_BYTES || free_place == HOST_MEMORY_MOST ||
        cudaDeviceGetAttribute(&is_read_there, cudaDevAttrCanUseHostPointerForRegisteredMem, gpu) != cudaSuccess ||
        !is_read_there)
        return NULL;
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    (void)madvise(block, bytes, MADV_HUGEPAGE);
    fill(block, bytes);
    if (cudaHostRegister(block, bytes, cudaHostRegisterPortable) != cudaSuccess) {
        (void)cudaGetLastError();  // clears the error for later checks
        (void)munmap(block, bytes);
        return NULL;
    }
    memory->blocks[free_place] = block;
    memory->bytes[free_place] = bytes;
    return block;
}

bool host_memory_give(struct host_memory *memory, void *block) {
    for (int i = 0; i < HOST_MEMORY_MOST; i++)
        if (memory->blocks[i] == block) {
            cudaError_t status = cudaHostUnregister(block);
            if (status != cudaSuccess)
                die("cannot unlock host memory: %s", cudaGetErrorString(status));
            (void)munmap(block, memory->bytes[i]);
            memory->blocks[i] = NULL;
            return true;
        }
    return false;
}
