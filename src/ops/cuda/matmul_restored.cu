// Matmuls in fp8 and fp4 without an algorithm of cuBLASLt: a plain tiled kernel multiplies decoded numbers. It serves
// odd shapes, and tests codes and scales on GPUs without matmuls by blocks of 16 and 32 elements.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/float4.cuh"
#include "ops/cuda/matmul.cuh"
#include "ops/cuda/float8.cuh"

enum { RESTORED_TILE = 16, E8M0_NAN_CODE = 255 };

struct restored_operand {
    const uint8_t *codes;
    const void *scales;
    int64_t rows, stride, width;  // bytes from row to row, columns of the scales
    const float *factor;          // of the tensor
    enum scaling scaling;
    bool is_e5m2, is_float4;
};

struct restored_args {
    struct restored_operand a, b;  // (M, K), (N, K)
    int64_t inner, d_stride;
    float alpha, beta;
};

// The factor of an element's block.
static __device__ float block_factor(const struct restored_operand &from, int64_t row, int64_t k) {
    const float *factors = (const float *)from.scales;
    switch (from.scaling) {
    case SCALING_VECTOR128:
        return factors[k / 128 * from.width + row];
    case SCALING_BLOCK128:
        return factors[row / 128 * from.width + k / 128];
    case SCALING_VECTOR32: {
        uint8_t code = ((const uint8_t *)from.scales)[tiled_place(from.width, row, k / 32)];
        return code == E8M0_NAN_CODE ? __int_as_float(0x7FC00000) : ldexpf(1.0f, (int)code - 127);
    }
    case SCALING_VECTOR16:
    case SCALING_BLOCK16:
        return decode_float8(((const uint8_t *)from.scales)[tiled_place(from.width, row, k / FLOAT4_BLOCK)], false);
    default:
        return 1.0f;
    }
}

static __device__ float restored_at(const struct restored_operand &from, int64_t row, int64_t k, int64_t inner) {
    if (row >= from.rows || k >= inner)
        return 0.0f;
    uint8_t byte = from.codes[row * from.stride + (from.is_float4 ? k / 2 : k)];
    float value;
    if (from.is_float4) {
        unsigned code = byte >> (k % 2 * 4) & 15;
        value = code & 8 ? -float4_size(code & 7) : float4_size(code & 7);
    } else {
        value = decode_float8(byte, from.is_e5m2);
    }
    return value * block_factor(from, row, k) * (from.factor ? *from.factor : 1.0f);
}

// Block (16, 16): one tile of d, over tiles of a and b in shared memory.
template <typename D> static __global__ void restored_kernel(D *d, struct restored_args args) {
    __shared__ float a_tile[RESTORED_TILE][RESTORED_TILE + 1], b_tile[RESTORED_TILE][RESTORED_TILE + 1];
    int x = threadIdx.x, y = threadIdx.y;
    int64_t first_row = (int64_t)blockIdx.x * RESTORED_TILE, first_column = (int64_t)blockIdx.y * RESTORED_TILE;
    float sum = 0;
    for (int64_t first = 0; first < args.inner; first += RESTORED_TILE) {
        a_tile[y][x] = restored_at(args.a, first_row + y, first + x, args.inner);
        b_tile[y][x] = restored_at(args.b, first_column + y, first + x, args.inner);
        __syncthreads();
        for (int i = 0; i < RESTORED_TILE; i++)
            sum += a_tile[y][i] * b_tile[x][i];
        __syncthreads();
    }
    int64_t row = first_row + y, column = first_column + x;
    if (row < args.a.rows && column < args.b.rows) {
        D *place = d + row * args.d_stride + column;
        store(place, args.alpha * sum + (args.beta != 0 ? args.beta * to_float(*place) : 0.0f));
    }
}

static struct restored_operand operand_of(struct tensor t, struct tensor range, enum scaling scaling) {
    struct restored_operand from = {};
    from.codes = (const uint8_t *)t.data;
    from.scales = range.data;
    from.rows = t.shape[0];
    from.stride = t.stride[0];
    from.width = scaling == SCALING_TENSOR ? 0 : range.shape[1];
    from.scaling = scaling;
    from.is_e5m2 = t.dtype == DTYPE_E5M2;
    from.is_float4 = scaling_is_float4(scaling);
    if (scaling == SCALING_TENSOR)
        from.factor = (const float *)range.data + RANGE_FACTOR;
    else if (from.is_float4)
        from.factor = (const float *)((const uint8_t *)range.data + float4_factor_place(range));
    return from;
}

void matmul_run_restored(struct cuda_device *cuda, const struct op_matmul *op, const struct matmul_key *key) {
    struct restored_args args = {};
    args.a = operand_of(op->a, op->a_range, op->a_scaling);
    args.b = operand_of(op->b, op->b_range, op->b_scaling);
    args.inner = key->k;
    args.d_stride = key->d_stride;
    args.alpha = op->alpha;
    args.beta = op->beta;
    dim3 grid(grid_x(divide_up(args.a.rows, RESTORED_TILE)), grid_yz(divide_up(args.b.rows, RESTORED_TILE)));
    dim3 block(RESTORED_TILE, RESTORED_TILE);
    WITH_TYPE(op->d.dtype, D, LAUNCH(cuda, restored_kernel<D>, grid, block, 0, (D *)op->d.data, args));
}
