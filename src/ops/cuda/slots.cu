// Copies rows to the places of their slots and back. A warp per row, eight columns per lane and step; several reads are
// in flight at once.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/slots.cuh"

enum { SLOT_WARPS = 8, STEP_COLUMNS = 8 * 32, STEPS_AHEAD = 4, SLOTS_AHEAD = 4 };

struct gather_args {
    void *y;
    const void *x;
    const int32_t *sources;
    int64_t places, columns;
    int per_row;
    bool is_wide;
};

template <typename T> static __global__ void gather_kernel(struct gather_args args) {
    int64_t place = (int64_t)blockIdx.x * SLOT_WARPS + threadIdx.y, columns = args.columns;
    if (place >= args.places)
        return;
    int32_t source = args.sources[place];
    T *y = (T *)args.y + place * columns;
    const T *x = (const T *)args.x + (int64_t)(source / args.per_row) * columns;
    for (int64_t first = 8 * threadIdx.x; first < columns; first += STEPS_AHEAD * STEP_COLUMNS) {
        float value[STEPS_AHEAD][8] = {};
#pragma unroll
        for (int i = 0; i < STEPS_AHEAD; i++)
            if (source >= 0 && first + i * STEP_COLUMNS < columns)
                load8(value[i], x, first + i * STEP_COLUMNS, columns, args.is_wide);
#pragma unroll
        for (int i = 0; i < STEPS_AHEAD; i++)
            if (first + i * STEP_COLUMNS < columns)
                store8(y, first + i * STEP_COLUMNS, columns, args.is_wide, value[i]);
    }
}

extern "C" void cuda_gather_slots(struct device *device, const struct op_gather_slots *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct gather_args args = {};
    args.y = op->y.data;
    args.x = op->x.data;
    args.sources = (const int32_t *)op->sources.data;
    args.places = op->y.shape[0];
    args.columns = op->y.shape[1];
    args.per_row = (int)op->per_row;
    const struct tensor tensors[] = {op->y, op->x};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    if (args.places * args.columns > 0)
        WITH_TYPE(
            op->y.dtype, T,
            LAUNCH(cuda, gather_kernel<T>, grid_x(divide_up(args.places, SLOT_WARPS)), dim3(32, SLOT_WARPS), 0, args));
}

struct sum_args {
    void *out;
    const void *y, *addend, *bias;  // the last two may be NULL
    const int32_t *places, *experts;
    const float *weights;
    int64_t rows, columns;
    int chosen;
    bool is_wide;
};

template <typename T> static __global__ void sum_slots_kernel(struct sum_args args) {
    int64_t row = (int64_t)blockIdx.x * SLOT_WARPS + threadIdx.y, columns = args.columns;
    if (row >= args.rows)
        return;
    const int32_t *places = args.places + row * args.chosen;
    const T *all = (const T *)args.y;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += STEP_COLUMNS) {
        float sum[8] = {};
        if (args.addend)
            load8(sum, (const T *)args.addend + row * columns, column, columns, args.is_wide);
        for (int first = 0; first < args.chosen; first += SLOTS_AHEAD) {
            eight<T> packed[SLOTS_AHEAD];
            bool is_there[SLOTS_AHEAD];
#pragma unroll
            for (int i = 0; i < SLOTS_AHEAD; i++) {
                int32_t place = first + i < args.chosen ? places[first + i] : -1;
                is_there[i] = place >= 0;
                if (is_there[i])
                    packed[i] = fetch8(all + (int64_t)place * columns, column, columns, args.is_wide);
            }
#pragma unroll
            for (int i = 0; i < SLOTS_AHEAD; i++) {
                float value[8];
                if (!is_there[i])
                    continue;
                unpack8(value, packed[i]);
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum[j] += value[j];
                if (!args.bias)
                    continue;
                int64_t slot = row * args.chosen + first + i;
                float weight = args.weights[slot];
                load8(value, (const T *)args.bias + args.experts[slot] * columns, column, columns, args.is_wide);
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum[j] += weight * value[j];
            }
        }
        store8((T *)args.out + row * columns, column, columns, args.is_wide, sum);
    }
}

extern "C" void cuda_sum_slots(struct device *device, const struct op_sum_slots *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct sum_args args = {};
    args.out = op->out.data;
    args.y = op->y.data;
    args.addend = op->addend.data;
    args.bias = op->bias.data;
    args.places = (const int32_t *)op->places.data;
    args.experts = (const int32_t *)op->experts.data;
    args.weights = (const float *)op->weights.data;
    args.rows = op->out.shape[0];
    args.columns = op->out.shape[1];
    args.chosen = (int)op->places.shape[1];
    const struct tensor tensors[] = {op->out, op->y, op->addend, op->bias};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    if (args.rows * args.columns > 0)
        WITH_TYPE(
            op->out.dtype, T,
            LAUNCH(cuda, sum_slots_kernel<T>, grid_x(divide_up(args.rows, SLOT_WARPS)), dim3(32, SLOT_WARPS), 0, args));
}

// ---- Gradients of biases ----

struct expert_sum_args {
    float *out;  // (E, C)
    const void *x;
    const int32_t *offsets, *sources;  // sources NULL: rows of x are places
    const float *weights;
    int64_t columns;
    int per_row;
    bool is_wide;
};

// Block (32, ROW_LANES) at (256 columns, expert): a thread adds eight columns of every eighth row of the expert.
template <typename T> static __global__ void expert_sum_kernel(struct expert_sum_args args) {
    __shared__ float sums[ROW_LANES][8][COLUMN_LANES];
    int64_t tile = (int64_t)blockIdx.x * STEP_COLUMNS, column = tile + 8 * threadIdx.x, columns = args.columns;
    int end = args.offsets[blockIdx.y + 1];
    float sum[8] = {};
    for (int place = args.offsets[blockIdx.y] + threadIdx.y; place < end && column < columns; place += ROW_LANES) {
        int32_t source = args.sources ? args.sources[place] : 0;
        if (source < 0)
            continue;
        int64_t row = args.sources ? source / args.per_row : place;
        float weight = args.sources ? args.weights[source] : 1.0f, value[8];
        load8(value, (const T *)args.x + row * columns, column, columns, args.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum[i] += weight * value[i];
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        sums[threadIdx.y][i][threadIdx.x] = sum[i];
    __syncthreads();
    int thread = threadIdx.y * COLUMN_LANES + threadIdx.x;
    if (tile + thread < columns) {
        float total = 0;
        for (int i = 0; i < ROW_LANES; i++)
            total += sums[i][thread & 7][thread >> 3];
        args.out[blockIdx.y * columns + tile + thread] += total;
    }
}

static void run_expert_sums(struct cuda_device *cuda, const struct expert_sum_args *args, enum dtype dtype,
                            int64_t experts) {
    dim3 grid(grid_x(divide_up(args->columns, STEP_COLUMNS)), grid_yz(experts));
    WITH_TYPE(dtype, T, LAUNCH(cuda, expert_sum_kernel<T>, grid, dim3(COLUMN_LANES, ROW_LANES), 0, *args));
}

void expert_column_sums(struct cuda_device *cuda, struct tensor out, struct tensor x, struct tensor offsets) {
    struct expert_sum_args args = {};
    args.out = (float *)out.data;
    args.x = x.data;
    args.offsets = (const int32_t *)offsets.data;
    args.columns = x.shape[1];
    args.is_wide = rows_are_wide(args.columns, &x, 1);
    if (args.columns > 0)
        run_expert_sums(cuda, &args, x.dtype, out.shape[0]);
}

// A warp per place: the gradient of its slot's weight.
template <typename T>
static __global__ void slot_weight_kernel(float *dweights, const T *dout, const T *bias, struct expert_sum_args args,
                                          int experts) {
    int64_t place = (int64_t)blockIdx.x * SLOT_WARPS + threadIdx.y, columns = args.columns;
    if (place >= args.offsets[experts] || args.sources[place] < 0)
        return;
    int32_t source = args.sources[place];
    const T *from = dout + (int64_t)(source / args.per_row) * columns;
    bias += expert_at(args.offsets, experts, place) * columns;
    float sum = 0;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += STEP_COLUMNS) {
        float a[8], b[8];
        load8(a, from, column, columns, args.is_wide);
        load8(b, bias, column, columns, args.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum += a[i] * b[i];
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0)
        dweights[source] += sum;
}

extern "C" void cuda_slot_bias_backward(struct device *device, const struct op_slot_bias_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct expert_sum_args args = {};
    args.out = (float *)op->dbias.data;
    args.x = op->dout.data;
    args.offsets = (const int32_t *)op->offsets.data;
    args.sources = (const int32_t *)op->sources.data;
    args.weights = (const float *)op->weights.data;
    args.columns = op->dout.shape[1];
    args.per_row = (int)op->weights.shape[1];
    const struct tensor tensors[] = {op->dout, op->bias};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    int64_t experts = op->bias.shape[0], places = op->sources.shape[0];
    if (args.columns == 0 || places == 0)
        return;
    run_expert_sums(cuda, &args, op->dout.dtype, experts);
    WITH_TYPE(op->dout.dtype, T,
              LAUNCH(cuda, slot_weight_kernel<T>, grid_x(divide_up(places, SLOT_WARPS)), dim3(32, SLOT_WARPS), 0,
                     (float *)op->dweights.data, (const T *)op->dout.data, (const T *)op->bias.data, args,
                     (int)experts));
}
