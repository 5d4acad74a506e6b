// Plain activations, four neighbouring columns per thread, and gated units, eight columns per thread and step.
#include "ops/cuda/activation.cuh"
#include "ops/cuda/elements.cuh"

enum { ACTIVATION_THREADS = 256, GLU_THREADS = 512 };

struct activation_args {
    void *out;                     // y or dx
    void *again;                   // y beside dx, or NULL
    const void *x, *dy;            // dy NULL: forward
    int64_t rows, columns, quads;  // quads: groups of four columns in a row of y
    enum activation activation;
    struct glu_rule rule;
    bool is_wide;  // gated units: rows are aligned to 16 bytes
};

// The row and first column of this thread's four elements; false if there are none.
static __device__ __forceinline__ bool find_place(const struct activation_args &args, int64_t *row, int64_t *column) {
    int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    *row = index / args.quads;
    *column = index % args.quads * 4;
    return *row < args.rows;
}

template <typename T> static __global__ void activation_kernel(struct activation_args args) {
    int64_t row, column, columns = args.columns;
    if (!find_place(args, &row, &column))
        return;
    float x[4], dy[4], y[4];
    load4(x, (const T *)args.x + row * columns, column, columns);
    if (args.dy)
        load4(dy, (const T *)args.dy + row * columns, column, columns);
    several<4> value = {x[0], x[1], x[2], x[3]}, slope = value;
    bool is_fast = args.activation == ACTIVATION_GELU_TANH, has_value = args.again || !args.dy;
    if (!is_fast && args.dy)
        slope = any_slopes(args.activation, slope);
    if (!is_fast && has_value)
        value = any_values(args.activation, value);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        y[i] = is_fast && has_value ? value_of(ACTIVATION_GELU_TANH, x[i]) : value.x[i];
        float s = is_fast && args.dy ? slope_of(ACTIVATION_GELU_TANH, x[i]) : slope.x[i];
        x[i] = args.dy ? dy[i] * s : y[i];
    }
    store4((T *)args.out + row * columns, column, columns, x);
    if (args.again)
        store4((T *)args.again + row * columns, column, columns, y);
}

// Llama's activation without a rule has its own code path (IS_SILU): value and slope share an exponential.
template <typename T> static __device__ __forceinline__ float2 silu_gate(float x) {
    float s = logistic<T>(x);
    return make_float2(x * s, s + x * s * (1.0f - s));
}

// Values and slopes of eight gates by any other activation.
template <bool IS_SILU>
static __device__ __forceinline__ eight_gates other_gates(const struct activation_args &args, const float gate[8]) {
    eight_gates at = {};
#pragma unroll
    for (int i = 0; i < 8 && !IS_SILU; i++)
        at.x[i] = glu_gate(args.rule, gate[i]);
    return IS_SILU ? at : any_gates(args.activation, at);
}

// A block per row, eight columns a thread and step.
template <typename T, bool IS_SILU> static __global__ void glu_forward_kernel(struct activation_args args) {
    int64_t row = blockIdx.x, columns = args.columns;
    const T *x = (const T *)args.x + row * 2 * columns;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float gate[8], up[8];
        load8(gate, x, column, columns, args.is_wide);
        load8(up, x + columns, column, columns, args.is_wide);
        const eight_gates gates = other_gates<IS_SILU>(args, gate);
#pragma unroll
        for (int i = 0; i < 8; i++)
            up[i] = (IS_SILU ? up[i] : glu_up(args.rule, up[i])) * (IS_SILU ? silu_gate<T>(gate[i]).x : gates.x[i]);
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
        const eight_gates gates = other_gates<IS_SILU>(args, gate);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float2 at = IS_SILU ? silu_gate<T>(gate[i]) : make_float2(gates.x[i], gates.slope[i]);
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

// The arguments for a result of this shape.
static struct activation_args make_args(struct tensor out, struct tensor x, struct tensor dy, struct tensor shape,
                                        enum activation activation) {
    struct activation_args args = {};
    args.out = out.data;
    args.x = x.data;
    args.dy = dy.data;
    args.rows = shape.shape[0];
    args.columns = shape.shape[1];
    args.quads = divide_up(args.columns, 4);
    args.activation = activation;
    return args;
}

static unsigned blocks_of(const struct activation_args *args) {
    return grid_x(divide_up(args->rows * args->quads, ACTIVATION_THREADS));
}

extern "C" void cuda_activation_forward(struct device *device, const struct op_activation_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct activation_args args = make_args(op->y, op->x, {}, op->x, op->activation);
    if (args.rows * args.quads > 0)
        WITH_TYPE(op->x.dtype, T, LAUNCH(cuda, activation_kernel<T>, blocks_of(&args), ACTIVATION_THREADS, 0, args));
}

extern "C" void cuda_activation_backward(struct device *device, const struct op_activation_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct activation_args args = make_args(op->dx, op->x, op->dy, op->x, op->activation);
    args.again = op->y.data;
    if (args.rows * args.quads > 0)
        WITH_TYPE(op->x.dtype, T, LAUNCH(cuda, activation_kernel<T>, blocks_of(&args), ACTIVATION_THREADS, 0, args));
}

extern "C" void cuda_glu_forward(struct device *device, const struct op_glu_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct activation_args args = make_args(op->y, op->x, {}, op->y, op->activation);
    if (args.rows * args.columns == 0)
        return;
    const struct tensor tensors[] = {op->y, op->x};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    args.rule = op->rule;
    bool is_silu = op->activation == ACTIVATION_SILU && op->rule.limit == 0 && op->rule.offset == 0;
    unsigned rows = grid_x(args.rows), threads = glu_threads(args.columns);
    WITH_TYPE(op->x.dtype, T, {
        if (is_silu)
            LAUNCH(cuda, (glu_forward_kernel<T, true>), rows, threads, 0, args);
        else
            LAUNCH(cuda, (glu_forward_kernel<T, false>), rows, threads, 0, args);
    });
}

extern "C" void cuda_glu_backward(struct device *device, const struct op_glu_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct activation_args args = make_args(op->dx, op->x, op->dy, op->dy, op->activation);
    args.again = op->y.data;
    if (args.rows * args.columns == 0)
        return;
    const struct tensor tensors[] = {op->dx, op->x, op->dy, op->y};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    args.rule = op->rule;
    bool is_silu = op->activation == ACTIVATION_SILU && op->rule.limit == 0 && op->rule.offset == 0;
    unsigned rows = grid_x(args.rows), threads = glu_threads(args.columns);
    WITH_TYPE(op->x.dtype, T, {
        if (is_silu)
            LAUNCH(cuda, (glu_backward_kernel<T, true>), rows, threads, 0, args);
        else
            LAUNCH(cuda, (glu_backward_kernel<T, false>), rows, threads, 0, args);
    });
}
