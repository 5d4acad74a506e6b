// Token and position embeddings. Forward: rows in parallel; only the needed rows of a 16-bit table are widened, since
// tables are large. Backward: a task owns a block of columns of both tables and walks all tokens in order, so that
// equal tokens are added in a fixed order and no two tasks write the same element.
#include "ops/cpu/cpu.h"
#include "ops/cpu/dropout.h"
#include "base/error.h"
#include <inttypes.h>
#include <string.h>

// The table's row of this token; -1 if another rank has it.
static int64_t table_row(int32_t token, int64_t vocabulary_start, int64_t rows) {
    int64_t row = token - vocabulary_start;
    return row >= 0 && row < rows ? row : -1;
}

static int64_t position_row(int32_t position, int64_t rows) {
    if (position < 0 || position >= rows)
        die("a token stands at position %" PRId32 ", but the position table has %" PRId64 " rows", position, rows);
    return position;
}

// out = factors * (token + position); each of the three may be NULL.
struct embedding_row {
    float *out;
    const float *token, *position, *factors;
};

CPU_CLONES static void embed(const struct embedding_row *row, int64_t count) {
    float *out = row->out;
    const float *position = row->position, *factors = row->factors;
    if (row->token)
        memcpy(out, row->token, (size_t)count * sizeof *out);
    else
        memset(out, 0, (size_t)count * sizeof *out);
    if (position) {
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            out[c] += position[c];
    }
    if (factors) {
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            out[c] *= factors[c];
    }
}

// Elements of a table from `first` on: in place, or widened into `memory` if they have 16 bits.
static const float *table_piece(float *memory, const struct tensor *table, int64_t first, int64_t count) {
    const char *data = (const char *)table->data + (size_t)first * dtype_bytes(table->dtype);
    if (table->dtype == DTYPE_F32)
        return (const float *)(const void *)data;
    cpu_convert(memory, DTYPE_F32, data, table->dtype, count);
    return memory;
}

static void embedding_forward_task(void *context, struct cpu_range rows) {
    const struct op_embedding_forward *op = context;
    int64_t channels = op->out.shape[1];
    float tokens[DROPOUT_PIECE], positions[DROPOUT_PIECE], factors[DROPOUT_PIECE];
    for (int64_t n = rows.first; n < rows.end; n++) {
        int64_t token = table_row(((const int32_t *)op->tokens.data)[n], op->vocabulary_start, op->table.shape[0]);
        int64_t position = 0;
        if (op->positions.data)
            position = position_row(((const int32_t *)op->positions.data)[n], op->position_table.shape[0]);
        struct dropout_row dropout = {0};
        if (op->dropout.rate != 0)
            dropout = dropout_row(&op->dropout, n);
        for (int64_t c = 0; c < channels; c += DROPOUT_PIECE) {
            int64_t count = channels - c < DROPOUT_PIECE ? channels - c : DROPOUT_PIECE;
            struct embedding_row piece = {.out = (float *)op->out.data + n * channels + c};
            if (token >= 0)
                piece.token = table_piece(tokens, &op->table, token * channels + c, count);
            if (op->positions.data)
                piece.position = table_piece(positions, &op->position_table, position * channels + c, count);
            if (op->dropout.rate != 0) {
                dropout_factors(factors, &dropout, c, count);
                piece.factors = factors;
            }
            embed(&piece, count);
        }
    }
}

void cpu_embedding_forward(struct device *device, const struct op_embedding_forward *op) {
    cpu_run_ranges(device, op->out.shape[0], cpu_rows_per_task(op->out.shape[1]), embedding_forward_task, op);
}

CPU_CLONES static void accumulate(float *sum, const float *x, const float *factors, int64_t count) {
    if (factors) {
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            sum[c] += x[c] * factors[c];
    } else {
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            sum[c] += x[c];
    }
}

static void embedding_backward_task(void *context, struct cpu_range columns) {
    const struct op_embedding_backward *op = context;
    int64_t channels = op->dout.shape[1];
    int64_t count = columns.end - columns.first;
    float *dtable = (float *)op->dtable.data + columns.first;
    float *dposition_table = op->dposition_table.data ? (float *)op->dposition_table.data + columns.first : NULL;
    float mask[DROPOUT_PIECE];
    for (int64_t n = 0; n < op->dout.shape[0]; n++) {
        const float *dout = (const float *)op->dout.data + n * channels + columns.first;
        const float *factors = NULL;
        if (op->dropout.rate != 0) {
            struct dropout_row dropout = dropout_row(&op->dropout, n);
            dropout_factors(mask, &dropout, columns.first, count);
            factors = mask;
        }
        int64_t token = table_row(((const int32_t *)op->tokens.data)[n], op->vocabulary_start, op->dtable.shape[0]);
        if (token >= 0)
            accumulate(dtable + token * channels, dout, factors, count);
        if (dposition_table) {
            int64_t position = position_row(((const int32_t *)op->positions.data)[n], op->dposition_table.shape[0]);
            accumulate(dposition_table + position * channels, dout, factors, count);
        }
    }
}

void cpu_embedding_backward(struct device *device, const struct op_embedding_backward *op) {
    cpu_run_ranges(device, op->dout.shape[1], CPU_COLUMN_BLOCK, embedding_backward_task, op);
}
