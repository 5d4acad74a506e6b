// Copies between views of one shape, with any strides and float dtypes. Contiguous pairs are cut flat; others row by
// row of the last dimension.
#include "ops/cpu/cpu.h"
#include "ops/cpu/convert.h"

struct copy_job {
    struct tensor dst, src;
    int64_t rows, row_length;  // of the last dimension; a flat copy has rows of CPU_FLAT_CHUNK
};

static void flat_copy_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct copy_job *job = context;
    struct cpu_range range = cpu_piece(tensor_count(job->dst), CPU_FLAT_CHUNK, index);
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

static void row_copy_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct copy_job *job = context;
    struct cpu_range rows = cpu_piece(job->rows, cpu_rows_per_task(job->row_length), index);
    for (int64_t n = rows.first; n < rows.end; n++)
        cpu_convert(row_address(&job->dst, n), job->dst.dtype, row_address(&job->src, n), job->src.dtype,
                    job->row_length);
}

void cpu_copy(struct device *device, const struct op_copy *op) {
    struct copy_job job = {.dst = op->dst, .src = op->src};
    int64_t count = tensor_count(op->dst);
    if (count == 0)
        return;
    if (tensor_is_contiguous(op->dst) && tensor_is_contiguous(op->src)) {
        cpu_run(device, cpu_pieces(count, CPU_FLAT_CHUNK), flat_copy_task, &job);
        return;
    }
    job.row_length = op->dst.shape[op->dst.rank - 1];
    job.rows = count / job.row_length;
    cpu_run(device, cpu_pieces(job.rows, cpu_rows_per_task(job.row_length)), row_copy_task, &job);
}
