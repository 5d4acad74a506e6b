// The CPU device itself: its table, its memory, and streams that need no ordering because every operation has finished
// when it returns.
#include "ops/cpu/cpu.h"
#include "ops/cpu/matmul.h"
#include "ops/instant.h"
#include "base/error.h"
#include "base/memory.h"
#include <cblas.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void cpu_run(struct device *device, int64_t count, void (*task)(void *context, int64_t index, int thread),
             const void *context) {
    // Tasks only read their context; the pool, which has other users, passes it on as a plain pointer.
    pool_run(((struct cpu_device *)device)->pool, count, task, (void *)(uintptr_t)context);
}

struct ranges_job {
    int64_t total, size;
    void (*task)(void *context, struct cpu_range range);
    const void *context;
};

static void range_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct ranges_job *job = context;
    job->task((void *)(uintptr_t)job->context, cpu_piece(job->total, job->size, index));
}

void cpu_run_ranges(struct device *device, int64_t total, int64_t size,
                    void (*task)(void *context, struct cpu_range range), const void *context) {
    cpu_run(device, cpu_pieces(total, size), range_task, &(struct ranges_job){total, size, task, context});
}

int64_t cpu_column_block(const struct device *device, int64_t columns) {
    enum { CACHE_LINE = 16 };  // fp32 of one
    int64_t threads = pool_threads(((const struct cpu_device *)device)->pool), best = CPU_COLUMN_BLOCK;
    for (int64_t block = CPU_COLUMN_BLOCK; block >= CACHE_LINE; block -= CACHE_LINE) {
        int64_t turns = cpu_pieces(cpu_pieces(columns, block), threads);
        best = turns * block < cpu_pieces(cpu_pieces(columns, best), threads) * best ? block : best;
    }
    return best;
}

static void cpu_close(struct device *device) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    pool_free(cpu->pool);
    free(cpu->workspace);
    free(cpu->wide);
    free(cpu);
}

const struct cpu_kernel *cpu_kernel(const struct device *device, enum dtype dtype) {
    const struct cpu_kernel *const *kernel = ((const struct cpu_device *)device)->kernels;
    while (*kernel && (*kernel)->dtype != dtype)
        kernel++;
    return *kernel;
}

static bool cpu_supports(const struct device *device, enum dtype dtype) {
    (void)device;
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype_is_scaled(dtype);
}

// Without a kernel for their dtype, 16-bit operands of matmuls are widened first.
static bool cpu_is_fast(const struct device *device, enum dtype dtype) {
    return cpu_kernel(device, dtype) != NULL;
}

static void cpu_describe(const struct device *device, char *text, size_t size) {
    int threads = pool_threads(((const struct cpu_device *)device)->pool);
    const struct cpu_kernel *kernel = cpu_kernel(device, DTYPE_F32), *half = cpu_kernel(device, DTYPE_BF16);
    int length = snprintf(text, size, "CPU, %d %s, matmuls by %s%s", threads, threads == 1 ? "thread" : "threads",
                          kernel ? kernel->name : "OpenBLAS for ", kernel ? "" : openblas_get_corename());
    if (half && length >= 0 && (size_t)length < size)
        (void)snprintf(text + length, size - (size_t)length, " (bf16 ones by %s)", half->name);
}

// Large blocks start on a huge page: a step walks gigabytes, and small pages would cost several percent in address
// translation. A system without huge pages ignores the advice. More than the machine's memory is refused here: the
// system would often grant it and kill the process when it is used.
static void *cpu_alloc(struct device *device, size_t bytes) {
    (void)device;
    const size_t huge_page = (size_t)2 << 20;
    size_t alignment = bytes >= huge_page ? huge_page : 256;
    double machine_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    void *memory = NULL;
    if ((double)bytes > machine_bytes || posix_memalign(&memory, alignment, bytes > 0 ? bytes : 1) != 0) {
        (void)error_set_code(EXIT_CODE_OUT_OF_MEMORY,
                             "cannot allocate %.1f MiB of memory: this machine has %.1f MiB; %s",
                             (double)bytes / 1048576.0, machine_bytes / 1048576.0,
                             (double)bytes > machine_bytes ? "use a larger machine, or more ranks"
                                                           : "end other programs, or raise the limit (ulimit -v)");
        return NULL;
    }
    if (bytes >= huge_page)
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static void cpu_free(struct device *device, void *memory) {
    (void)device;
    free(memory);
}

static void cpu_copy_in(struct device *device, void *to_device, const void *from_host, size_t bytes,
                        enum stream stream) {
    (void)device;
    (void)stream;
    if (bytes > 0)
        memcpy(to_device, from_host, bytes);
}

static void cpu_copy_out(struct device *device, void *to_host, const void *from_device, size_t bytes,
                         enum stream stream) {
    cpu_copy_in(device, to_host, from_device, bytes, stream);
}

struct zero_job {
    unsigned char *memory;
    int64_t bytes;
};
enum { ZERO_CHUNK_BYTES = 1 << 20 };

static void zero_task(void *context, struct cpu_range range) {
    const struct zero_job *job = context;
    memset(job->memory + range.first, 0, (size_t)(range.end - range.first));
}

static void cpu_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    (void)stream;
    struct zero_job job = {memory, (int64_t)bytes};
    cpu_run_ranges(device, job.bytes, ZERO_CHUNK_BYTES, zero_task, &job);
}

static void cpu_share_processors(struct device *device) {
    pool_sleep_at_once(((struct cpu_device *)device)->pool);
}

// clang-format off
static const struct ops cpu_ops = {
    .name = "cpu",
    .is_host_memory = true,
    .close = cpu_close,
    .supports = cpu_supports,
    .is_fast = cpu_is_fast,
    .describe = cpu_describe,
    .share_processors = cpu_share_processors,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .own_bytes = &half_own_bytes,
    .host_alloc = cpu_alloc,
    .host_free = cpu_free,
    .copy_in = cpu_copy_in,
    .copy_out = cpu_copy_out,
    .zero = cpu_zero,
    .profile_start = cpu_profile_start,
    .profile_stop = cpu_profile_stop,
    INSTANT_ENTRIES,
#define IN_ANY_WIDTH(name_) .name_ = half_##name_,
#define AS_IT_IS(name_) .name_ = cpu_##name_,
    ACTIVATION_OPERATIONS(IN_ANY_WIDTH)
    OTHER_OPERATIONS(AS_IT_IS)
#undef IN_ANY_WIDTH
#undef AS_IT_IS
};
// clang-format on

// Returns large blocks to the system when they are freed. Without a fixed threshold the C library keeps all but the
// first: 20 MB of copies that grow to the largest operation of a step in fp16.
static void return_large_blocks(void) {
#ifdef M_MMAP_THRESHOLD
    (void)mallopt(M_MMAP_THRESHOLD, 2 << 20);
#endif
}

int cpu_open(struct device **device, const struct device_options *options) {
    *device = NULL;
    return_large_blocks();
    const struct cpu_kernel *kernels[KERNEL_MOST + 1];
    struct pool *pool = NULL;
    TRY(kernel_choose(kernels, options->cpu_kernels));
    TRY(pool_create(&pool, options->threads));
    // Tasks call OpenBLAS; threads of its own would fight over the cores and make results depend on their number.
    openblas_set_num_threads(1);
    struct cpu_device *cpu = memory_alloc(sizeof *cpu);
    *cpu = (struct cpu_device){.base = {.ops = &cpu_ops, .threads = options->threads}, .pool = pool};
    memcpy(cpu->kernels, kernels, sizeof kernels);
    cpu->workspace = cpu_alloc(&cpu->base, matmul_packed_bytes(options->threads));
    if (!cpu->workspace) {
        cpu_close(&cpu->base);
        return -1;
    }
    *device = &cpu->base;
    return 0;
}
