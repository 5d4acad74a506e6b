// Adam and Lion with decoupled weight decay and SGD with momentum over a flat range, and the scaling of one. Master
// weights are fp32 or two halves, bf16 and the rest (see tensor/half.h); split and merge convert between these. All is
// elementwise: a thread walks the range in steps of the whole grid.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/updates.cuh"

// P and Q are the storage types of the moments, see updates.cuh.
template <typename P, typename Q> struct adam_args {
    P m;                 // (count)
    Q v;                 // (count)
    const float *grad;   // (count)
    const float *scale;  // (1)
    const float *rate;   // (RATE_GROUP)
    int64_t count;
    float beta1, beta2, epsilon;
    bool is_decayed;
};

// Factors common to all elements, read from device memory.
struct adam_factors {
    float scale, step, correction, decay;
};

template <typename P, typename Q>
static __device__ __forceinline__ void adam_update(const struct adam_args<P, Q> &args, struct adam_factors factors,
                                                   const float grad[4], float master[4], float m[4], float v[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float g = grad[i] * factors.scale;
        m[i] = args.beta1 * m[i] + (1 - args.beta1) * g;
        v[i] = args.beta2 * v[i] + (1 - args.beta2) * g * g;
        float update = factors.step * m[i] / (sqrtf(v[i] * factors.correction) + args.epsilon);
        master[i] = master[i] - factors.decay * master[i] - update;
    }
}

template <typename P, typename Q>
static __device__ __forceinline__ struct adam_factors read_factors(const struct adam_args<P, Q> &args) {
    struct adam_factors factors = {*args.scale, args.rate[ADAM_STEP], args.rate[ADAM_CORRECTION],
                                   args.is_decayed ? args.rate[ADAM_DECAY] : 0.0f};
    return factors;
}

// The halves of (count) numbers: bf16 and the rest.
struct halves {
    __nv_bfloat16 *value;
    int16_t *rest;
};

static __device__ __forceinline__ float merge_halves(uint32_t value, uint32_t rest) {
    return __uint_as_float((value << 16) + (uint32_t)(int32_t)(int16_t)rest);
}

// The lower half of the result is the bf16, the upper one the rest. As in half_rest, a rest of 0x8000, which does not
// fit 16 bits, becomes 0x7FFF.
static __device__ __forceinline__ uint32_t split_halves(float x) {
    uint32_t bits = __float_as_uint(x), value = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    uint32_t rest = bits - (value << 16);
    rest = rest == 0x8000u ? 0x7FFFu : rest;
    return value | (isnan(x) ? 0 : rest << 16);
}

// Elements [i, i + 4); those beyond count read as 0 and are not written. Four 16-bit numbers can be accessed at once if
// the first is aligned; both arrays are checked.
static __device__ __forceinline__ bool halves_are_wide(struct halves from, int64_t i, int64_t count) {
    return i + 4 <= count && (((uintptr_t)(from.value + i) | (uintptr_t)(from.rest + i)) & 7) == 0;
}

static __device__ __forceinline__ void load4(float out[4], struct halves from, int64_t i, int64_t count) {
    if (halves_are_wide(from, i, count)) {
        uint2 value = *(const uint2 *)(from.value + i), rest = *(const uint2 *)(from.rest + i);
        out[0] = merge_halves(value.x, rest.x), out[1] = merge_halves(value.x >> 16, rest.x >> 16);
        out[2] = merge_halves(value.y, rest.y), out[3] = merge_halves(value.y >> 16, rest.y >> 16);
        return;
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
        out[n] = i + n < count ? merge_halves(__bfloat16_as_ushort(from.value[i + n]), (uint16_t)from.rest[i + n]) : 0;
}

static __device__ __forceinline__ void store4(struct halves to, int64_t i, int64_t count, const float x[4]) {
    uint32_t halves[4] = {split_halves(x[0]), split_halves(x[1]), split_halves(x[2]), split_halves(x[3])};
    if (halves_are_wide(to, i, count)) {
        // __byte_perm picks bytes by number: 0x5410 the lower halves of two words, 0x7632 the upper ones.
        store_words(to.value + i,
                    make_uint2(__byte_perm(halves[0], halves[1], 0x5410), __byte_perm(halves[2], halves[3], 0x5410)));
        store_words(to.rest + i,
                    make_uint2(__byte_perm(halves[0], halves[1], 0x7632), __byte_perm(halves[2], halves[3], 0x7632)));
        return;
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
        if (i + n < count) {
            to.value[i + n] = __ushort_as_bfloat16((uint16_t)halves[n]);
            to.rest[i + n] = (int16_t)(halves[n] >> 16);
        }
}

// Storage of the master weights: fp32 with a separate copy in the model's dtype (or NULL), or halves, whose bf16 is
// that copy. The copy is written last, so its dtype is branched on only then.
struct whole_master {
    float *value;  // (count)
    void *copy;    // (count) or NULL
    enum dtype copy_dtype;
};

static __device__ __forceinline__ void load4(float out[4], struct whole_master from, int64_t i, int64_t count) {
    load4(out, from.value, i, count);
}

static __device__ __forceinline__ void store4(struct whole_master to, int64_t i, int64_t count, const float x[4]) {
    store4(to.value, i, count, x);
    if (!to.copy)
        return;
    if (to.copy_dtype == DTYPE_BF16)
        store4((__nv_bfloat16 *)to.copy, i, count, x);
    else if (to.copy_dtype == DTYPE_F16)
        store4((__half *)to.copy, i, count, x);
    else
        store4((float *)to.copy, i, count, x);
}

// Four elements a thread and step. M is a whole_master or halves.
template <typename M, typename P, typename Q> static __global__ void adam_kernel(struct adam_args<P, Q> args, M where) {
    struct adam_factors factors = read_factors(args);
    if (!isfinite(factors.scale))
        return;
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x, end = moments_end(args.count);
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < end; i += step) {
        float grad[4], master[4], m[4], v[4];
        load4(grad, args.grad, i, args.count);
        load4(master, where, i, args.count);
        load4(m, args.m, i, args.count);
        load4(v, args.v, i, args.count);
        adam_update(args, factors, grad, master, m, v);
        store_moment(args.m, i, args.count, m, grad);
        store_moment(args.v, i, args.count, v, grad);
        store4(where, i, args.count, master);
    }
}

// kernel<M>(args, M where) for masters that are whole or the lower halves of bf16 copies.
#define LAUNCH_MASTER(cuda, kernel, grid, args, master_, copy_)                                                        \
    do {                                                                                                               \
        if (master_.dtype == DTYPE_I16) {                                                                              \
            struct halves halves = {(__nv_bfloat16 *)copy_.data, (int16_t *)master_.data};                             \
            LAUNCH(cuda, kernel<struct halves>, grid, FLAT_THREADS, 0, args, halves);                                  \
            break;                                                                                                     \
        }                                                                                                              \
        if (copy_.data && copy_.dtype != DTYPE_F32 && copy_.dtype != DTYPE_BF16 && copy_.dtype != DTYPE_F16)           \
            die("the CUDA backend has no %s here", dtype_name(copy_.dtype));                                           \
        struct whole_master whole = {(float *)master_.data, copy_.data, copy_.dtype};                                  \
        LAUNCH(cuda, kernel<struct whole_master>, grid, FLAT_THREADS, 0, args, whole);                                 \
    } while (0)

// Launches a kernel over all elements, four per thread.
#define LAUNCH_UPDATE(cuda, kernel, args, master_, copy_)                                                              \
    do {                                                                                                               \
        if (args.count > 0)                                                                                            \
            LAUNCH_MASTER(cuda, kernel, flat_blocks(divide_up(args.count, 4)), args, master_, copy_);                  \
    } while (0)

template <typename P, typename Q> static void adam(struct cuda_device *cuda, const struct op_adam *op, P m, Q v) {
    struct adam_args<P, Q> args = {};
    args.m = m;
    args.v = v;
    args.grad = (const float *)op->grad.data;
    args.scale = (const float *)op->scale.data;
    args.count = tensor_count(op->master);
    args.rate = (const float *)op->rate.data;
    args.beta1 = op->beta1;
    args.beta2 = op->beta2;
    args.epsilon = op->epsilon;
    args.is_decayed = op->is_decayed;
    LAUNCH_UPDATE(cuda, adam_kernel, args, op->master, op->copy);
}

template <enum moment8_kind kind> static coded<kind> coded_of(struct tensor codes, struct tensor exponents) {
    return {(uint8_t *)codes.data, (uint8_t *)exponents.data};
}

template <enum moment8_kind kind> static any_moment<kind> any_of(struct tensor moment, struct tensor exponents) {
    return {coded_of<kind>(moment, exponents), moment.dtype};
}

// Both moments usually have the same dtype. Other combinations share a kernel.
extern "C" void cuda_adam(struct device *device, const struct op_adam *op) {
    struct cuda_device *cuda = cuda_use(device);
    bool is_plain = op->m.dtype == DTYPE_F32 || op->m.dtype == DTYPE_BF16;
    bool is_v_plain = op->v.dtype == DTYPE_F32 || op->v.dtype == DTYPE_BF16;
    if (op->m.dtype == DTYPE_F32 && op->v.dtype == DTYPE_F32)
        adam(cuda, op, (float *)op->m.data, (float *)op->v.data);
    else if (op->m.dtype == DTYPE_BF16 && op->v.dtype == DTYPE_BF16)
        adam(cuda, op, (__nv_bfloat16 *)op->m.data, (__nv_bfloat16 *)op->v.data);
    else if (!is_plain && !is_v_plain)
        adam(cuda, op, coded_of<MOMENT8_FIRST>(op->m, op->m_exponents),
             coded_of<MOMENT8_SECOND>(op->v, op->v_exponents));
    else
        adam(cuda, op, any_of<MOMENT8_FIRST>(op->m, op->m_exponents), any_of<MOMENT8_SECOND>(op->v, op->v_exponents));
}

// SGD and Lion: how an element, its moment m and its gradient g move.
struct sgd_rule {
    enum { STEP = SGD_STEP, DECAY = SGD_DECAY };
    float momentum;

    __device__ __forceinline__ void move(float &master, float &m, float g, float rate, float decay) const {
        m = momentum * m + (g + decay * master);
        master -= rate * m;
    }
};

struct lion_rule {
    enum { STEP = LION_STEP, DECAY = LION_DECAY };
    float beta1, beta2;

    __device__ __forceinline__ void move(float &master, float &m, float g, float rate, float decay) const {
        float along = beta1 * m + (1 - beta1) * g, sign = along > 0 ? 1.0f : along < 0 ? -1.0f : 0.0f;
        m = beta2 * m + (1 - beta2) * g;
        master = master - decay * master - rate * sign;
    }
};

template <typename RULE> struct moment_args {
    float *m;            // (count)
    const float *grad;   // (count)
    const float *scale;  // (1)
    const float *rate;   // (RATE_GROUP)
    int64_t count;
    bool is_decayed;
    RULE rule;
};

// Four elements a thread and step, as in adam_kernel.
template <typename M, typename RULE> static __global__ void moment_kernel(struct moment_args<RULE> args, M where) {
    float scale = *args.scale, rate = args.rate[RULE::STEP], decay = args.is_decayed ? args.rate[RULE::DECAY] : 0.0f;
    if (!isfinite(scale))
        return;
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < args.count; i += step) {
        float grad[4], master[4], m[4];
        load4(grad, args.grad, i, args.count);
        load4(master, where, i, args.count);
        load4(m, args.m, i, args.count);
#pragma unroll
        for (int n = 0; n < 4; n++)
            args.rule.move(master[n], m[n], grad[n] * scale, rate, decay);
        store4(args.m, i, args.count, m);
        store4(where, i, args.count, master);
    }
}

template <typename OP, typename RULE> static void move(struct cuda_device *cuda, const OP *op, const RULE &rule) {
    struct moment_args<RULE> args = {};
    args.m = (float *)op->m.data;
    args.grad = (const float *)op->grad.data;
    args.scale = (const float *)op->scale.data;
    args.rate = (const float *)op->rate.data;
    args.count = tensor_count(op->master);
    args.is_decayed = op->is_decayed;
    args.rule = rule;
    LAUNCH_UPDATE(cuda, moment_kernel, args, op->master, op->copy);
}

extern "C" void cuda_sgd(struct device *device, const struct op_sgd *op) {
    move(cuda_use(device), op, sgd_rule{op->momentum});
}

extern "C" void cuda_lion(struct device *device, const struct op_lion *op) {
    move(cuda_use(device), op, lion_rule{op->beta1, op->beta2});
}

template <typename T> struct follow_args {
    const T *x;          // (count)
    const float *scale;  // (1)
    const float *rate;   // (RATE_GROUP)
    int64_t count;
    float factor;
    bool is_decayed;
};

template <typename M, typename T> static __global__ void follow_kernel(struct follow_args<T> args, M where) {
    float rate = args.rate[FOLLOW_STEP] * args.factor, decay = args.is_decayed ? args.rate[FOLLOW_DECAY] : 0.0f;
    if (!isfinite(*args.scale))
        return;
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < args.count; i += step) {
        float x[4], master[4];
        load4(x, args.x, i, args.count);
        load4(master, where, i, args.count);
#pragma unroll
        for (int n = 0; n < 4; n++)
            master[n] = master[n] - decay * master[n] - rate * x[n];
        store4(where, i, args.count, master);
    }
}

template <typename X> static void follow(struct cuda_device *cuda, const struct op_follow *op) {
    struct follow_args<X> args = {};
    args.x = (const X *)op->x.data;
    args.scale = (const float *)op->scale.data;
    args.rate = (const float *)op->rate.data;
    args.count = tensor_count(op->master);
    args.factor = op->factor;
    args.is_decayed = op->is_decayed;
    LAUNCH_UPDATE(cuda, follow_kernel, args, op->master, op->copy);
}

extern "C" void cuda_follow(struct device *device, const struct op_follow *op) {
    if (op->x.dtype == DTYPE_BF16)
        follow<__nv_bfloat16>(cuda_use(device), op);
    else
        follow<float>(cuda_use(device), op);
}

struct average_args {
    float *average;      // (count)
    const float *scale;  // (1)
    int64_t count;
    float decay;
};

// The value that a master stored there would have when read back.
static __device__ __forceinline__ float as_stored(struct halves, float x) {
    uint32_t split = split_halves(x);
    return merge_halves(split, split >> 16);
}

static __device__ __forceinline__ float as_stored(struct whole_master, float x) {
    return x;
}

template <typename M> static __global__ void average_kernel(struct average_args args, M where) {
    if (!isfinite(*args.scale))
        return;
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < args.count; i += step) {
        float average[4], master[4];
        load4(average, args.average, i, args.count);
        load4(master, where, i, args.count);
#pragma unroll
        for (int n = 0; n < 4; n++)
            average[n] = as_stored(where, average[n] + (1.0f - args.decay) * (master[n] - average[n]));
        store4(args.average, i, args.count, average);
    }
}

extern "C" void cuda_average(struct device *device, const struct op_average *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct average_args args = {};
    args.average = (float *)op->average.data;
    args.scale = (const float *)op->scale.data;
    args.count = tensor_count(op->average);
    args.decay = op->decay;
    LAUNCH_UPDATE(cuda, average_kernel, args, op->master, op->copy);
}

struct clip_rows_args {
    const float *largest;  // (units * heads)
    const float *scale;    // (1)
    int64_t columns, unit_rows, first, count;
    int heads;
    float threshold, power;
};

// Block (x, unit): elements of the rows of a unit that are scaled. Those of a master in halves may not be aligned.
template <typename M> static __global__ void clip_rows_kernel(struct clip_rows_args args, M where) {
    float largest = 0;
    for (int i = 0; i < args.heads; i++)
        largest = fmaxf(largest, args.largest[(int64_t)blockIdx.y * args.heads + i]);
    if (!isfinite(*args.scale) || largest <= args.threshold)
        return;
    float factor = powf(args.threshold / largest, args.power);
    int64_t first = (blockIdx.y * args.unit_rows + args.first) * args.columns, end = first + args.count * args.columns;
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = first + 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < end; i += step) {
        float master[4];
        load4(master, where, i, end);
#pragma unroll
        for (int n = 0; n < 4; n++)
            master[n] *= factor;
        store4(where, i, end, master);
    }
}

extern "C" void cuda_clip_rows(struct device *device, const struct op_clip_rows *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t units = tensor_count(op->master) / (op->unit_rows * op->columns), count = op->count * op->columns;
    if (units == 0 || count == 0)
        return;
    struct clip_rows_args args = {};
    args.largest = (const float *)op->largest.data;
    args.scale = (const float *)op->scale.data;
    args.columns = op->columns;
    args.unit_rows = op->unit_rows;
    args.first = op->first;
    args.count = op->count;
    args.heads = (int)(tensor_count(op->largest) / units);
    args.threshold = op->threshold;
    args.power = op->power;
    dim3 grid(grid_x(min((int64_t)256, divide_up(count, 4 * FLAT_THREADS))), grid_yz(units));
    LAUNCH_MASTER(cuda, clip_rows_kernel, grid, args, op->master, op->copy);
}

// From fp32 to halves and back: each side is a pointer to floats or halves.
template <typename To, typename From> static __global__ void convert_kernel(To to, From from, int64_t count) {
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) {
        float values[4];
        load4(values, from, i, count);
        store4(to, i, count, values);
    }
}

template <typename To, typename From> static void convert(struct cuda_device *cuda, To to, From from, int64_t count) {
    if (count > 0)
        LAUNCH(cuda, (convert_kernel<To, From>), flat_blocks(divide_up(count, 4)), FLAT_THREADS, 0, to, from, count);
}

extern "C" void cuda_split(struct device *device, const struct op_split *op) {
    struct halves halves = {(__nv_bfloat16 *)op->value.data, (int16_t *)op->rest.data};
    convert(cuda_use(device), halves, (const float *)op->x.data, tensor_count(op->x));
}

extern "C" void cuda_merge(struct device *device, const struct op_merge *op) {
    struct halves halves = {(__nv_bfloat16 *)op->value.data, (int16_t *)op->rest.data};
    convert(cuda_use(device), (float *)op->x.data, halves, tensor_count(op->x));
}

static __global__ void scale_kernel(float *x, int64_t count, float factor, const float *by) {
    factor = by ? factor * *by : factor;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        x[i] *= factor;
}

extern "C" void cuda_scale(struct device *device, const struct op_scale *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t count = tensor_count(op->x);
    if (count > 0)
        LAUNCH(cuda, scale_kernel, flat_blocks(count), FLAT_THREADS, 0, (float *)op->x.data, count, op->factor,
               (const float *)op->by.data);
}
