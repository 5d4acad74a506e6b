// Copies between views of one shape, with any strides and float dtypes. Contiguous pairs are cut flat; others row by
// row of the last dimension.
#include "base/error.h"
#include "ops/cpu/cpu.h"
#include "tensor/half.h"

#include <string.h>

// ---- conversions ----

// Every one goes through fp32, which holds all values of the other two.

#define EACH(name_, to_, from_, convert_)                                                                              \
    CPU_CLONES static void name_(to_ *restrict to, const from_ *restrict from, int64_t count) {                        \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) to[i] = convert_(from[i]);                             \
    }

// clang-format off
EACH(to_bf16, uint16_t, float, half_to_bf16)
EACH(to_f16, uint16_t, float, half_to_f16)
EACH(from_bf16, float, uint16_t, half_from_bf16)
EACH(from_f16, float, uint16_t, half_from_f16)
// clang-format on

static void narrow(void *to, enum dtype to_dtype, const float *from, int64_t count) {
    if (to_dtype == DTYPE_F32)
        memcpy(to, from, (size_t)count * sizeof *from);
    else if (to_dtype == DTYPE_BF16)
        to_bf16(to, from, count);
    else if (to_dtype == DTYPE_F16)
        to_f16(to, from, count);
    else
        die("%s is not a float dtype", dtype_name(to_dtype));
}

static void widen(float *to, const void *from, enum dtype from_dtype, int64_t count) {
    if (from_dtype == DTYPE_F32)
        memcpy(to, from, (size_t)count * sizeof *to);
    else if (from_dtype == DTYPE_BF16)
        from_bf16(to, from, count);
    else if (from_dtype == DTYPE_F16)
        from_f16(to, from, count);
    else
        die("%s is not a float dtype", dtype_name(from_dtype));
}

void cpu_convert(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype, int64_t count) {
    if (count <= 0)
        return;
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)count * dtype_bytes(to_dtype));
    } else if (to_dtype == DTYPE_F32) {
        widen(to, from, from_dtype, count);
    } else if (from_dtype == DTYPE_F32) {
        narrow(to, to_dtype, from, count);
    } else {
        float piece[256];
        for (int64_t i = 0; i < count; i += 256) {
            int64_t length = count - i < 256 ? count - i : 256;
            widen(piece, (const uint16_t *)from + i, from_dtype, length);
            narrow((uint16_t *)to + i, to_dtype, piece, length);
        }
    }
}

// ---- copies ----

struct copy_job {
    struct tensor dst, src;
    bool is_flat;
    int64_t rows, row_length;  // of the last dimension
    int64_t tasks;
};
// Elements of a flat copy that make a task: a few microseconds.
enum { COPY_CHUNK = 16384 };

static void flat_copy_task(const struct copy_job *job, int64_t index) {
    struct cpu_range range = cpu_piece(tensor_count(job->dst), COPY_CHUNK, index);
    cpu_convert((unsigned char *)job->dst.data + (size_t)range.first * dtype_bytes(job->dst.dtype), job->dst.dtype,
                (const unsigned char *)job->src.data + (size_t)range.first * dtype_bytes(job->src.dtype),
                job->src.dtype, range.end - range.first);
}

// Byte address of the row with this number, counting over all dimensions but the last.
static unsigned char *row_address(const struct tensor *t, int64_t row) {
    int64_t offset = 0;
    for (int i = t->rank - 2; i >= 0; i--) {
        offset += row % t->shape[i] * t->stride[i];
        row /= t->shape[i];
    }
    return (unsigned char *)t->data + (size_t)offset * dtype_bytes(t->dtype);
}

static void row_copy_task(const struct copy_job *job, int64_t index) {
    struct cpu_range rows = cpu_piece(job->rows, cpu_rows_per_task(job->row_length), index);
    for (int64_t n = rows.first; n < rows.end; n++)
        cpu_convert(row_address(&job->dst, n), job->dst.dtype, row_address(&job->src, n), job->src.dtype,
                    job->row_length);
}

static struct copy_job make_job(const struct op_copy *op) {
    int64_t count = tensor_count(op->dst);
    struct copy_job job = {
        .dst = op->dst, .src = op->src, .is_flat = tensor_is_contiguous(op->dst) && tensor_is_contiguous(op->src)};
    if (job.is_flat) {
        job.tasks = cpu_pieces(count, COPY_CHUNK);
    } else if (count > 0) {
        job.row_length = op->dst.shape[op->dst.rank - 1];
        job.rows = count / job.row_length;
        job.tasks = cpu_pieces(job.rows, cpu_rows_per_task(job.row_length));
    }
    return job;
}

// Tasks of several copies are numbered consecutively.
static void copy_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct copy_job *job = context;
    while (index >= job->tasks)
        index -= (job++)->tasks;
    if (job->is_flat)
        flat_copy_task(job, index);
    else
        row_copy_task(job, index);
}

void cpu_copy_all(struct device *device, const struct op_copy *copies, int count) {
    struct copy_job jobs[CPU_MOST_COPIES];
    int64_t tasks = 0;
    CHECK(count <= CPU_MOST_COPIES);
    for (int i = 0; i < count; i++) {
        jobs[i] = make_job(&copies[i]);
        tasks += jobs[i].tasks;
    }
    cpu_run(device, tasks, copy_task, jobs);
}

void cpu_copy(struct device *device, const struct op_copy *op) {
    cpu_copy_all(device, op, 1);
}

// ---- latent attention ----

// Reorders keys and values of latent attention between the order in which they are computed and that of attention. A
// task owns some rows.

// Channels of a row: own channels of keys, shared channels of keys, channels of values; per head.
struct latent_sizes {
    int64_t heads, own, shared, values;
};

static struct latent_sizes sizes_of(struct tensor up, struct tensor shared, int64_t heads, int64_t value_size) {
    return (struct latent_sizes){heads, up.shape[1] / heads - value_size, shared.shape[1], value_size};
}

static int64_t latent_rows_per_task(const struct tensor *kv) {
    return cpu_rows_per_task(kv->shape[1]);
}

static void pack_row(float *kv, const float *up, const float *shared, const struct latent_sizes *sizes) {
    float *values = kv + sizes->heads * (sizes->own + sizes->shared);
    for (int64_t head = 0; head < sizes->heads; head++) {
        memcpy(kv, up, (size_t)sizes->own * sizeof *kv);
        memcpy(kv + sizes->own, shared, (size_t)sizes->shared * sizeof *kv);
        memcpy(values, up + sizes->own, (size_t)sizes->values * sizeof *kv);
        kv += sizes->own + sizes->shared;
        up += sizes->own + sizes->values;
        values += sizes->values;
    }
}

static void unpack_row(float *dup, float *dshared, const float *dkv, const struct latent_sizes *sizes) {
    const float *values = dkv + sizes->heads * (sizes->own + sizes->shared);
    for (int64_t head = 0; head < sizes->heads; head++) {
        memcpy(dup, dkv, (size_t)sizes->own * sizeof *dkv);
        memcpy(dup + sizes->own, values, (size_t)sizes->values * sizeof *dkv);
        for (int64_t i = 0; i < sizes->shared; i++)
            dshared[i] = (head > 0 ? dshared[i] : 0.0f) + dkv[sizes->own + i];
        dkv += sizes->own + sizes->shared;
        dup += sizes->own + sizes->values;
        values += sizes->values;
    }
}

static float *row_of(const struct tensor *t, int64_t row) {
    return (float *)t->data + row * t->stride[0];
}

static void latent_forward_task(void *context, struct cpu_range rows) {
    const struct op_latent_forward *op = context;
    struct latent_sizes sizes = sizes_of(op->up, op->shared, op->heads, op->value_size);
    for (int64_t n = rows.first; n < rows.end; n++)
        pack_row(row_of(&op->kv, n), row_of(&op->up, n), row_of(&op->shared, n), &sizes);
}

static void latent_backward_task(void *context, struct cpu_range rows) {
    const struct op_latent_backward *op = context;
    struct latent_sizes sizes = sizes_of(op->dup, op->dshared, op->heads, op->value_size);
    for (int64_t n = rows.first; n < rows.end; n++)
        unpack_row(row_of(&op->dup, n), row_of(&op->dshared, n), row_of(&op->dkv, n), &sizes);
}

void cpu_latent_forward(struct device *device, const struct op_latent_forward *op) {
    cpu_run_ranges(device, op->kv.shape[0], latent_rows_per_task(&op->kv), latent_forward_task, op);
}

void cpu_latent_backward(struct device *device, const struct op_latent_backward *op) {
    cpu_run_ranges(device, op->dkv.shape[0], latent_rows_per_task(&op->dkv), latent_backward_task, op);
}
