// Copies between views of one shape, with any strides and float dtypes. Contiguous pairs are cut flat; others row by
// row of the last dimension.
#include "ops/cpu/cpu.h"
#include "ops/cpu/convert.h"
#include "base/error.h"

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
