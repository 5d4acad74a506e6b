// Parts of norm_backward.cu: one part of a row, and the sums along rows and down columns.
#ifndef OPS_CUDA_NORM_BACKWARD_CUH
#define OPS_CUDA_NORM_BACKWARD_CUH

#include "ops/cuda/dropout.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/norm.cuh"

enum {
    BACKWARD_TENSORS = 3,          // dy, x, dresidual
    QUANTITIES = 3,                // dgain, dbias, ddelta_bias
    MOST_QUEUE_BYTES = 160 << 10,  // of shared memory; only data-center GPUs have as much
    SUMS_BYTES = 2 << 10,          // lower bound of a block's other shared memory
};

template <typename T> struct backward_args {
    T *dx;               // (N, C); may be dresidual
    T *ddelta;           // (N, C) or NULL; may be dy, and dx if the dropout is off
    T *y;                // (N, C) or NULL: the norm's output, recomputed; may be dy
    const T *dy, *x;     // (N, C)
    const T *dresidual;  // (N, C) or NULL
    const T *gain;       // (C)
    float gain_offset;   // see struct op_norm_forward
    const T *bias;       // (C) or NULL
    const float *mean;   // (N); NULL with RMS
    const float *rstd;   // (N)
    float *partial;      // (QUANTITIES, blocks, C)
    int64_t rows, columns;
    float share;   // one by columns
    bool is_wide;  // rows are aligned to 16 bytes and their length is a multiple of 8
    bool is_rms;
    struct cuda_dropout dropout;
};

// The sums of V numbers (a power of two) over a warp, in few exchanges: in each of the first ones, a lane passes half
// of its numbers to another lane. Lane l gets the sum of number l / (32 / V).
template <int V> static __device__ __forceinline__ float warp_sums(float value[V]) {
    int lane = threadIdx.x & 31, offset = 16;
#pragma unroll
    for (int half = V / 2; half > 0; half /= 2, offset /= 2)
#pragma unroll
        for (int i = 0; i < half; i++) {
            bool is_upper = lane & offset;
            float given = is_upper ? value[i] : value[i + half];
            value[i] = (is_upper ? value[i + half] : value[i]) + __shfl_xor_sync(0xFFFFFFFFu, given, offset);
        }
#pragma unroll
    for (offset = 16 / V; offset > 0; offset /= 2)
        value[0] += __shfl_xor_sync(0xFFFFFFFFu, value[0], offset);
    return value[0];
}

// V sums over the threads (x) of a row of threads; every thread of the block calls it and gets them all. shared holds V
// numbers per warp of the block and must not be used by the call before or after.
template <int V> static __device__ __forceinline__ void row_sums(float value[V], float *shared) {
    enum { SHARE = 32 / V, TURNS = (NORM_THREADS / 32 + SHARE - 1) / SHARE };
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5, number = lane / SHARE;
    float *mine = shared + V * warps * threadIdx.y;
    float sum = warp_sums<V>(value);
    if (warps > 1) {
        if (lane % SHARE == 0)
            mine[V * (threadIdx.x >> 5) + number] = sum;
        __syncthreads();
        sum = 0;
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            int warp = lane % SHARE + i * SHARE;
            sum += warp < warps ? mine[V * warp + number] : 0.0f;
        }
#pragma unroll
        for (int offset = SHARE / 2; offset > 0; offset /= 2)
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        value[i] = __shfl_sync(0xFFFFFFFFu, sum, i * SHARE);
}

// Mean and rstd of a row; 0 if there is none.
template <typename T> static __device__ __forceinline__ float2 stats_of(const backward_args<T> &args, int64_t row) {
    bool is_row = row < args.rows;
    return make_float2(is_row && !args.is_rms ? args.mean[row] : 0.0f, is_row ? args.rstd[row] : 0.0f);
}

// Eight neighbouring elements of a row. The inputs are read from global memory or from the queue in shared memory.
template <typename T> struct norm_part {
    const T *dy, *x, *dresidual;  // dresidual may be NULL
    eight<T> gain;
    float2 stats;  // mean and rstd
    int64_t row;
    int column, left;  // left: elements of the row from there on
    bool is_wide;
};

// Adds to sum: over the row, g = dy * gain and g * n, n the normalised x; and to sums: down the columns, dy * n and dy.
template <typename T, int SUMS>
static __device__ __forceinline__ void add_part(const backward_args<T> &args, float sum[2], float sums[SUMS][8],
                                                const norm_part<T> &part) {
    float dy[8], n[8], gain[8];
    load8(dy, part.dy, 0, part.left, part.is_wide);
    load8(n, part.x, 0, part.left, part.is_wide);
    unpack8(gain, part.gain);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float product = dy[i] * (gain[i] + args.gain_offset);
        n[i] = (n[i] - part.stats.x) * part.stats.y;
        sum[0] += product;
        sum[1] += product * n[i];
        sums[0][i] += dy[i] * n[i];
        if (SUMS > 1)
            sums[1 % SUMS][i] += dy[i];
    }
}

// dx = dresidual + rstd * (g - mean(g) - n * mean(g * n)), without mean(g) for RMS, from the sums of g and g * n; and
// also y and ddelta. A thread reads its elements of dy and dresidual before it writes the same ones of ddelta, y and
// dx, which may alias them. The bias of y is read for each row: it stays in the L1 cache, and registers are scarce.
template <typename T, int SUMS>
static __device__ __forceinline__ void write_part(const backward_args<T> &args, float sums[SUMS][8],
                                                  const norm_part<T> &part, const float sum[2]) {
    int columns = (int)args.columns, column = part.column;
    int64_t offset = part.row * columns;
    float dx[8] = {0, 0, 0, 0, 0, 0, 0, 0}, n[8], dy[8], gain[8], rstd = part.stats.y;
    float shift = args.is_rms ? 0.0f : -rstd * (sum[0] * args.share), slope = -rstd * (sum[1] * args.share);
    load8(dy, part.dy, 0, part.left, part.is_wide);
    load8(n, part.x, 0, part.left, part.is_wide);
    if (part.dresidual)
        load8(dx, part.dresidual, 0, part.left, part.is_wide);
    unpack8(gain, part.gain);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        n[i] = (n[i] - part.stats.x) * rstd;
        dx[i] += shift + rstd * (dy[i] * (gain[i] + args.gain_offset)) + slope * n[i];
    }
    store8(args.dx + offset, column, columns, part.is_wide, dx);
    if (args.y) {
        float y[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (args.bias)
            load8(y, args.bias, column, columns, part.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            y[i] += n[i] * (gain[i] + args.gain_offset);
        store8(args.y + offset, column, columns, part.is_wide, y);
    }
    if (!args.ddelta)
        return;
    dropout_apply<8>(dx, args.dropout, part.row, column);
    if (args.ddelta != args.dx)
        store8(args.ddelta + offset, column, columns, part.is_wide, dx);
    if (SUMS > 1)
#pragma unroll
        for (int i = 0; i < 8; i++)
            sums[2 % SUMS][i] += dx[i];
}

// The rows of threads of a block, one after the other, add their sums in `totals` (SUMS, 8, threads of a row); the last
// one writes them. Only short rows share a block. The sums are those of the thread's groups from `first` on.
template <int GROUPS, int SUMS>
static __device__ __forceinline__ void write_sums(const float sums[GROUPS][SUMS][8], int first, float *partial,
                                                  float *totals, int columns, bool is_wide) {
    for (unsigned turn = 0; turn < blockDim.y; turn++) {
        if (blockDim.y > 1)
            __syncthreads();
        if (threadIdx.y != turn)
            continue;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int q = 0; q < SUMS; q++) {
                int column = group_column(first + g);
                float total[8];
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float *place = totals + (8 * q + i) * blockDim.x + threadIdx.x;
                    total[i] = sums[g][q][i] + (turn > 0 ? *place : 0.0f);
                    if (turn + 1 < blockDim.y)
                        *place = total[i];
                }
                if (turn + 1 == blockDim.y && column < columns)
                    store8(partial + ((int64_t)q * gridDim.x + blockIdx.x) * columns, column, columns, is_wide, total);
            }
    }
}

#endif
