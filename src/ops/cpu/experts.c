// Between the two matmuls of experts: biases, the activation, gated or not, and the weight of each slot. Rows in
// parallel; the gradients of biases are sums down the columns of each expert's rows.
#include "ops/cpu/cpu.h"
#include "ops/cpu/pieces.h"
#include <string.h>

CPU_CLONES static void multiply(float *out, const float *a, const float *b, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] * b[i];
}

CPU_CLONES static void scale(float *out, const float *x, float factor, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = factor * x[i];
}

// The rows of both operations. `columns` are those of y.
struct expert_rows {
    struct tensor x, bias;
    const int32_t *offsets, *sources;
    const float *weights;
    int64_t experts, columns, width;  // width: of a row of x
    const struct cpu_activation *activation;
    bool is_gated;
    struct glu_rule rule;
};

// For either operation; their fields have the same names.
#define EXPERT_ROWS(op, columns_)                                                                                      \
    {                                                                                                                  \
        .x = (op)->x, .bias = (op)->bias, .offsets = (op)->offsets.data, .sources = (op)->sources.data,                \
        .weights = (op)->weights.data, .experts = (op)->offsets.shape[0] - 1, .columns = (columns_),                   \
        .width = (op)->x.shape[1], .activation = &cpu_activations[(op)->activation], .is_gated = (op)->is_gated,       \
        .rule = (op)->rule                                                                                             \
    }

// x + bias of a row from column `first` on.
static void load(float *to, const struct expert_rows *rows, int64_t r, int64_t e, struct cpu_range part) {
    int64_t count = part.end - part.first;
    float memory[PIECE];
    cpu_convert(to, DTYPE_F32, piece_at(&rows->x, r * rows->width + part.first), rows->x.dtype, count);
    if (rows->bias.data)
        piece_add(to, piece_read(memory, &rows->bias, e * rows->width + part.first, count), count);
}

struct expert_forward_job {
    const struct op_expert_activation_forward *op;
    struct expert_rows rows;
};

static void forward_task(void *context, struct cpu_range range) {
    const struct expert_forward_job *job = context;
    const struct expert_rows *rows = &job->rows;
    int64_t columns = rows->columns, e = 0;
    float x[PIECE], up[PIECE];
    for (int64_t r = range.first; r < range.end; r++) {
        int32_t source = rows->sources[r];
        e = piece_expert(rows->offsets, rows->experts, e, r);
        for (int64_t c = 0; c < columns; c += PIECE) {
            int64_t count = columns - c < PIECE ? columns - c : PIECE;
            if (source < 0) {
                memset(piece_at(&job->op->y, r * columns + c), 0, (size_t)count * dtype_bytes(job->op->y.dtype));
                continue;
            }
            load(x, rows, r, e, (struct cpu_range){c, c + count});
            if (rows->is_gated)
                load(up, rows, r, e, (struct cpu_range){columns + c, columns + c + count});
            if (rows->is_gated && cpu_glu_has_rule(rows->rule))
                cpu_glu_prepare(x, up, rows->rule, count);
            rows->activation->value(x, x, count);
            if (rows->is_gated)
                multiply(x, x, up, count);
            scale(x, x, rows->weights[source], count);
            piece_write(&job->op->y, r * columns + c, x, count);
        }
    }
}

void cpu_expert_activation_forward(struct device *device, const struct op_expert_activation_forward *op) {
    struct expert_forward_job job = {op, EXPERT_ROWS(op, op->y.shape[1])};
    cpu_run_ranges(device, op->y.shape[0], cpu_rows_per_task(op->y.shape[1]), forward_task, &job);
}

struct expert_backward_job {
    const struct op_expert_activation_backward *op;
    struct expert_rows rows;
};

// A piece of the row at place r; returns its share of the weight's gradient. dx may alias x, and y dy, so everything is
// read first.
static float backward_piece(const struct expert_backward_job *job, int64_t r, int64_t e, struct cpu_range part) {
    const struct expert_rows *rows = &job->rows;
    const struct op_expert_activation_backward *op = job->op;
    int64_t columns = rows->columns, count = part.end - part.first;
    float weight = rows->weights[rows->sources[r]];
    float gate[PIECE], up[PIECE], dy[PIECE], value[PIECE], slope[PIECE], before[2][PIECE];
    bool has_rule = rows->is_gated && cpu_glu_has_rule(rows->rule);
    load(gate, rows, r, e, part);
    if (rows->is_gated)
        load(up, rows, r, e, (struct cpu_range){columns + part.first, columns + part.end});
    if (has_rule) {
        memcpy(before[0], gate, (size_t)count * sizeof *gate);
        memcpy(before[1], up, (size_t)count * sizeof *up);
        cpu_glu_prepare(gate, up, rows->rule, count);
    }
    cpu_convert(dy, DTYPE_F32, piece_at(&op->dy, r * columns + part.first), op->dy.dtype, count);
    rows->activation->value(value, gate, count);
    rows->activation->gradient(slope, gate, count);
    if (rows->is_gated) {
        multiply(slope, slope, up, count);
        multiply(up, value, up, count);  // y without its weight
    } else {
        memcpy(up, value, (size_t)count * sizeof *up);
    }
    if (has_rule && rows->rule.limit > 0)
        cpu_glu_mask(slope, value, before[0], before[1], rows->rule.limit, count);
    float dweight = piece_inner(dy, up, count);
    scale(dy, dy, weight, count);
    multiply(slope, slope, dy, count);
    piece_write(&op->dx, r * rows->width + part.first, slope, count);
    if (rows->is_gated) {
        multiply(value, value, dy, count);
        piece_write(&op->dx, r * rows->width + columns + part.first, value, count);
    }
    scale(up, up, weight, count);
    piece_write(&op->y, r * columns + part.first, up, count);
    return dweight;
}

static void clear_row(const struct tensor *t, int64_t row) {
    if (t->data)
        memset(piece_at(t, row * t->shape[1]), 0, (size_t)t->shape[1] * dtype_bytes(t->dtype));
}

static void backward_task(void *context, struct cpu_range range) {
    const struct expert_backward_job *job = context;
    const struct expert_rows *rows = &job->rows;
    int64_t columns = rows->columns, e = 0;
    for (int64_t r = range.first; r < range.end; r++) {
        if (rows->sources[r] < 0) {
            clear_row(&job->op->dx, r);
            clear_row(&job->op->y, r);
            continue;
        }
        e = piece_expert(rows->offsets, rows->experts, e, r);
        double dweight = 0;
        for (int64_t c = 0; c < columns; c += PIECE)
            dweight +=
                (double)backward_piece(job, r, e, (struct cpu_range){c, columns - c < PIECE ? columns : c + PIECE});
        ((float *)job->op->dweights.data)[rows->sources[r]] = (float)dweight;
    }
}

// CPU_COLUMN_BLOCK columns of the rows of one expert.
static void expert_bias_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct expert_backward_job *job = context;
    int64_t width = job->rows.width, blocks = cpu_pieces(width, CPU_COLUMN_BLOCK), e = index / blocks;
    struct cpu_range range = cpu_piece(width, CPU_COLUMN_BLOCK, index % blocks);
    int64_t count = range.end - range.first;
    float sum[CPU_COLUMN_BLOCK] = {0}, memory[CPU_COLUMN_BLOCK];
    for (int64_t r = job->rows.offsets[e]; r < job->rows.offsets[e + 1]; r++)
        piece_add(sum, piece_read(memory, &job->op->dx, r * width + range.first, count), count);
    piece_add((float *)job->op->dbias.data + e * width + range.first, sum, count);
}

void cpu_expert_activation_backward(struct device *device, const struct op_expert_activation_backward *op) {
    struct expert_backward_job job = {op, EXPERT_ROWS(op, op->dy.shape[1])};
    memset(op->dweights.data, 0, tensor_bytes(op->dweights));
    cpu_run_ranges(device, op->dy.shape[0], cpu_rows_per_task(op->dy.shape[1]), backward_task, &job);
    if (op->dbias.data)
        cpu_run(device, job.rows.experts * cpu_pieces(job.rows.width, CPU_COLUMN_BLOCK), expert_bias_task, &job);
}
