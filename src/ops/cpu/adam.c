// The updates of optimizers, and the other passes over flat ranges: splitting an fp32 into halves, merging and scaling.
// Elements are independent, so a range is cut into chunks that threads take in any order.
#include "ops/cpu/cpu.h"
#include "tensor/half.h"
#include "tensor/moment8.h"
#include <math.h>
#include <string.h>

// A range of elements, and how they are updated.
struct update_range {
    float *master, *m, *v;  // (n); v only of Adam, m not of op_follow
    const float *grad;      // (n)
    float scale, decay, step_size;
    float beta1, beta2, epsilon, correction;  // of Adam, see ADAM_CORRECTION; the first two also of Lion
    float momentum;                           // of SGD
};

CPU_CLONES static void adam_update(const struct update_range *r, int64_t count) {
    float *restrict master = r->master, *restrict m = r->m, *restrict v = r->v;
    const float *restrict grad = r->grad;
    float scale = r->scale, beta1 = r->beta1, beta2 = r->beta2, epsilon = r->epsilon, decay = r->decay;
    float step_size = r->step_size, correction = r->correction;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float g = grad[i] * scale;
        float first = beta1 * m[i] + (1.0f - beta1) * g;
        float second = beta2 * v[i] + (1.0f - beta2) * (g * g);
        m[i] = first;
        v[i] = second;
        float update = step_size * first / (sqrtf(second * correction) + epsilon);
        master[i] = master[i] - decay * master[i] - update;
    }
}

CPU_CLONES static void sgd_update(const struct update_range *r, int64_t count) {
    float *restrict master = r->master, *restrict m = r->m;
    const float *restrict grad = r->grad;
    float scale = r->scale, momentum = r->momentum, decay = r->decay, step_size = r->step_size;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        m[i] = momentum * m[i] + (grad[i] * scale + decay * master[i]);
        master[i] -= step_size * m[i];
    }
}

CPU_CLONES static void lion_update(const struct update_range *r, int64_t count) {
    float *restrict master = r->master, *restrict m = r->m;
    const float *restrict grad = r->grad;
    float scale = r->scale, beta1 = r->beta1, beta2 = r->beta2, decay = r->decay, step_size = r->step_size;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float g = grad[i] * scale, along = beta1 * m[i] + (1.0f - beta1) * g;
        float sign = along > 0 ? 1.0f : along < 0 ? -1.0f : 0.0f;
        m[i] = beta2 * m[i] + (1.0f - beta2) * g;
        master[i] = master[i] - decay * master[i] - step_size * sign;
    }
}

// grad is the direction.
CPU_CLONES static void follow_update(const struct update_range *r, int64_t count) {
    float *restrict master = r->master;
    const float *restrict x = r->grad;
    float decay = r->decay, step_size = r->step_size;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        master[i] = master[i] - decay * master[i] - step_size * x[i];
}

CPU_CLONES static void split_range(uint16_t *restrict value, int16_t *restrict rest, const float *restrict x,
                                   int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        value[i] = half_to_bf16(x[i]);
        rest[i] = half_rest(x[i], value[i]);
    }
}

CPU_CLONES static void merge_range(float *restrict x, const uint16_t *restrict value, const int16_t *restrict rest,
                                   int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] = half_merge(value[i], rest[i]);
}

// An update of a whole tensor. The range begins at its first element.
struct update_job {
    void (*update)(const struct update_range *r, int64_t count);
    struct update_range range;
    struct tensor master, copy;
};

// An update with the master in halves, from `first` on: piece by piece through a buffer that stays in the cache.
static void update_halves(const struct update_job *job, struct update_range r, int64_t first, int64_t count) {
    enum { PIECE = 1024 };
    float master[PIECE];
    uint16_t *value = (uint16_t *)job->copy.data + first;
    int16_t *rest = (int16_t *)job->master.data + first;
    r.master = master;
    for (int64_t i = 0; i < count; i += PIECE) {
        int64_t length = count - i < PIECE ? count - i : PIECE;
        merge_range(master, value + i, rest + i, length);
        job->update(&r, length);
        split_range(value + i, rest + i, master, length);
        r.m += r.m ? length : 0;
        r.v += r.v ? length : 0;
        r.grad += r.grad ? length : 0;
    }
}

// Updates `count` elements from `at` on; r has the addresses of moments and gradients.
static void update_piece(const struct update_job *job, struct update_range r, int64_t at, int64_t count) {
    if (job->master.dtype == DTYPE_I16) {
        update_halves(job, r, at, count);
        return;
    }
    r.master = (float *)job->master.data + at;
    job->update(&r, count);
    if (job->copy.data)
        cpu_convert((unsigned char *)job->copy.data + (size_t)at * dtype_bytes(job->copy.dtype), job->copy.dtype,
                    r.master, DTYPE_F32, count);
}

static void update_task(void *context, struct cpu_range range) {
    const struct update_job *job = context;
    struct update_range r = job->range;
    r.m += r.m ? range.first : 0;
    r.v += r.v ? range.first : 0;
    r.grad += range.first;
    update_piece(job, r, range.first, range.end - range.first);
}

static void run_update(struct device *device, struct update_job *job) {
    if (isfinite(job->range.scale))
        cpu_run_ranges(device, tensor_count(job->master), CPU_FLAT_CHUNK, update_task, job);
}

// A moment of op_adam; exponents with codes of 8 bits.
struct moment {
    enum moment8_kind kind;
    struct tensor tensor, exponents;
};

// Blocks of MOMENT8_SHARE elements; the last of a piece may be shorter. The kind is a constant where these are called,
// so that the loops have no branches and are vectorized.
CPU_INLINE void decode_kind(enum moment8_kind kind, float *restrict piece, const uint8_t *restrict codes,
                            const uint8_t *restrict exponents, int64_t count) {
    for (int64_t at = 0; at < count; at += MOMENT8_SHARE) {
        int64_t end = count - at < MOMENT8_SHARE ? count : at + MOMENT8_SHARE;
        uint8_t exponent = exponents[at / MOMENT8_SHARE];
#pragma omp simd
        for (int64_t i = at; i < end; i++)
            piece[i] = moment8_decode(kind, codes[i], exponent);
    }
}

CPU_CLONES static void decode_first(float *piece, const uint8_t *codes, const uint8_t *exponents, int64_t count) {
    decode_kind(MOMENT8_FIRST, piece, codes, exponents, count);
}

CPU_CLONES static void decode_second(float *piece, const uint8_t *codes, const uint8_t *exponents, int64_t count) {
    decode_kind(MOMENT8_SECOND, piece, codes, exponents, count);
}

static void decode(const struct moment *moment, int64_t first, int64_t count, float *piece) {
    const uint8_t *codes = (const uint8_t *)moment->tensor.data + first;
    const uint8_t *exponents = (const uint8_t *)moment->exponents.data + first / MOMENT8_SHARE;
    if (moment->kind == MOMENT8_FIRST)
        decode_first(piece, codes, exponents, count);
    else
        decode_second(piece, codes, exponents, count);
}

// Destination of a piece: codes and exponents.
struct narrow_to {
    uint8_t *codes, *exponents;
};

CPU_INLINE void encode_kind(enum moment8_kind kind, struct narrow_to to, const float *restrict piece,
                            const float *restrict grad, int64_t count) {
    uint8_t *restrict codes = to.codes, *restrict exponents = to.exponents;
    for (int64_t at = 0; at < count; at += MOMENT8_SHARE) {
        int64_t end = count - at < MOMENT8_SHARE ? count : at + MOMENT8_SHARE;
        // Sizes are at least 0, so their bits have the same order; NaN does not count.
        uint32_t max = 0;
        CPU_SIMD_MAX
        for (int64_t i = at; i < end; i++) {
            uint32_t bits = half_float_bits(moment8_size(kind, piece[i])), own = bits > 0x7F800000u ? 0 : bits;
            max = own > max ? own : max;
        }
        uint8_t exponent = exponents[at / MOMENT8_SHARE] = moment8_exponent(kind, half_bits_float(max));
#pragma omp simd
        for (int64_t i = at; i < end; i++)
            codes[i] = moment8_encode(kind, piece[i], exponent, half_dice(grad[i], piece[i]));
    }
}

CPU_CLONES static void encode_first(struct narrow_to to, const float *piece, const float *grad, int64_t count) {
    encode_kind(MOMENT8_FIRST, to, piece, grad, count);
}

CPU_CLONES static void encode_second(struct narrow_to to, const float *piece, const float *grad, int64_t count) {
    encode_kind(MOMENT8_SECOND, to, piece, grad, count);
}

// Pieces begin at multiples of MOMENT8_SHARE.
static void encode(const struct moment *moment, int64_t first, int64_t count, const float *piece, const float *grad) {
    struct narrow_to to = {(uint8_t *)moment->tensor.data + first,
                           (uint8_t *)moment->exponents.data + first / MOMENT8_SHARE};
    if (moment->kind == MOMENT8_FIRST)
        encode_first(to, piece, grad, count);
    else
        encode_second(to, piece, grad, count);
}

// A moment's numbers in fp32, in place or converted into a buffer that stays in the cache.
static float *widen(const struct moment *moment, int64_t first, int64_t count, float *piece) {
    struct tensor tensor = moment->tensor;
    if (tensor.dtype == DTYPE_F32)
        return (float *)tensor.data + first;
    if (tensor.dtype == DTYPE_U8)
        decode(moment, first, count, piece);
    for (int64_t i = 0; i < count && tensor.dtype == DTYPE_BF16; i++)
        piece[i] = half_from_bf16(((const uint16_t *)tensor.data)[first + i]);
    return piece;
}

CPU_CLONES static void round_range(uint16_t *restrict to, const float *restrict piece, const float *restrict grad,
                                   int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = half_to_bf16_by(piece[i], half_dice(grad[i], piece[i]));
}

static void narrow(const struct moment *moment, int64_t first, int64_t count, const float *piece, const float *grad) {
    if (moment->tensor.dtype == DTYPE_U8)
        encode(moment, first, count, piece, grad);
    else if (moment->tensor.dtype == DTYPE_BF16)
        round_range((uint16_t *)moment->tensor.data + first, piece, grad, count);
}

struct narrow_job {
    const struct update_job *job;
    const struct op_adam *op;
};

// Like update_task, with moments in fewer bits.
static void narrow_task(void *context, int64_t index, int thread) {
    enum { PIECE = 1024 };
    (void)thread;
    const struct narrow_job *narrow_job = context;
    const struct op_adam *op = narrow_job->op;
    struct cpu_range range = cpu_piece(tensor_count(op->master), CPU_FLAT_CHUNK, index);
    struct moment first = {MOMENT8_FIRST, op->m, op->m_exponents}, second = {MOMENT8_SECOND, op->v, op->v_exponents};
    float m[PIECE], v[PIECE];
    for (int64_t at = range.first; at < range.end; at += PIECE) {
        int64_t count = range.end - at < PIECE ? range.end - at : PIECE;
        struct update_range r = narrow_job->job->range;
        r.m = widen(&first, at, count, m);
        r.v = widen(&second, at, count, v);
        r.grad = (const float *)op->grad.data + at;
        update_piece(narrow_job->job, r, at, count);
        narrow(&first, at, count, m, r.grad);
        narrow(&second, at, count, v, r.grad);
    }
}

static void run_adam(struct device *device, struct update_job *job, const struct op_adam *op) {
    if (op->m.dtype == DTYPE_F32 && op->v.dtype == DTYPE_F32)
        run_update(device, job);
    else if (isfinite(job->range.scale))
        cpu_run(device, cpu_pieces(tensor_count(op->master), CPU_FLAT_CHUNK), narrow_task,
                &(struct narrow_job){.job = job, .op = op});
}

void cpu_adam(struct device *device, const struct op_adam *op) {
    const float *rate = op->rate.data;
    run_adam(device,
             &(struct update_job){.update = adam_update,
                                  .master = op->master,
                                  .copy = op->copy,
                                  .range = {.m = op->m.data,
                                            .v = op->v.data,
                                            .grad = op->grad.data,
                                            .scale = *(const float *)op->scale.data,
                                            .beta1 = op->beta1,
                                            .beta2 = op->beta2,
                                            .epsilon = op->epsilon,
                                            .decay = op->is_decayed ? rate[ADAM_DECAY] : 0,
                                            .step_size = rate[ADAM_STEP],
                                            .correction = rate[ADAM_CORRECTION]}},
             op);
}

void cpu_sgd(struct device *device, const struct op_sgd *op) {
    const float *rate = op->rate.data;
    run_update(device, &(struct update_job){.update = sgd_update,
                                            .master = op->master,
                                            .copy = op->copy,
                                            .range = {.m = op->m.data,
                                                      .grad = op->grad.data,
                                                      .scale = *(const float *)op->scale.data,
                                                      .momentum = op->momentum,
                                                      .decay = op->is_decayed ? rate[SGD_DECAY] : 0,
                                                      .step_size = rate[SGD_STEP]}});
}

void cpu_lion(struct device *device, const struct op_lion *op) {
    const float *rate = op->rate.data;
    run_update(device, &(struct update_job){.update = lion_update,
                                            .master = op->master,
                                            .copy = op->copy,
                                            .range = {.m = op->m.data,
                                                      .grad = op->grad.data,
                                                      .scale = *(const float *)op->scale.data,
                                                      .beta1 = op->beta1,
                                                      .beta2 = op->beta2,
                                                      .decay = op->is_decayed ? rate[LION_DECAY] : 0,
                                                      .step_size = rate[LION_STEP]}});
}

struct follow_job {
    struct update_job job;
    struct tensor x;
};

static void follow_task(void *context, struct cpu_range range) {
    enum { PIECE = 1024 };
    const struct follow_job *follow = context;
    float x[PIECE];
    for (int64_t at = range.first; at < range.end; at += PIECE) {
        int64_t count = range.end - at < PIECE ? range.end - at : PIECE;
        struct update_range r = follow->job.range;
        cpu_convert(x, DTYPE_F32, (const unsigned char *)follow->x.data + (size_t)at * dtype_bytes(follow->x.dtype),
                    follow->x.dtype, count);
        r.grad = x;
        update_piece(&follow->job, r, at, count);
    }
}

void cpu_follow(struct device *device, const struct op_follow *op) {
    const float *rate = op->rate.data;
    struct follow_job follow = {.job = {.update = follow_update,
                                        .master = op->master,
                                        .copy = op->copy,
                                        .range = {.scale = *(const float *)op->scale.data,
                                                  .decay = op->is_decayed ? rate[FOLLOW_DECAY] : 0,
                                                  .step_size = rate[FOLLOW_STEP] * op->factor}},
                                .x = op->x};
    if (isfinite(follow.job.range.scale))
        cpu_run_ranges(device, tensor_count(op->x), CPU_FLAT_CHUNK, follow_task, &follow);
}

CPU_CLONES static void scale_update(const struct update_range *r, int64_t count) {
    float *restrict master = r->master, factor = r->step_size;
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        master[i] *= factor;
}

static void clip_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_clip_rows *op = context;
    struct update_job job = {.update = scale_update, .master = op->master, .copy = op->copy};
    int64_t unit = op->unit_rows * op->columns, units = tensor_count(op->master) / unit;
    int64_t heads = tensor_count(op->largest) / units;
    float largest = 0;
    for (int64_t i = index * heads; i < (index + 1) * heads; i++)
        largest = fmaxf(largest, ((const float *)op->largest.data)[i]);
    if (largest <= op->threshold)
        return;
    job.range.step_size = powf(op->threshold / largest, op->power);
    update_piece(&job, job.range, index * unit + op->first * op->columns, op->count * op->columns);
}

void cpu_clip_rows(struct device *device, const struct op_clip_rows *op) {
    if (isfinite(*(const float *)op->scale.data) && tensor_count(op->master) > 0)
        cpu_run(device, tensor_count(op->master) / (op->unit_rows * op->columns), clip_task, op);
}

CPU_CLONES static void average_whole(float *restrict average, const float *restrict master, float decay,
                                     int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        average[i] += (1.0f - decay) * (master[i] - average[i]);
}

static void average_halves(float *average, const struct op_average *op, int64_t first, int64_t count) {
    enum { PIECE = 1024 };
    float master[PIECE];
    uint16_t value[PIECE];
    int16_t rest[PIECE];
    for (int64_t i = 0; i < count; i += PIECE) {
        int64_t length = count - i < PIECE ? count - i : PIECE;
        merge_range(master, (const uint16_t *)op->copy.data + first + i, (const int16_t *)op->master.data + first + i,
                    length);
        average_whole(average + i, master, op->decay, length);
        split_range(value, rest, average + i, length);
        merge_range(average + i, value, rest, length);
    }
}

static void average_task(void *context, struct cpu_range range) {
    const struct op_average *op = context;
    float *average = (float *)op->average.data + range.first;
    if (op->master.dtype == DTYPE_I16)
        average_halves(average, op, range.first, range.end - range.first);
    else
        average_whole(average, (const float *)op->master.data + range.first, op->decay, range.end - range.first);
}

void cpu_average(struct device *device, const struct op_average *op) {
    if (isfinite(*(const float *)op->scale.data))
        cpu_run_ranges(device, tensor_count(op->average), CPU_FLAT_CHUNK, average_task, op);
}

CPU_CLONES static void momentum_range(const struct op_momentum *op, float *restrict y, int64_t first, int64_t count) {
    float *restrict m = (float *)op->m.data + first, scale = *(const float *)op->scale.data;
    const float *restrict grad = (const float *)op->grad.data + first;
    float momentum = op->momentum, rest = 1.0f - momentum, again = op->is_nesterov ? momentum : 1.0f;
    float once = op->is_nesterov ? rest : 0.0f;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float g = grad[i] * scale;
        m[i] = momentum * m[i] + rest * g;
        y[i] = again * m[i] + once * g;
    }
}

static void momentum_task(void *context, struct cpu_range range) {
    const struct op_momentum *op = context;
    float *y = (float *)op->y.data + range.first;
    if (isfinite(*(const float *)op->scale.data))
        momentum_range(op, y, range.first, range.end - range.first);
    else
        memset(y, 0, sizeof(float) * (size_t)(range.end - range.first));
}

// Momentum with a 16-bit result. One thread, so that the sum does not depend on the number of threads: only devices
// that defer the division by the norm need it to be fast.
static void momentum_rounded(const struct op_momentum *op) {
    enum { PIECE = 1024 };
    float piece[PIECE] = {0};
    double sum = 0;
    for (int64_t i = 0; i < tensor_count(op->m); i += PIECE) {
        int64_t count = tensor_count(op->m) - i < PIECE ? tensor_count(op->m) - i : PIECE;
        if (isfinite(*(const float *)op->scale.data))
            momentum_range(op, piece, i, count);
        for (int64_t n = 0; n < count; n++)
            sum += (double)piece[n] * (double)piece[n];
        cpu_convert((unsigned char *)op->y.data + (size_t)i * dtype_bytes(op->y.dtype), op->y.dtype, piece, DTYPE_F32,
                    count);
    }
    if (op->sum_squares.data)
        *(float *)op->sum_squares.data = (float)((double)*(float *)op->sum_squares.data + sum);
}

void cpu_momentum(struct device *device, const struct op_momentum *op) {
    if (op->y.dtype != DTYPE_F32) {
        momentum_rounded(op);
        return;
    }
    cpu_run_ranges(device, tensor_count(op->m), CPU_FLAT_CHUNK, momentum_task, op);
    if (op->sum_squares.data)
        cpu_sum_squares(device, &(struct op_sum_squares){.out = op->sum_squares, .x = op->y});
}

static void normalize_task(void *context, struct cpu_range range) {
    enum { PIECE = 1024 };
    const struct op_normalize *op = context;
    float norm = sqrtf(*(const float *)op->sum_squares.data), piece[PIECE];
    float factor = 1.0f / (norm > op->least ? norm : op->least);
    if (op->is_twice)
        factor *= factor;
    for (int64_t i = range.first; i < range.end; i += PIECE) {
        int64_t count = range.end - i < PIECE ? range.end - i : PIECE;
        cpu_convert(piece, DTYPE_F32, (const unsigned char *)op->x.data + (size_t)i * dtype_bytes(op->x.dtype),
                    op->x.dtype, count);
        for (int64_t n = 0; n < count; n++)
            piece[n] *= factor;
        cpu_convert((unsigned char *)op->y.data + (size_t)i * dtype_bytes(op->y.dtype), op->y.dtype, piece, DTYPE_F32,
                    count);
    }
}

void cpu_normalize(struct device *device, const struct op_normalize *op) {
    cpu_run_ranges(device, tensor_count(op->x), CPU_FLAT_CHUNK, normalize_task, op);
}

static void add_diagonal_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_add_diagonal *op = context;
    int64_t side = op->x.shape[1];
    size_t bytes = dtype_bytes(op->x.dtype);
    unsigned char *at = (unsigned char *)op->x.data + (size_t)(index * side * side) * bytes;
    for (int64_t i = 0; i < side; i++, at += (size_t)(side + 1) * bytes) {
        float value;
        cpu_convert(&value, DTYPE_F32, at, op->x.dtype, 1);
        value += op->value;
        cpu_convert(at, op->x.dtype, &value, DTYPE_F32, 1);
    }
}

void cpu_add_diagonal(struct device *device, const struct op_add_diagonal *op) {
    cpu_run(device, op->x.shape[0], add_diagonal_task, op);
}

static void mean_squares_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_mean_squares *op = context;
    int64_t M = op->y.shape[0], N = op->y.shape[1], stride = op->x.stride[0];
    const float *x = op->x.data;
    float *y = op->y.data;
    double sum = 0;
    if (op->is_by_columns) {
        for (int64_t k = 0; k < op->x.shape[0]; k++)
            sum += (double)x[k * stride + index] * (double)x[k * stride + index];
        for (int64_t i = 0; i < M; i++)
            y[i * N + index] = (float)(sum / (double)op->x.shape[0]);
        return;
    }
    for (int64_t k = 0; k < op->x.shape[1]; k++)
        sum += (double)x[index * stride + k] * (double)x[index * stride + k];
    for (int64_t i = 0; i < N; i++)
        y[index * N + i] = (float)(sum / (double)op->x.shape[1]);
}

void cpu_mean_squares(struct device *device, const struct op_mean_squares *op) {
    cpu_run(device, op->y.shape[op->is_by_columns ? 1 : 0], mean_squares_task, op);
}

static void adapt_task(void *context, struct cpu_range range) {
    const struct op_adapt *op = context;
    float *x = op->x.data, *v = op->v.data;
    const float *squares = op->squares.data;
    for (int64_t i = range.first; i < range.end; i++) {
        v[i] = op->beta2 * v[i] + (1.0f - op->beta2) * (squares ? squares[i] : x[i] * x[i]);
        x[i] /= op->is_bounded ? sqrtf(v[i] > op->epsilon ? v[i] : op->epsilon) : sqrtf(v[i]) + op->epsilon;
    }
}

void cpu_adapt(struct device *device, const struct op_adapt *op) {
    if (isfinite(*(const float *)op->scale.data))
        cpu_run_ranges(device, tensor_count(op->x), CPU_FLAT_CHUNK, adapt_task, op);
}

static void split_task(void *context, struct cpu_range range) {
    const struct op_split *op = context;
    split_range((uint16_t *)op->value.data + range.first, (int16_t *)op->rest.data + range.first,
                (const float *)op->x.data + range.first, range.end - range.first);
}

void cpu_split(struct device *device, const struct op_split *op) {
    cpu_run_ranges(device, tensor_count(op->x), CPU_FLAT_CHUNK, split_task, op);
}

static void merge_task(void *context, struct cpu_range range) {
    const struct op_merge *op = context;
    merge_range((float *)op->x.data + range.first, (const uint16_t *)op->value.data + range.first,
                (const int16_t *)op->rest.data + range.first, range.end - range.first);
}

void cpu_merge(struct device *device, const struct op_merge *op) {
    cpu_run_ranges(device, tensor_count(op->x), CPU_FLAT_CHUNK, merge_task, op);
}

CPU_CLONES static void scale_range(float *x, float factor, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] *= factor;
}

static void scale_task(void *context, struct cpu_range range) {
    const struct op_scale *op = context;
    float factor = op->by.data ? op->factor * *(const float *)op->by.data : op->factor;
    scale_range((float *)op->x.data + range.first, factor, range.end - range.first);
}

void cpu_scale(struct device *device, const struct op_scale *op) {
    cpu_run_ranges(device, tensor_count(op->x), CPU_FLAT_CHUNK, scale_task, op);
}
