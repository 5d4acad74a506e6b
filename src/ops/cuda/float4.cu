// NVFP4: the largest magnitude of a tensor first, then codes and scales of tiles of 64 x 128 and of their transpose,
// computed as on the CPU (cpu/float4.c), so that they are bitwise equal.
#include "ops/cuda/dropout.cuh"
#include "ops/cuda/float4.cuh"
#include "ops/cuda/float8.cuh"

#include <float.h>

enum {
    BLOCK = FLOAT4_BLOCK,
    THREADS = 256,
    HEIGHT = 64,  // of a tile
    WIDTH = 128,
    PITCH = WIDTH + 2,  // elements of a tile's row: neighbouring rows begin in different banks
    BANDS = HEIGHT / BLOCK,
    ACROSS = WIDTH / BLOCK,
    MOST_BANDS = 256  // blocks of rows that pass 1 starts at most
};
static const float LARGEST = 448.0f * 6.0f;

struct float4_output {
    uint8_t *y;       // (lines, length / 2), or NULL
    uint8_t *scales;  // (…, width), followed by the factor
    int64_t width, factor_place;
    const uint32_t *most;  // bits of the largest magnitude
    uint32_t site;
    bool is_drawn;
};

struct float4_args {
    struct float4_output value, turned;
    const __nv_bfloat16 *x;
    int64_t rows, columns;
    const int64_t *row_ids;  // NULL: to nearest
    uint64_t seed;
    int64_t first_column;
    bool is_square, mixes;
};

static __device__ __forceinline__ void mix(float x[BLOCK]) {
#pragma unroll
    for (int i = 0; i < BLOCK; i++)
        x[i] = FLOAT4_MIX_SIGNS >> i & 1 ? -x[i] : x[i];
#pragma unroll
    for (int step = 1; step < BLOCK; step *= 2)
#pragma unroll
        for (int i = 0; i < BLOCK; i++)
            if (!(i & step)) {
                float a = x[i], b = x[i + step];
                x[i] = a + b;
                x[i + step] = a - b;
            }
#pragma unroll
    for (int i = 0; i < BLOCK; i++)
        x[i] *= 0.25f;
}

static __device__ __forceinline__ uint32_t largest_bits(const float x[BLOCK]) {
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < BLOCK; i++)
        most = max(most, magnitude_bits(x[i]));
    return most;
}

// ---- The largest magnitude ----

static __device__ __forceinline__ void raise(uint32_t *most, uint32_t bits) {
    bits = __reduce_max_sync(0xFFFFFFFFu, bits);
    if ((threadIdx.x & 31) == 0 && bits > *(volatile uint32_t *)most)
        atomicMax(most, bits);
}

// A thread has two columns of 16 rows at a time. most[0] is that of x, most[1] that of the mixed transpose.
static __global__ void __launch_bounds__(THREADS)
    float4_most_kernel(uint32_t *most, const uint32_t *x, int64_t rows, int64_t pairs, bool mixes) {
    int64_t pair = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t plain = 0, mixed = 0;
    for (int64_t row = (int64_t)blockIdx.y * BLOCK; row < rows && pair < pairs; row += (int64_t)gridDim.y * BLOCK) {
        uint32_t word[BLOCK];
        float low[BLOCK], high[BLOCK];
#pragma unroll
        for (int i = 0; i < BLOCK; i++)
            word[i] = x[(row + i) * pairs + pair];
#pragma unroll
        for (int i = 0; i < BLOCK; i++) {
            low[i] = __uint_as_float(word[i] << 16);
            high[i] = __uint_as_float(word[i] & 0xFFFF0000u);
        }
        plain = max(plain, max(largest_bits(low), largest_bits(high)));
        if (!mixes)
            continue;
        mix(low);
        mix(high);
        mixed = max(mixed, max(largest_bits(low), largest_bits(high)));
    }
    raise(&most[0], plain);
    if (mixes)
        raise(&most[1], mixed);
}

// ---- Codes ----

// To nearest, ties to the even code: a bound belongs to the upper code if that is even.
static __device__ __forceinline__ unsigned encode_nearest(float size) {
    return (unsigned)(size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) + (size > 2.5f) +
           (size >= 3.5f) + (size > 5.0f);
}

static __device__ __forceinline__ unsigned encode_randomly(float size, unsigned drawn) {
    unsigned code = (unsigned)(size >= 0.5f) + (size >= 1.0f) + (size >= 1.5f) + (size >= 2.0f) + (size >= 3.0f) +
                    (size >= 4.0f) + (size >= 6.0f);
    float by = code < 4 ? 2.0f : code < 6 ? 1.0f : 0.5f;  // 1 / the distance to the next
    bool is_up = code < 7 && (size - float4_size(code)) * by * 65536.0f > (float)drawn;
    return code + is_up;
}

// The tensor's scale, applied before that of the block.
static __device__ __forceinline__ float tensor_scale(uint32_t most) {
    return most > 0 ? fminf(__fdiv_rn(LARGEST, __uint_as_float(most)), FLT_MAX) : 1.0f;
}

static __device__ __forceinline__ bool is_whole(uint32_t most) {
    return most < 0x7F800000u;
}

// The factor of the tensor: one thread of the grid stores it.
static __device__ __forceinline__ void write_tensor_factor(const struct float4_output &to) {
    uint32_t most = *to.most;
    *(float *)(to.scales + to.factor_place) =
        is_whole(most) ? __fdiv_rn(1.0f, tensor_scale(most)) : __int_as_float(0x7FC00000);
}

// Stores block `block` of 16 numbers of a line; its scale is derived from `largest`.
static __device__ __forceinline__ void write_block(const struct float4_output &to, const int64_t at[2], int64_t length,
                                                   const float x[BLOCK], const uint32_t drawn[BLOCK / 2],
                                                   uint32_t largest) {
    uint32_t most = *to.most, words[2] = {0, 0};
    uint8_t stored = 0;
    if (is_whole(most)) {
        float scale = tensor_scale(most);
        stored = (uint8_t)__nv_cvt_float_to_fp8(__fmul_rn(__fdiv_rn(__uint_as_float(largest), 6.0f), scale),
                                                __NV_SATFINITE, __NV_E4M3);
        float by = stored ? fminf(__fdiv_rn(scale, decode_float8(stored, false)), FLT_MAX) : 0.0f;
#pragma unroll
        for (int i = 0; i < BLOCK; i++) {
            float value = __fmul_rn(x[i], by), size = fabsf(value);
            unsigned code =
                to.is_drawn ? encode_randomly(size, drawn[i / 2] >> (i % 2 * 16) & 0xFFFFu) : encode_nearest(size);
            code |= __float_as_uint(value) >> 31 << 3;
            words[i / 8] |= (isnan(value) ? 0 : code) << (i % 8 * 4);
        }
    }
    *(uint2 *)(to.y + (at[0] * length + at[1] * BLOCK) / 2) = make_uint2(words[0], words[1]);
    to.scales[tiled_place(to.width, at[0], at[1])] = stored;
}

// ---- Tiles ----

struct float4_tile {
    uint32_t x[HEIGHT * PITCH / 2];      // bf16
    uint32_t drawn[HEIGHT * PITCH / 2];  // 16 bits for each element of the transpose
    uint32_t square[2][BANDS][ACROSS];   // largest magnitudes of 16 x 16, of the tile and of its transpose
};

// Random bits of eight columns.
static __device__ __forceinline__ uint4 draw(const struct float4_args &args, uint32_t site, int64_t row,
                                             int64_t column) {
    uint64_t id = (uint64_t)args.row_ids[row];
    return philox4x32_7(args.seed, (uint32_t)((args.first_column + column) / 8), (uint32_t)id, (uint32_t)(id >> 32),
                        site);
}

static __device__ __forceinline__ void put_words(uint32_t *place, uint4 words) {
    place[0] = words.x, place[1] = words.y, place[2] = words.z, place[3] = words.w;
}

static __device__ __forceinline__ void load_tile(struct float4_tile *tile, const struct float4_args &args,
                                                 int64_t first, int64_t base) {
    for (int i = threadIdx.x; i < HEIGHT * WIDTH / 8; i += THREADS) {
        int down = i / (WIDTH / 8), across = i % (WIDTH / 8) * 8;
        int64_t row = base + down, column = first + across;
        bool is_in = row < args.rows && column < args.columns;
        uint4 words = is_in ? *(const uint4 *)(args.x + row * args.columns + column) : make_uint4(0, 0, 0, 0);
        put_words(&tile->x[(down * PITCH + across) / 2], words);
        if (is_in && args.turned.y && args.row_ids)
            put_words(&tile->drawn[(down * PITCH + across) / 2], draw(args, args.turned.site, row, column));
    }
    for (int i = threadIdx.x; i < 2 * BANDS * ACROSS; i += THREADS)
        (&tile->square[0][0][0])[i] = 0;
}

// Sixteen neighbours of a row of the tile.
static __device__ __forceinline__ void read_row(float x[BLOCK], const struct float4_tile *tile, int down, int across) {
#pragma unroll
    for (int i = 0; i < BLOCK / 2; i++) {
        uint32_t word = tile->x[(down * PITCH + across) / 2 + i];
        x[2 * i] = __uint_as_float(word << 16);
        x[2 * i + 1] = __uint_as_float(word & 0xFFFF0000u);
    }
}

// Sixteen neighbours of a column.
static __device__ __forceinline__ void read_column(float x[BLOCK], const struct float4_tile *tile, int down, int across,
                                                   bool mixes) {
    const uint16_t *from = (const uint16_t *)tile->x + down * PITCH + across;
#pragma unroll
    for (int i = 0; i < BLOCK; i++)
        x[i] = __uint_as_float((uint32_t)from[i * PITCH] << 16);
    if (mixes)
        mix(x);
}

static __device__ __forceinline__ void see_squares(struct float4_tile *tile, const struct float4_args &args) {
    float x[BLOCK];
    for (int i = threadIdx.x; i < HEIGHT * ACROSS && args.value.y; i += THREADS) {
        int down = i / ACROSS, block = i % ACROSS;
        read_row(x, tile, down, block * BLOCK);
        atomicMax(&tile->square[0][down / BLOCK][block], largest_bits(x));
    }
    for (int i = threadIdx.x; i < WIDTH * BANDS && args.turned.y; i += THREADS) {
        int across = i / BANDS, band = i % BANDS;
        read_column(x, tile, band * BLOCK, across, args.mixes);
        atomicMax(&tile->square[1][band][across / BLOCK], largest_bits(x));
    }
}

static __device__ __forceinline__ void write_rows(const struct float4_tile *tile, const struct float4_args &args,
                                                  int64_t first, int64_t base) {
    for (int i = threadIdx.x; i < HEIGHT * ACROSS; i += THREADS) {
        int down = i / ACROSS, block = i % ACROSS;
        int64_t row = base + down, column = first + block * BLOCK;
        if (row >= args.rows || column >= args.columns)
            continue;
        float x[BLOCK];
        uint32_t drawn[BLOCK / 2] = {};
        read_row(x, tile, down, block * BLOCK);
        if (args.row_ids) {
            put_words(drawn, draw(args, args.value.site, row, column));
            put_words(drawn + 4, draw(args, args.value.site, row, column + 8));
        }
        uint32_t largest = args.is_square ? tile->square[0][down / BLOCK][block] : largest_bits(x);
        const int64_t at[2] = {row, column / BLOCK};
        write_block(args.value, at, args.columns, x, drawn, largest);
    }
}

static __device__ __forceinline__ void write_columns(const struct float4_tile *tile, const struct float4_args &args,
                                                     int64_t first, int64_t base) {
    for (int i = threadIdx.x; i < WIDTH * BANDS; i += THREADS) {
        int across = i / BANDS, band = i % BANDS;
        int64_t column = first + across, row = base + band * BLOCK;
        if (row >= args.rows || column >= args.columns)
            continue;
        float x[BLOCK];
        uint32_t drawn[BLOCK / 2];
        read_column(x, tile, band * BLOCK, across, args.mixes);
        const uint16_t *from = (const uint16_t *)tile->drawn + band * BLOCK * PITCH + across;
#pragma unroll
        for (int k = 0; k < BLOCK / 2; k++)
            drawn[k] = from[2 * k * PITCH] | (uint32_t)from[(2 * k + 1) * PITCH] << 16;
        uint32_t largest = args.is_square ? tile->square[1][band][across / BLOCK] : largest_bits(x);
        const int64_t at[2] = {column, row / BLOCK};
        write_block(args.turned, at, args.rows, x, drawn, largest);
    }
}

static __global__ void __launch_bounds__(THREADS) quantize_float4_kernel(struct float4_args args) {
    __shared__ __align__(16) struct float4_tile tile;
    int64_t first = (int64_t)blockIdx.x * WIDTH, base = (int64_t)blockIdx.y * HEIGHT;
    load_tile(&tile, args, first, base);
    __syncthreads();
    if (args.is_square) {
        see_squares(&tile, args);
        __syncthreads();
    }
    if (args.value.y)
        write_rows(&tile, args, first, base);
    if (args.turned.y)
        write_columns(&tile, args, first, base);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
        if (args.value.y)
            write_tensor_factor(args.value);
        if (args.turned.y)
            write_tensor_factor(args.turned);
    }
}

// ---- Entries ----

static struct float4_output output_of(struct tensor y, struct tensor scales, const struct stochastic *rounding,
                                      bool is_transposed) {
    struct float4_output to = {};
    to.y = (uint8_t *)y.data;
    if (!to.y)
        return to;
    to.scales = (uint8_t *)scales.data;
    to.width = scales.shape[1];
    to.factor_place = float4_factor_place(scales);
    to.site = stochastic_site(rounding->site, is_transposed);
    to.is_drawn = rounding->row_ids.data != NULL;
    return to;
}

void cuda_quantize_float4(struct cuda_device *cuda, const struct op_quantize_blocks *op) {
    const struct operand *y = &op->y;
    uint32_t *most = (uint32_t *)cuda->scratch;
    struct float4_args args = {};
    args.value = output_of(y->value, y->range, &op->rounding, false);
    args.turned = output_of(y->transposed, y->transposed_range, &op->rounding, true);
    args.value.most = most;
    args.turned.most = op->mixes ? most + 1 : most;
    args.x = (const __nv_bfloat16 *)op->x.data;
    args.rows = op->x.shape[0];
    args.columns = op->x.shape[1];
    args.row_ids = (const int64_t *)op->rounding.row_ids.data;
    args.seed = op->rounding.seed;
    args.first_column = op->rounding.first_column;
    args.is_square = y->scaling == SCALING_BLOCK16;
    args.mixes = op->mixes;
    CHECK_CUDA(cudaMemsetAsync(most, 0, 2 * sizeof *most, cuda->streams[STREAM_COMPUTE]));
    dim3 bands(grid_x(divide_up(args.columns / 2, THREADS)),
               grid_yz(min(divide_up(args.rows, BLOCK), (int64_t)MOST_BANDS)));
    LAUNCH(cuda, float4_most_kernel, bands, THREADS, 0, most, (const uint32_t *)op->x.data, args.rows, args.columns / 2,
           op->mixes && y->transposed.data);
    dim3 tiles(grid_x(divide_up(args.columns, WIDTH)), grid_yz(divide_up(args.rows, HEIGHT)));
    LAUNCH(cuda, quantize_float4_kernel, tiles, THREADS, 0, args);
}

static __global__ void float4_scalars_kernel(float *out, const float *a, const float *b, float alpha, float beta) {
    out[FLOAT4_ALPHA] = alpha * *a * *b;
    out[FLOAT4_BETA] = beta;
}

const float *float4_scalars(struct cuda_device *cuda, const struct op_matmul *op) {
    const float *a = (const float *)((const uint8_t *)op->a_range.data + float4_factor_place(op->a_range));
    const float *b = (const float *)((const uint8_t *)op->b_range.data + float4_factor_place(op->b_range));
    LAUNCH(cuda, float4_scalars_kernel, 1, 1, 0, cuda->scratch, a, b, op->alpha, op->beta);
    return cuda->scratch;
}
