// What all files of the CUDA backend share: the device struct, checked calls and launches, float <-> dtype conversion,
// reductions within a block, and dropout.
//
// Three rules keep the numbers reproducible: no floating-point atomics; every sum has a fixed order that depends on
// shapes alone, never on the number of multiprocessors; and Philox words are computed from what an element is,
// exactly as base/rng.h does on the host. Most kernels give a thread four neighbouring columns: that is one 16-byte
// (fp32) or 8-byte (bf16) access, and one Philox call gives the dropout of all four.
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

// The project's headers are C17: C++ spells this keyword otherwise, and their functions have C linkage.
#define _Noreturn [[noreturn]]
extern "C" {
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "ops/choices.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/device.h"
#include "ops/ops.h"
}
#undef _Noreturn

#define CHECK_CUDA(call)                                                                                               \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess)                                                                                    \
            die("CUDA: %s (%s) in %s", cudaGetErrorString(status_), cudaGetErrorName(status_), #call);                 \
    } while (0)

#define CHECK_CUBLAS(call)                                                                                             \
    do {                                                                                                               \
        cublasStatus_t status_ = (call);                                                                               \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                                          \
            die("cuBLASLt: %s in %s", cublasLtGetStatusName(status_), #call);                                          \
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
    bool has_float8;               // its matrix units take floats of 8 bits
    struct cuda_profile *profile;  // NULL: none is on
    bool is_recording;             // see record.cu
};

enum {
    BLAS_WORKSPACE_BYTES = 64 << 20,  // NVIDIA recommends 32 MiB on Hopper
    SCRATCH_BYTES = 32 << 20,
    SCRATCH_FLOATS = SCRATCH_BYTES / 4,
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

// Threads of a block that handles one row, four columns a thread and step: whole warps, at most 256.
static inline unsigned row_threads(int64_t columns) {
    int64_t threads = divide_up(divide_up(columns, 4), 32) * 32;
    return (unsigned)(threads > 256 ? 256 : threads);
}

// How a sum down columns is cut: `splits` blocks of rows write partial sums to scratch, column_finish adds them up.
struct column_split {
    int64_t splits, rows_per_split;
};
struct column_split column_split(int64_t rows, int64_t columns, int quantities);
// out[q] (columns) fp32 += the sum over splits of partial (quantities, splits, columns); an out may be NULL.
enum { MOST_QUANTITIES = 4 };
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
void cuda_profile_start(struct device *device);
int cuda_profile_stop(struct device *device, struct profile_row *rows, int most);
void cuda_matmul(struct device *device, const struct op_matmul *op);
void cuda_quantize(struct device *device, const struct op_quantize *op);
void cuda_transpose(struct device *device, const struct op_transpose *op);
void cuda_move_ranges(struct device *device, const struct op_move_ranges *op);
void cuda_activation_forward(struct device *device, const struct op_activation_forward *op);
void cuda_activation_backward(struct device *device, const struct op_activation_backward *op);
void cuda_glu_forward(struct device *device, const struct op_glu_forward *op);
void cuda_glu_backward(struct device *device, const struct op_glu_backward *op);
void cuda_rope(struct device *device, const struct op_rope *op);
void cuda_relative_bias_forward(struct device *device, const struct op_relative_bias_forward *op);
void cuda_relative_bias_backward(struct device *device, const struct op_relative_bias_backward *op);
// The table's attention; the two functions below are without a mask, for what nothing faster takes.
void cuda_attention_forward_any(struct device *device, const struct op_attention_forward *op);
void cuda_attention_backward_any(struct device *device, const struct op_attention_backward *op);
void cuda_norm_forward(struct device *device, const struct op_norm_forward *op);
void cuda_norm_backward(struct device *device, const struct op_norm_backward *op);
void cuda_attention_forward(struct device *device, const struct op_attention_forward *op);
void cuda_attention_backward(struct device *device, const struct op_attention_backward *op);
void cuda_embedding_forward(struct device *device, const struct op_embedding_forward *op);
void cuda_embedding_backward(struct device *device, const struct op_embedding_backward *op);
void cuda_softmax_stats(struct device *device, const struct op_softmax_stats *op);
void cuda_softmax_merge(struct device *device, const struct op_softmax_merge *op);
void cuda_cross_entropy(struct device *device, const struct op_cross_entropy *op);
void cuda_dropout_add(struct device *device, const struct op_dropout_add *op);
void cuda_dropout_backward(struct device *device, const struct op_dropout_backward *op);
void cuda_column_sum(struct device *device, const struct op_column_sum *op);
void cuda_dot(struct device *device, const struct op_dot *op);
void cuda_sum_squares(struct device *device, const struct op_sum_squares *op);
void cuda_clip_scale(struct device *device, const struct op_clip_scale *op);
void cuda_adam(struct device *device, const struct op_adam *op);
void cuda_split(struct device *device, const struct op_split *op);
void cuda_merge(struct device *device, const struct op_merge *op);
void cuda_copy(struct device *device, const struct op_copy *op);
void cuda_scale(struct device *device, const struct op_scale *op);
}
// Allocates and frees the cache of matrix product plans.
struct matmul_plan *matmul_plans_create(void);
void matmul_plans_free(struct matmul_plan *plans);
// The algorithms chosen so far; path is their file or NULL.
struct matmul_memory *matmul_memory_open(int index, const char *path, bool allows_tf32);
void matmul_memory_close(struct matmul_memory *memory);

// ---- Elements ----

static __device__ __forceinline__ float to_float(float x) {
    return x;
}

static __device__ __forceinline__ float to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

static __device__ __forceinline__ float to_float(__half x) {
    return __half2float(x);
}

static __device__ __forceinline__ void store(float *to, float x) {
    *to = x;
}

static __device__ __forceinline__ void store(__half *to, float x) {
    *to = __float2half_rn(x);
}

static __device__ __forceinline__ void store(__nv_bfloat16 *to, float x) {
    *to = __float2bfloat16_rn(x);
}

// x as it will be read back after it was stored as a T.
template <typename T> static __device__ __forceinline__ float rounded(float x) {
    T stored;
    store(&stored, x);
    return to_float(stored);
}

static __device__ __forceinline__ void load4_aligned(float out[4], const float *from) {
    float4 x = *(const float4 *)from;
    out[0] = x.x, out[1] = x.y, out[2] = x.z, out[3] = x.w;
}

// A bf16 is the upper half of the fp32 of the same value.
static __device__ __forceinline__ void load4_aligned(float out[4], const __nv_bfloat16 *from) {
    uint2 x = *(const uint2 *)from;
    out[0] = __uint_as_float(x.x << 16), out[1] = __uint_as_float(x.x & 0xFFFF0000u);
    out[2] = __uint_as_float(x.y << 16), out[3] = __uint_as_float(x.y & 0xFFFF0000u);
}

static __device__ __forceinline__ void load4_aligned(float out[4], const __half *from) {
    uint2 x = *(const uint2 *)from;
    float2 low = __half22float2(*(const __half2 *)&x.x), high = __half22float2(*(const __half2 *)&x.y);
    out[0] = low.x, out[1] = low.y, out[2] = high.x, out[3] = high.y;
}

// Stores of 8 and 16 bytes to aligned global memory. In PTX, because the compiler often takes a vector that was packed
// here apart again, into stores of 4 bytes with gaps between the threads: an eighth of the time of a loss or of a norm
// of long rows (H200).
static __device__ __forceinline__ void store_words(void *to, uint2 x) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(x.x), "r"(x.y) : "memory");
}

static __device__ __forceinline__ void store_words(void *to, uint4 x) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(x.x), "r"(x.y),
                 "r"(x.z), "r"(x.w)
                 : "memory");
}

static __device__ __forceinline__ uint32_t pack2(float low, float high, __nv_bfloat16) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(const uint32_t *)&pair;
}

static __device__ __forceinline__ uint32_t pack2(float low, float high, __half) {
    __half2 pair = __floats2half2_rn(low, high);
    return *(const uint32_t *)&pair;
}

static __device__ __forceinline__ void store4_aligned(float *to, const float x[4]) {
    store_words(to,
                make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])));
}

template <typename T> static __device__ __forceinline__ void store4_aligned(T *to, const float x[4]) {
    store_words(to, make_uint2(pack2(x[0], x[1], T()), pack2(x[2], x[3], T())));
}

// Columns [column, column + 4) of a row of `columns` elements; what lies beyond the row reads as 0 and is not written.
// Rows of odd length are not aligned for the wide access, so both look at the address.
template <typename T>
static __device__ __forceinline__ void load4(float out[4], const T *row, int64_t column, int64_t columns) {
    const T *from = row + column;
    if (column + 4 <= columns && ((uintptr_t)from & (4 * sizeof(T) - 1)) == 0) {
        load4_aligned(out, from);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        out[i] = column + i < columns ? to_float(from[i]) : 0.0f;
}

template <typename T>
static __device__ __forceinline__ void store4(T *row, int64_t column, int64_t columns, const float x[4]) {
    T *to = row + column;
    if (column + 4 <= columns && ((uintptr_t)to & (4 * sizeof(T) - 1)) == 0) {
        store4_aligned(to, x);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (column + i < columns)
            store(to + i, x[i]);
}

// Eight neighbouring elements as they lie in memory: 16 bytes of bf16, 32 of fp32. Whole words, because the compiler
// gives every 16-bit number a register of its own.
template <typename T> struct eight { uint4 word[sizeof(T) / 2]; };

static __device__ __forceinline__ void unpack8(float out[8], const eight<float> &x) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        out[4 * i] = __uint_as_float(x.word[i].x), out[4 * i + 1] = __uint_as_float(x.word[i].y);
        out[4 * i + 2] = __uint_as_float(x.word[i].z), out[4 * i + 3] = __uint_as_float(x.word[i].w);
    }
}

static __device__ __forceinline__ void unpack8(float out[8], const eight<__nv_bfloat16> &x) {
    const uint32_t word[4] = {x.word[0].x, x.word[0].y, x.word[0].z, x.word[0].w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        out[2 * i] = __uint_as_float(word[i] << 16), out[2 * i + 1] = __uint_as_float(word[i] & 0xFFFF0000u);
}

static __device__ __forceinline__ void unpack8(float out[8], const eight<__half> &x) {
    const uint32_t word[4] = {x.word[0].x, x.word[0].y, x.word[0].z, x.word[0].w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = __half22float2(*(const __half2 *)&word[i]);
        out[2 * i] = pair.x, out[2 * i + 1] = pair.y;
    }
}

static __device__ __forceinline__ void pack8(eight<float> *out, const float x[8]) {
#pragma unroll
    for (int i = 0; i < 2; i++)
        out->word[i] = make_uint4(__float_as_uint(x[4 * i]), __float_as_uint(x[4 * i + 1]),
                                  __float_as_uint(x[4 * i + 2]), __float_as_uint(x[4 * i + 3]));
}

template <typename T> static __device__ __forceinline__ void pack8(eight<T> *out, const float x[8]) {
    out->word[0] =
        make_uint4(pack2(x[0], x[1], T()), pack2(x[2], x[3], T()), pack2(x[4], x[5], T()), pack2(x[6], x[7], T()));
}

// Columns [column, column + 8) of a row; with is_wide they are all there and aligned to 16 bytes.
template <typename T>
static __device__ __forceinline__ eight<T> fetch8(const T *row, int64_t column, int64_t columns, bool is_wide) {
    eight<T> out;
    if (is_wide) {
#pragma unroll
        for (int i = 0; i < (int)sizeof out / 16; i++)
            out.word[i] = ((const uint4 *)(row + column))[i];
        return out;
    }
    float value[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        value[i] = column + i < columns ? to_float(row[column + i]) : 0.0f;
    pack8(&out, value);
    return out;
}

template <typename T>
static __device__ __forceinline__ void load8(float out[8], const T *row, int64_t column, int64_t columns,
                                             bool is_wide) {
    unpack8(out, fetch8(row, column, columns, is_wide));
}

template <typename T>
static __device__ __forceinline__ void store8(T *row, int64_t column, int64_t columns, bool is_wide, const float x[8]) {
    if (is_wide) {
        eight<T> packed;
        pack8(&packed, x);
#pragma unroll
        for (int i = 0; i < (int)sizeof packed / 16; i++)
            store_words((uint4 *)(row + column) + i, packed.word[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (column + i < columns)
            store(row + column + i, x[i]);
}

// Whether rows of these tensors can be read eight elements at a time.
static inline bool rows_are_wide(int64_t columns, const struct tensor *tensors, size_t count) {
    bool is_wide = columns % 8 == 0;
    for (size_t i = 0; i < count; i++)
        is_wide = is_wide && (uintptr_t)tensors[i].data % 16 == 0;
    return is_wide;
}

// ---- Copies to shared memory that go on while the thread works ----
// A thread that reads back only what it asked for itself needs no barrier, only the wait.

static __device__ __forceinline__ void async_copy16(void *shared, const void *global) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

// Ends a group of copies; async_wait waits until no more than PENDING of the last groups are on their way.
static __device__ __forceinline__ void async_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> static __device__ __forceinline__ void async_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ---- Reductions. Blocks are whole warps; every thread takes part and gets the result. ----

template <typename F> static __device__ __forceinline__ F warp_sum(F value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    return value;
}

static __device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
    return value;
}

// `shared` holds 32 elements and may be used again by the next call at once: the first barrier waits for its readers.
template <typename F> static __device__ __forceinline__ F block_sum(F value, F *shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    value = warp_sum(value);
    __syncthreads();
    if (lane == 0)
        shared[warp] = value;
    __syncthreads();
    return warp_sum(lane < warps ? shared[lane] : (F)0);
}

static __device__ __forceinline__ float block_max(float value, float *shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    value = warp_max(value);
    __syncthreads();
    if (lane == 0)
        shared[warp] = value;
    __syncthreads();
    return warp_max(lane < warps ? shared[lane] : -INFINITY);
}

// ---- Dropout ----

// struct dropout as kernels take it: by value, with what the rate means worked out.
struct cuda_dropout {
    bool is_on;
    uint32_t threshold;  // a word below it drops its element
    float scale;         // of the kept ones
    uint64_t seed;
    uint32_t site;
    const int64_t *row_ids;  // (N)
};

static inline struct cuda_dropout cuda_dropout(const struct dropout *dropout) {
    struct cuda_dropout out = {};
    if (dropout->rate > 0) {
        out.is_on = true;
        double threshold = ceil((double)dropout->rate * 4294967296.0);
        out.threshold = threshold > 4294967295.0 ? UINT32_MAX : (uint32_t)threshold;
        out.scale = 1.0f / (1.0f - dropout->rate);
        out.seed = dropout->seed;
        out.site = dropout->site;
        out.row_ids = (const int64_t *)dropout->row_ids.data;
    }
    return out;
}

// philox4x32 of base/rng.h for the device. The masks of the CPU and CUDA backends are compared in the tests.
static __device__ __forceinline__ uint4 philox4x32(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

// What columns [column, column + 4) of a row are multiplied by: 0 or the scale. column is a multiple of 4.
static __device__ __forceinline__ void dropout_factors(float factor[4], struct cuda_dropout dropout, uint32_t site,
                                                       int64_t row_id, int64_t column) {
    uint4 word =
        philox4x32(dropout.seed, (uint32_t)(column / 4), (uint32_t)row_id, (uint32_t)((uint64_t)row_id >> 32), site);
    factor[0] = word.x >= dropout.threshold ? dropout.scale : 0.0f;
    factor[1] = word.y >= dropout.threshold ? dropout.scale : 0.0f;
    factor[2] = word.z >= dropout.threshold ? dropout.scale : 0.0f;
    factor[3] = word.w >= dropout.threshold ? dropout.scale : 0.0f;
}

// x[i] through the dropout of (row, column + i); does nothing if the dropout is off.
static __device__ __forceinline__ void dropout_apply(float x[4], struct cuda_dropout dropout, int64_t row,
                                                     int64_t column) {
    if (!dropout.is_on)
        return;
    float factor[4];
    dropout_factors(factor, dropout, dropout.site, dropout.row_ids[row], column);
#pragma unroll
    for (int i = 0; i < 4; i++)
        x[i] *= factor[i];
}

#endif
