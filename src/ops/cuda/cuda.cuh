// Host code common to the CUDA backend: the device struct, checked calls and launches, and the entries of the table.
// Kernels use elements.cuh (reading and writing any dtype), lanes.cuh (sums within a block) and dropout.cuh.
//
// Three rules keep the numbers reproducible: no floating-point atomics; every sum has a fixed order that depends on
// shapes alone, never on the number of multiprocessors; and Philox words depend on an element's identity, exactly as in
// base/rng.h on the host.
#ifndef OPS_CUDA_CUDA_CUH
#define OPS_CUDA_CUDA_CUH

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The project's headers are C17: C++ spells this keyword differently, and their functions have C linkage.
#define _Noreturn [[noreturn]]
extern "C" {
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "ops/choices.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/cuda/libraries.h"
#include "ops/device.h"
#include "ops/ops.h"
}
#undef _Noreturn

// Any call may run out of memory, which has its own exit code: kernels and libraries are loaded at first use.
static inline enum exit_code cuda_exit_code(cudaError_t status) {
    return status == cudaErrorMemoryAllocation ? EXIT_CODE_OUT_OF_MEMORY : EXIT_CODE_ERROR;
}

static inline enum exit_code cublas_exit_code(cublasStatus_t status) {
    return status == CUBLAS_STATUS_ALLOC_FAILED ? EXIT_CODE_OUT_OF_MEMORY : EXIT_CODE_ERROR;
}

static inline const char *cuda_remedy(enum exit_code code) {
    return code == EXIT_CODE_OUT_OF_MEMORY ? DEVICE_FULL_REMEDY : "";
}

#define CHECK_CUDA(call)                                                                                               \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess)                                                                                    \
            die_code(cuda_exit_code(status_), "CUDA: %s (%s) in %s%s", cudaGetErrorString(status_),                    \
                     cudaGetErrorName(status_), #call, cuda_remedy(cuda_exit_code(status_)));                          \
    } while (0)

// A call of a function of the library.
#define CHECK_CUBLAS(call)                                                                                             \
    do {                                                                                                               \
        cublasStatus_t status_ = cublaslt()->call;                                                                     \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                                          \
            die_code(cublas_exit_code(status_), "cuBLASLt: %s in %s%s", cublaslt()->cublasLtGetStatusName(status_),    \
                     #call, cuda_remedy(cublas_exit_code(status_)));                                                   \
    } while (0)

// Queues a kernel on the compute stream of `cuda`. The kernel's name comes in parentheses where it has template
// commas.
#define LAUNCH(cuda, kernel, grid, block, shared_bytes, ...)                                                           \
    do {                                                                                                               \
        kernel<<<(grid), (block), (shared_bytes), (cuda)->streams[STREAM_COMPUTE]>>>(__VA_ARGS__);                     \
        CHECK_CUDA(cudaGetLastError());                                                                                \
    } while (0)

// Runs the statement once, with T standing for the C type of an activation dtype.
#define WITH_TYPE(dtype_, T, ...)                                                                                      \
    do {                                                                                                               \
        switch (dtype_) {                                                                                              \
        case DTYPE_F32: {                                                                                              \
            typedef float T;                                                                                           \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        case DTYPE_BF16: {                                                                                             \
            typedef __nv_bfloat16 T;                                                                                   \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        case DTYPE_F16: {                                                                                              \
            typedef __half T;                                                                                          \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        default:                                                                                                       \
            die("the CUDA backend has no %s here", dtype_name(dtype_));                                                \
        }                                                                                                              \
    } while (0)

struct matmul_plan;
struct matmul_memory;
struct cudnn_attention;
struct cuda_profile;
struct cuda_clock;

struct cuda_device {
    struct device base;  // first: a struct device * is one of these
    int index;
    cudaStream_t streams[STREAM_COUNT];
    cublasLtHandle_t blas;
    void *blas_workspace;       // BLAS_WORKSPACE_BYTES, compute stream only
    struct matmul_plan *plans;  // see matmul.cu
    struct matmul_memory *memory;
    struct cudnn_attention *cudnn;  // NULL: there is none
    float *scratch;                 // SCRATCH_BYTES: partial sums and sort keys, compute stream only
    bool allows_tf32, is_deterministic;
    bool draws_fast;               // attention's dropout may be cuDNN's
    bool has_float8;               // its matrix units take fp8
    int capability;                // compute capability, e.g. 90
    struct cuda_profile *profile;  // NULL: none is on
    bool is_recording;             // see record.cu
    struct cuda_clock *clock;      // NULL: it is stopped, see profile.cu
    unsigned attention_notes;      // notes on attention already logged, see attention.cu
};

enum {
    MOST_HEAD_SIZE = 256,             // limit of the attention kernels
    BLAS_WORKSPACE_BYTES = 64 << 20,  // NVIDIA recommends 32 MiB on Hopper
    SCRATCH_BYTES = 32 << 20,
    SCRATCH_FLOATS = SCRATCH_BYTES / 4,
    CUDA_WITH_BLOCKS = 12090,  // the first CUDA whose cuBLASLt takes factors of blocks on Hopper
    // Multiprocessors of an H100 and H200. Sums are cut by this number, never by that of the current GPU, so that
    // results are the same on all GPUs.
    SUM_PROCESSORS = 132,
    COLUMN_LANES = 32,  // blocks of (COLUMN_LANES, ROW_LANES) threads walk down COLUMN_TILE columns
    ROW_LANES = 8,
    COLUMN_TILE = 4 * COLUMN_LANES,
};

// The backend's own struct, with its GPU made current on the calling thread.
static inline struct cuda_device *cuda_use(struct device *device) {
    struct cuda_device *cuda = (struct cuda_device *)device;
    CHECK_CUDA(cudaSetDevice(cuda->index));
    return cuda;
}

static inline int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

// A grid dimension; x goes to 2^31 - 1 and is used for rows and flat ranges, y and z to 65535.
static inline unsigned grid_x(int64_t blocks) {
    CHECK(blocks >= 1 && blocks <= INT32_MAX);
    return (unsigned)blocks;
}

static inline unsigned grid_yz(int64_t blocks) {
    CHECK(blocks >= 1 && blocks <= 65535);
    return (unsigned)blocks;
}

// Cut of a sum down columns: `splits` blocks of rows write partial sums to scratch, column_finish adds them up.
struct column_split {
    int64_t splits, rows_per_split;
};
struct column_split column_split(int64_t rows, int64_t columns, int quantities);
// out[q] (columns) fp32 += the sum over splits of partial (quantities, splits, columns); an out may be NULL.
enum { MOST_QUANTITIES = 4 };
// out += the sum of `count` numbers, in a fixed order.
void sum_finish(struct cuda_device *cuda, float *out, const double *partial, int count);
void column_finish(struct cuda_device *cuda, float *const *out, int quantities, const float *partial, int64_t splits,
                   int64_t columns);
// out (columns) fp32 += column sums of x (rows, columns), contiguous.
void column_sum(struct cuda_device *cuda, float *out, struct tensor x);

// The table's entries, one file each family.
extern "C" {
void cuda_join(struct device *device, const struct device_peers *peers);
void cuda_record_begin(struct device *device);
struct recording *cuda_record_end(struct device *device);
void cuda_replay(struct device *device, struct recording *recording);
void cuda_recording_free(struct device *device, struct recording *recording);
extern const struct device_clock cuda_clock_table;
void cuda_profile_start(struct device *device);
int cuda_profile_stop(struct device *device, struct profile_row *rows, int most);
// Only in builds with Hopper's kernels.
bool cuda_gains_by_many(const struct device *device);
bool cuda_matmul_many(struct device *device, const struct op_matmul_many *op);
#define DECLARE(name_) void cuda_##name_(struct device *device, const struct op_##name_ *op);
OPERATIONS(DECLARE)
#undef DECLARE
}
// Allocates and frees the cache of matmul plans.
struct matmul_plan *matmul_plans_create(void);
void matmul_plans_free(struct matmul_plan *plans);
// The algorithms chosen so far; path is their file or NULL.
struct matmul_memory *matmul_memory_open(int index, const char *path, bool allows_tf32);
void matmul_memory_close(struct matmul_memory *memory);

#endif
