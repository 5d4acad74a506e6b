// Plain activations, and gated units: eight neighbouring elements per thread and step.
#include "ops/cuda/activation.cuh"
#include "ops/cuda/elements.cuh"

enum { ACTIVATION_THREADS = 256, GLU_THREADS = 512 };

struct activation_args {
    void *out;           // y or dx
    void *again;         // y beside dx, or NULL
    const void *x, *dy;  // dy NULL: forward
    int64_t columns;     // of a row of y; plain activations see all rows as one
    enum activation activation;
    struct glu_rule rule;
    bool is_wide;  // rows are aligned to 16 bytes
};

template <typename T> static __global__ void activation_kernel(struct activation_args args) {
    int64_t column = 8 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x), columns = args.columns;
    if (column >= columns)
        return;
    eight_gates gates;
    float out[8];
    bool is_wide = args.is_wide && column + 8 <= columns;
    load8(gates.x, (const T *)args.x, column, columns, is_wide);
    if (args.dy)
        load8(out, (const T *)args.dy, column, columns, is_wide);
    if (args.activation != ACTIVATION_GELU_TANH)
        gates = any_gates<T>(args.activation, gates);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (args.activation == ACTIVATION_GELU_TANH) {
            float2 at = activation_at<T>(ACTIVATION_GELU_TANH, gates.x[i]);
            gates.x[i] = at.x, gates.slope[i] = at.y;
        }
        out[i] = args.dy ? out[i] * gates.slope[i] : gates.x[i];
    }
    store8((T *)args.out, column, columns, is_wide, out);
    if (args.again)
        store8((T *)args.again, column, columns, is_wide, gates.x);
}

// Values and slopes of eight gates, unless by Llama's activation without a rule, which has its own code path (IS_SILU).
template <typename T, bool IS_SILU>
static __device__ __forceinline__ eight_gates other_gates(const struct activation_args &args, const float gate[8]) {
    eight_gates at = {};
#pragma unroll
    for (int i = 0; i < 8 && !IS_SILU; i++)
        at.x[i] = glu_gate(args.rule, gate[i]);
    return IS_SILU ? at : any_gates<T>(args.activation, at);
}

// A block per row, eight columns a thread and step.
template <typename T, bool IS_SILU> static __global__ void glu_forward_kernel(struct activation_args args) {
    int64_t row = blockIdx.x, columns = args.columns;
    const T *x = (const T *)args.x + row * 2 * columns;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float gate[8], up[8];
        load8(gate, x, column, columns, args.is_wide);
        load8(up, x + columns, column, columns, args.is_wide);
        const eight_gates gates = other_gates<T, IS_SILU>(args, gate);
#pragma unroll
        for (int i = 0; i < 8; i++)
            up[i] =
                IS_SILU ? up[i] * logistic_at<T>(ACTIVATION_SILU, gate[i]).x : glu_up(args.rule, up[i]) * gates.x[i];
        store8((T *)args.out + row * columns, column, columns, args.is_wide, up);
    }
}

template <typename T, bool IS_SILU> static __global__ void glu_backward_kernel(struct activation_args args) {
    int64_t row = blockIdx.x, columns = args.columns;
    const T *x = (const T *)args.x + row * 2 * columns;
    T *dx = (T *)args.out + row * 2 * columns;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float gate[8], up[8], dy[8];
        load8(gate, x, column, columns, args.is_wide);
        load8(up, x + columns, column, columns, args.is_wide);
        load8(dy, (const T *)args.dy + row * columns, column, columns, args.is_wide);
        const eight_gates gates = other_gates<T, IS_SILU>(args, gate);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float2 at = IS_SILU ? logistic_at<T>(ACTIVATION_SILU, gate[i]) : make_float2(gates.x[i], gates.slope[i]);
            float other = IS_SILU ? up[i] : glu_up(args.rule, up[i]), y = at.x * other;
            gate[i] = IS_SILU || glu_gate_moves(args.rule, gate[i]) ? dy[i] * other * at.y : 0.0f;
            up[i] = IS_SILU || glu_up_moves(args.rule, up[i]) ? dy[i] * at.x : 0.0f;
            dy[i] = y;
        }
        store8(dx, column, columns, args.is_wide, gate);
        store8(dx + columns, column, columns, args.is_wide, up);
        if (args.again)
            store8((T *)args.again + row * columns, column, columns, args.is_wide, dy);
    }
}

// Number of threads with which a block walks over a row in equal steps.
static unsigned glu_threads(int64_t columns) {
    int64_t groups = divide_up(columns, 8), steps = divide_up(groups, GLU_THREADS);
    return (unsigned)(divide_up(divide_up(groups, steps), 32) * 32);
}

// An operation's y, dx or dy may be none.
template <typename OP>
static struct activation_args make_args(const OP *op, struct tensor out, struct tensor dy, struct tensor again) {
    const struct tensor tensors[] = {out, op->x, dy, again};
    struct activation_args args = {};
    args.out = out.data;
    args.again = again.data;
    args.x = op->x.data;
    args.dy = dy.data;
    args.activation = op->activation;
    args.is_wide = rows_are_wide(0, tensors, sizeof tensors / sizeof tensors[0]);
    return args;
}

static void run_plain(struct device *device, struct activation_args args, struct tensor x) {
    struct cuda_device *cuda = cuda_use(device);
    args.columns = tensor_count(x);
    if (args.columns > 0)
        WITH_TYPE(x.dtype, T,
                  LAUNCH(cuda, activation_kernel<T>, grid_x(divide_up(args.columns, 8 * ACTIVATION_THREADS)),
                         ACTIVATION_THREADS, 0, args));
}

static void run_glu(struct device *device, struct activation_args args, struct tensor x, struct glu_rule rule) {
    struct cuda_device *cuda = cuda_use(device);
    args.columns = x.shape[1] / 2;
    args.is_wide = args.is_wide && args.columns % 8 == 0;
    args.rule = rule;
    if (tensor_count(x) == 0)
        return;
    bool is_silu = args.activation == ACTIVATION_SILU && rule.limit == 0 && rule.offset == 0;
    unsigned rows = grid_x(x.shape[0]), threads = glu_threads(args.columns);
    WITH_TYPE(x.dtype, T, {
        auto kernel = args.dy ? (is_silu ? glu_backward_kernel<T, true> : glu_backward_kernel<T, false>)
                              : (is_silu ? glu_forward_kernel<T, true> : glu_forward_kernel<T, false>);
        LAUNCH(cuda, kernel, rows, threads, 0, args);
    });
}

extern "C" void cuda_activation_forward(struct device *device, const struct op_activation_forward *op) {
    run_plain(device, make_args(op, op->y, {}, {}), op->x);
}

extern "C" void cuda_activation_backward(struct device *device, const struct op_activation_backward *op) {
    run_plain(device, make_args(op, op->dx, op->dy, op->y), op->x);
}

extern "C" void cuda_glu_forward(struct device *device, const struct op_glu_forward *op) {
    run_glu(device, make_args(op, op->y, {}, {}), op->x, op->rule);
}

extern "C" void cuda_glu_backward(struct device *device, const struct op_glu_backward *op) {
    run_glu(device, make_args(op, op->dx, op->dy, op->y), op->x, op->rule);
}
