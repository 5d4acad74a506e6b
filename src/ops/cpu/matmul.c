// Matrix products. The result is cut into tiles that depend on the shapes alone; a tile is one single-threaded OpenBLAS
// call and its epilogue, which finds the tile still in cache. The inner dimension is never cut, so each element of the
// result is one sum taken in OpenBLAS's own order, whichever thread computes it.
#include "ops/cpu/cpu.h"
#include "ops/cpu/vector_math.h"
#include "base/error.h"
#include <cblas.h>
#include <limits.h>
#include <string.h>

// OpenBLAS packs its operands anew in every call, so a tile should be large in both directions; but there should be
// enough tiles to keep many threads busy to the end.
enum { TILE_ROWS = 512, TILE_COLUMNS = 512 };

struct matmul_job {
    const struct op_matmul *op;
    int64_t inner;
    int64_t tile_rows, tile_columns;
    int64_t tiles_across;
};

static int64_t even_tile(int64_t length, int64_t largest) {
    if (length <= largest)
        return length > 0 ? length : 1;
    int64_t pieces = cpu_pieces(length, largest);
    // Multiples of 16 suit every micro-kernel OpenBLAS has.
    int64_t tile = cpu_pieces(length, pieces);
    return (tile + 15) / 16 * 16;
}

CPU_CLONES static void gelu_row(float *d, const float *aux, int64_t count) {
    for (int64_t j = 0; j < count; j++)
        d[j] = vector_gelu(aux[j]);
}

CPU_CLONES static void gelu_gradient_row(float *d, const float *aux, int64_t count) {
    for (int64_t j = 0; j < count; j++)
        d[j] *= vector_gelu_gradient(aux[j]);
}

struct tile {
    struct cpu_range rows, columns;
    float *d;        // first element of the tile in the product's target
    int64_t stride;  // distance of its rows
};

// With a bias the tile starts as the bias and the product is added to it: OpenBLAS would otherwise start by writing
// zeros, so the bias costs nothing.
static void fill_bias(const struct tile *tile, const float *bias) {
    size_t bytes = (size_t)(tile->columns.end - tile->columns.first) * sizeof *bias;
    for (int64_t i = 0; i < tile->rows.end - tile->rows.first; i++)
        memcpy(tile->d + i * tile->stride, bias + tile->columns.first, bytes);
}

static void multiply_tile(const struct matmul_job *job, const struct tile *tile, float beta) {
    const struct op_matmul *op = job->op;
    int64_t a_stride = op->a.stride[0], b_stride = op->b.stride[0];
    const float *a = (const float *)op->a.data + tile->rows.first * (op->transpose_a ? 1 : a_stride);
    const float *b = (const float *)op->b.data + tile->columns.first * (op->transpose_b ? b_stride : 1);
    cblas_sgemm(CblasRowMajor, op->transpose_a ? CblasTrans : CblasNoTrans, op->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)(tile->rows.end - tile->rows.first), (blasint)(tile->columns.end - tile->columns.first),
                (blasint)job->inner, op->alpha, a, (blasint)a_stride, b, (blasint)b_stride, beta, tile->d,
                (blasint)tile->stride);
}

static void finish_tile(const struct op_matmul *op, const struct tile *tile) {
    int64_t columns = op->d.shape[1], count = tile->columns.end - tile->columns.first;
    for (int64_t i = tile->rows.first; i < tile->rows.end; i++) {
        float *d = (float *)op->d.data + i * op->d.stride[0] + tile->columns.first;
        const float *aux = op->aux.data ? (const float *)op->aux.data + i * columns + tile->columns.first : d;
        if (op->epilogue == EPILOGUE_BIAS_ACTIVATION)
            gelu_row(d, aux, count);
        else
            gelu_gradient_row(d, aux, count);
    }
}

static void matmul_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct matmul_job *job = context;
    const struct op_matmul *op = job->op;
    struct tile tile = {
        .rows = cpu_piece(op->d.shape[0], job->tile_rows, index / job->tiles_across),
        .columns = cpu_piece(op->d.shape[1], job->tile_columns, index % job->tiles_across),
    };
    bool has_bias = op->epilogue == EPILOGUE_BIAS || op->epilogue == EPILOGUE_BIAS_ACTIVATION;
    const struct tensor *target = op->epilogue == EPILOGUE_BIAS_ACTIVATION && op->aux.data ? &op->aux : &op->d;
    tile.stride = target->stride[0];
    tile.d = (float *)target->data + tile.rows.first * tile.stride + tile.columns.first;
    if (has_bias)
        fill_bias(&tile, op->bias.data);
    multiply_tile(job, &tile, has_bias ? 1.0f : op->beta);
    if (op->epilogue == EPILOGUE_BIAS_ACTIVATION || op->epilogue == EPILOGUE_ACTIVATION_GRADIENT)
        finish_tile(op, &tile);
}

void cpu_matmul(struct device *device, const struct op_matmul *op) {
    struct matmul_job job = {.op = op, .inner = op->a.shape[op->transpose_a ? 0 : 1]};
    int64_t rows = op->d.shape[0], columns = op->d.shape[1];
    if (rows == 0 || columns == 0)
        return;
    // OpenBLAS counts with 32-bit integers; tiles bound the rest.
    CHECK(job.inner <= INT_MAX && op->a.stride[0] <= INT_MAX && op->b.stride[0] <= INT_MAX &&
          op->d.stride[0] <= INT_MAX);
    job.tile_rows = even_tile(rows, TILE_ROWS);
    job.tile_columns = even_tile(columns, TILE_COLUMNS);
    job.tiles_across = cpu_pieces(columns, job.tile_columns);
    cpu_run(device, job.tiles_across * cpu_pieces(rows, job.tile_rows), matmul_task, &job);
}
