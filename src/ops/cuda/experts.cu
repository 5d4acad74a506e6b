// Between the two matmuls of experts: biases, the activation, gated or not, and the weight of each slot. A block per
// place, eight columns a thread and step.
#include "ops/cuda/activation.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/slots.cuh"

enum { EXPERT_THREADS = 256 };

struct expert_args {
    void *y, *dx;               // y NULL in backward: not wanted
    float *dweights;            // (N, K)
    const void *x, *dy, *bias;  // bias may be NULL
    const int32_t *offsets, *sources;
    const float *weights;
    int64_t columns;  // of y
    int experts;
    enum activation activation;
    struct glu_rule rule;
    bool is_gated, is_wide;
};

// Eight columns of a bias, added to x.
template <typename T>
static __device__ __forceinline__ void add_bias(float x[8], const T *bias, int64_t column, int64_t columns,
                                                bool is_wide) {
    float add[8];
    load8(add, bias, column, columns, is_wide);
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] += add[i];
}

template <typename T>
static __device__ __forceinline__ const T *bias_at(const struct expert_args &args, int64_t width) {
    return args.bias ? (const T *)args.bias + expert_at(args.offsets, args.experts, blockIdx.x) * width : NULL;
}

// Values and slopes of eight gates, unless by SiLU or the quick GELU (IS_LOGISTIC).
template <typename T, bool IS_LOGISTIC>
static __device__ __forceinline__ eight_gates other_gates(const struct expert_args &args, const float gate[8]) {
    eight_gates at = {};
#pragma unroll
    for (int i = 0; i < 8 && !IS_LOGISTIC; i++)
        at.x[i] = args.is_gated ? glu_gate(args.rule, gate[i]) : gate[i];
    return IS_LOGISTIC ? at : any_gates<T>(args.activation, at);
}

template <typename T, bool IS_LOGISTIC>
static __device__ __forceinline__ float2 gate_of(const struct expert_args &args, float gate, float value, float slope) {
    return IS_LOGISTIC ? logistic_at<T>(args.activation, args.is_gated ? glu_gate(args.rule, gate) : gate)
                       : make_float2(value, slope);
}

// Rows are read before it is known whether the place has a source, which takes two more dependent reads.
template <typename T, bool IS_LOGISTIC> static __global__ void expert_forward_kernel(struct expert_args args) {
    int64_t place = blockIdx.x, columns = args.columns, width = args.is_gated ? 2 * columns : columns;
    int32_t source = args.sources[place];
    const T *x = (const T *)args.x + place * width, *bias = source >= 0 ? bias_at<T>(args, width) : NULL;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float value[8], up[8];
        load8(value, x, column, columns, args.is_wide);
        if (args.is_gated)
            load8(up, x + columns, column, columns, args.is_wide);
        float weight = source >= 0 ? args.weights[source] : 0.0f;
        if (bias)
            add_bias(value, bias, column, columns, args.is_wide);
        if (bias && args.is_gated)
            add_bias(up, bias + columns, column, columns, args.is_wide);
        const eight_gates gates = other_gates<T, IS_LOGISTIC>(args, value);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float2 at = gate_of<T, IS_LOGISTIC>(args, value[i], gates.x[i], gates.slope[i]);
            float y = weight * at.x * (args.is_gated ? glu_up(args.rule, up[i]) : 1.0f);
            value[i] = source >= 0 ? y : 0.0f;
        }
        store8((T *)args.y + place * columns, column, columns, args.is_wide, value);
    }
}

// dx may alias x, and y dy: a thread reads its columns before it writes them.
template <typename T, bool IS_LOGISTIC> static __global__ void expert_backward_kernel(struct expert_args args) {
    __shared__ float shared[32];
    int64_t place = blockIdx.x, columns = args.columns, width = args.is_gated ? 2 * columns : columns;
    int32_t source = args.sources[place];
    const T *x = (const T *)args.x + place * width, *bias = source >= 0 ? bias_at<T>(args, width) : NULL;
    T *dx = (T *)args.dx + place * width;
    float dweight = 0;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float gate[8], up[8], dy[8];
        load8(gate, x, column, columns, args.is_wide);
        if (args.is_gated)
            load8(up, x + columns, column, columns, args.is_wide);
        load8(dy, (const T *)args.dy + place * columns, column, columns, args.is_wide);
        float weight = source >= 0 ? args.weights[source] : 0.0f;
        if (bias)
            add_bias(gate, bias, column, columns, args.is_wide);
        if (bias && args.is_gated)
            add_bias(up, bias + columns, column, columns, args.is_wide);
        const eight_gates gates = other_gates<T, IS_LOGISTIC>(args, gate);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float2 at = gate_of<T, IS_LOGISTIC>(args, gate[i], gates.x[i], gates.slope[i]);
            float other = args.is_gated ? glu_up(args.rule, up[i]) : 1.0f, y = at.x * other;
            dweight += dy[i] * y;
            bool moves = source >= 0 && (!args.is_gated || glu_gate_moves(args.rule, gate[i]));
            gate[i] = moves ? weight * dy[i] * other * at.y : 0.0f;
            up[i] = source >= 0 && glu_up_moves(args.rule, up[i]) ? weight * dy[i] * at.x : 0.0f;
            dy[i] = source >= 0 ? weight * y : 0.0f;
        }
        store8(dx, column, columns, args.is_wide, gate);
        if (args.is_gated)
            store8(dx + columns, column, columns, args.is_wide, up);
        if (args.y)
            store8((T *)args.y + place * columns, column, columns, args.is_wide, dy);
    }
    dweight = block_sum(dweight, shared);
    if (threadIdx.x == 0 && source >= 0)
        args.dweights[source] = dweight;
}

// Number of threads with which a block walks over a row in equal steps.
static unsigned expert_threads(int64_t columns) {
    int64_t groups = divide_up(columns, 8), steps = divide_up(groups, EXPERT_THREADS);
    return (unsigned)(divide_up(divide_up(groups, steps), 32) * 32);
}

template <typename OP> static struct expert_args expert_args_of(const OP *op, int64_t columns) {
    struct expert_args args = {};
    args.y = op->y.data;
    args.x = op->x.data;
    args.bias = op->bias.data;
    args.offsets = (const int32_t *)op->offsets.data;
    args.sources = (const int32_t *)op->sources.data;
    args.weights = (const float *)op->weights.data;
    args.columns = columns;
    args.experts = (int)(op->offsets.shape[0] - 1);
    args.activation = op->activation;
    args.is_gated = op->is_gated;
    args.rule = op->rule;
    return args;
}

extern "C" void cuda_expert_activation_forward(struct device *device, const struct op_expert_activation_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct expert_args args = expert_args_of(op, op->y.shape[1]);
    const struct tensor tensors[] = {op->y, op->x, op->bias};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    if (tensor_count(op->y) > 0)
        WITH_TYPE(op->y.dtype, T, {
            void (*kernel)(struct expert_args) =
                is_logistic(args.activation) ? expert_forward_kernel<T, true> : expert_forward_kernel<T, false>;
            LAUNCH(cuda, kernel, grid_x(op->y.shape[0]), expert_threads(args.columns), 0, args);
        });
}

extern "C" void cuda_expert_activation_backward(struct device *device, const struct op_expert_activation_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct expert_args args = expert_args_of(op, op->dy.shape[1]);
    args.dx = op->dx.data;
    args.dweights = (float *)op->dweights.data;
    args.dy = op->dy.data;
    const struct tensor tensors[] = {op->dx, op->y, op->dy, op->x, op->bias};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    // For slots without a place.
    CHECK_CUDA(cudaMemsetAsync(args.dweights, 0, tensor_bytes(op->dweights), cuda->streams[STREAM_COMPUTE]));
    if (tensor_count(op->dy) > 0)
        WITH_TYPE(op->dy.dtype, T, {
            void (*kernel)(struct expert_args) =
                is_logistic(args.activation) ? expert_backward_kernel<T, true> : expert_backward_kernel<T, false>;
            LAUNCH(cuda, kernel, grid_x(op->dy.shape[0]), expert_threads(args.columns), 0, args);
        });
    if (op->dbias.data)
        expert_column_sums(cuda, op->dbias, op->dx, op->offsets);
}
