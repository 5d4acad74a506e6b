// Copies between tensors of one shape with any strides, and between float dtypes. Contiguous tensors of one dtype are
// moved as bytes, those of two as one long row; everything else goes row by row, a row being the last dimension, which
// is contiguous on both sides.
#include "ops/cuda/elements.cuh"

enum { COPY_THREADS = 256 };

// Both shapes, padded to rank 4 with leading ones.
struct copy_args {
    int64_t shape[4], dst_stride[4], src_stride[4];
};

// Block y walks the first three dimensions as one number, block x and the threads the last one.
template <typename D, typename S, bool IS_CONVERSION>
static __global__ void copy_kernel(D *dst, const S *src, struct copy_args args) {
    int64_t rows = args.shape[0] * args.shape[1] * args.shape[2];
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= args.shape[3])
        return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        int64_t c = row % args.shape[2], b = row / args.shape[2] % args.shape[1],
                a = row / args.shape[2] / args.shape[1];
        D *to = dst + a * args.dst_stride[0] + b * args.dst_stride[1] + c * args.dst_stride[2] +
                column * args.dst_stride[3];
        const S *from = src + a * args.src_stride[0] + b * args.src_stride[1] + c * args.src_stride[2] +
                        column * args.src_stride[3];
        if constexpr (IS_CONVERSION)
            store(to, to_float(*from));
        else
            *to = *from;
    }
}

// For contiguous tensors.
template <typename D, typename S> static __global__ void convert_kernel(D *dst, const S *src, int64_t count) {
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) {
        float x[4];
        load4(x, src, i, count);
        store4(dst, i, count, x);
    }
}

template <typename D, typename S, bool IS_CONVERSION>
static void copy_run(struct cuda_device *cuda, const struct op_copy *op, struct copy_args args) {
    if constexpr (IS_CONVERSION)
        if (tensor_is_contiguous(op->dst) && tensor_is_contiguous(op->src)) {
            int64_t count = tensor_count(op->src);
            LAUNCH(cuda, (convert_kernel<D, S>), grid_x(divide_up(count, 4 * COPY_THREADS)), COPY_THREADS, 0,
                   (D *)op->dst.data, (const S *)op->src.data, count);
            return;
        }
    int64_t rows = args.shape[0] * args.shape[1] * args.shape[2];
    dim3 grid(grid_x(divide_up(args.shape[3], COPY_THREADS)), grid_yz(rows < 65535 ? rows : 65535));
    LAUNCH(cuda, (copy_kernel<D, S, IS_CONVERSION>), grid, COPY_THREADS, 0, (D *)op->dst.data, (const S *)op->src.data,
           args);
}

template <typename S>
static void copy_convert(struct cuda_device *cuda, const struct op_copy *op, struct copy_args args) {
    switch (op->dst.dtype) {
    case DTYPE_F32:
        copy_run<float, S, true>(cuda, op, args);
        return;
    case DTYPE_BF16:
        copy_run<__nv_bfloat16, S, true>(cuda, op, args);
        return;
    case DTYPE_F16:
        copy_run<__half, S, true>(cuda, op, args);
        return;
    default:
        die("copy: no conversion from %s to %s", dtype_name(op->src.dtype), dtype_name(op->dst.dtype));
    }
}

static void copy_same(struct cuda_device *cuda, const struct op_copy *op, struct copy_args args) {
    switch (dtype_bytes(op->src.dtype)) {
    case 1:
        copy_run<uint8_t, uint8_t, false>(cuda, op, args);
        return;
    case 2:
        copy_run<uint16_t, uint16_t, false>(cuda, op, args);
        return;
    case 4:
        copy_run<uint32_t, uint32_t, false>(cuda, op, args);
        return;
    default:
        copy_run<uint64_t, uint64_t, false>(cuda, op, args);
    }
}

extern "C" void cuda_copy(struct device *device, const struct op_copy *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->src) == 0)
        return;
    if (op->dst.dtype == op->src.dtype && tensor_is_contiguous(op->dst) && tensor_is_contiguous(op->src)) {
        CHECK_CUDA(cudaMemcpyAsync(op->dst.data, op->src.data, tensor_bytes(op->src), cudaMemcpyDefault,
                                   cuda->streams[STREAM_COMPUTE]));
        return;
    }
    struct copy_args args;
    int missing = 4 - op->src.rank;
    for (int i = 0; i < 4; i++) {
        args.shape[i] = i < missing ? 1 : op->src.shape[i - missing];
        args.dst_stride[i] = i < missing ? 0 : op->dst.stride[i - missing];
        args.src_stride[i] = i < missing ? 0 : op->src.stride[i - missing];
    }
    if (op->dst.dtype == op->src.dtype)
        copy_same(cuda, op, args);
    else
        WITH_TYPE(op->src.dtype, S, copy_convert<S>(cuda, op, args));
}
