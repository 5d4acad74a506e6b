// Reading and writing of elements in kernels: arithmetic is in fp32, memory holds fp32, bf16 or fp16.
//
// A thread takes several neighbouring elements at once, so that one access moves 8 to 32 bytes: four of them (load4,
// store4), or eight (load8, store8), which also share one Philox call for dropout. fetch8 leaves them packed as in
// memory, so that several reads can be issued before the first one is needed.
#ifndef OPS_CUDA_ELEMENTS_CUH
#define OPS_CUDA_ELEMENTS_CUH

#include "ops/cuda/cuda.cuh"

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

// x after a round trip through T.
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

// Stores of 8 and 16 bytes to aligned global memory. In PTX, because the compiler often splits a packed vector into
// 4-byte stores with gaps between the threads, which costs an eighth of the time of a loss or of a norm of long rows
// (H200).
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

// Columns [column, column + 4) of a row of `columns` elements; elements beyond the row read as 0 and are not written.
// Rows of odd length are not aligned for the wide access, so both check the address.
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

// Eight neighbouring elements as in memory: 16 bytes of bf16, 32 of fp32. Stored as words, because the compiler would
// use a register per 16-bit number.
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

// Columns [column, column + 8) of a row; with is_wide all of them exist and are aligned to 16 bytes.
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

// ---- Asynchronous copies to shared memory ---- A thread that reads only its own copies needs no barrier, only the
// wait.

static __device__ __forceinline__ void async_copy16(void *shared, const void *global) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

// Ends a group of copies; async_wait waits until at most PENDING of the last groups are in flight.
static __device__ __forceinline__ void async_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> static __device__ __forceinline__ void async_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#endif
