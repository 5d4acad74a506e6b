// Matmuls in OpenBLAS. The result is cut into tiles that depend on the shapes alone; a tile is one call with
// one thread and its epilogue, which finds the tile still in cache. The inner dimension is never cut, so each element
// of the result is one sum taken in OpenBLAS's own order, whichever thread computes it.
#include "ops/cpu/matmul.h"
#include "base/error.h"
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <string.h>

struct matmul_job {
    const struct op_matmul *op;
    int64_t inner;
    int64_t tile_rows, tile_columns;
    int64_t tiles_down, tiles_across;
};

// The size of the pieces when a length is cut into equal pieces of at most `largest`. Multiples of 16 suit every
// micro-kernel OpenBLAS has.
static int64_t even_tile(int64_t length, int64_t largest) {
    if (length <= largest)
        return length;
    int64_t tile = cpu_pieces(length, cpu_pieces(length, largest));
    return (tile + 15) / 16 * 16;
}

// The relative time of a matmul with this cut. OpenBLAS packs both operands again in every call, which costs about 8 /
// rows + 16 / columns of a tile's time (0.3.21 on Neoverse V1) and counts double here, since few processors have many
// cores; few large tiles leave threads idle at the end. The cut must not depend on the number of threads, so the times
// for several numbers are added up.
static double cut_cost(const struct matmul_job *job, int64_t rows, int64_t columns) {
    static const int64_t threads[] = {1, 2, 4, 8, 16};
    int64_t tiles = cpu_pieces(rows, job->tile_rows) * cpu_pieces(columns, job->tile_columns);
    double packing = 16.0 / (double)job->tile_rows + 32.0 / (double)job->tile_columns;
    double tile_time = (double)(job->tile_rows * job->tile_columns) * (1.0 + packing);
    double cost = 0;
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        cost += tile_time * (double)cpu_pieces(tiles, threads[i]);
    return cost;
}

static void cut(struct matmul_job *job, int64_t rows, int64_t columns) {
    static const int64_t row_sizes[] = {1024, 768, 512, 384, 320, 256, 192, 128, 64};
    static const int64_t column_sizes[] = {1536, 1024, 768, 512, 384, 256, 128, 64};
    struct matmul_job best = *job;
    best.tile_rows = rows;
    best.tile_columns = columns;
    if (matmul_size(job->op) > MATMUL_SMALL) {
        double best_cost = INFINITY;
        for (size_t i = 0; i < sizeof row_sizes / sizeof row_sizes[0]; i++) {
            for (size_t j = 0; j < sizeof column_sizes / sizeof column_sizes[0]; j++) {
                job->tile_rows = even_tile(rows, row_sizes[i]);
                job->tile_columns = even_tile(columns, column_sizes[j]);
                double cost = cut_cost(job, rows, columns);
                if (cost < best_cost) {
                    best_cost = cost;
                    best = *job;
                }
            }
        }
    }
    *job = best;
    job->tiles_down = cpu_pieces(rows, job->tile_rows);
    job->tiles_across = cpu_pieces(columns, job->tile_columns);
}

struct blas_tile {
    struct cpu_range rows, columns;
    float *d;        // first element of the tile in the target
    int64_t stride;  // distance of its rows
};

// With a bias the tile starts as the bias and the matmul is added to it: OpenBLAS would otherwise start by writing
// zeros, so the bias costs nothing.
static void fill_bias(const struct blas_tile *tile, const float *bias) {
    size_t bytes = (size_t)(tile->columns.end - tile->columns.first) * sizeof *bias;
    for (int64_t i = 0; i < tile->rows.end - tile->rows.first; i++)
        memcpy(tile->d + i * tile->stride, bias + tile->columns.first, bytes);
}

// A single row (text generation) is a matrix times a vector: not worth packing.
static void multiply_row(const struct matmul_job *job, const struct blas_tile *tile, float beta) {
    const struct op_matmul *op = job->op;
    blasint columns = (blasint)(tile->columns.end - tile->columns.first), inner = (blasint)job->inner;
    blasint a_step = op->transpose_a ? (blasint)op->a.stride[0] : 1, b_stride = (blasint)op->b.stride[0];
    const float *a = op->a.data, *b = op->b.data;
    if (op->transpose_b)
        cblas_sgemv(CblasRowMajor, CblasNoTrans, columns, inner, op->alpha, b + tile->columns.first * b_stride,
                    b_stride, a, a_step, beta, tile->d, 1);
    else
        cblas_sgemv(CblasRowMajor, CblasTrans, inner, columns, op->alpha, b + tile->columns.first, b_stride, a, a_step,
                    beta, tile->d, 1);
}

static void multiply_tile(const struct matmul_job *job, const struct blas_tile *tile, float beta) {
    const struct op_matmul *op = job->op;
    int64_t a_stride = op->a.stride[0], b_stride = op->b.stride[0];
    const float *a = (const float *)op->a.data + tile->rows.first * (op->transpose_a ? 1 : a_stride);
    const float *b = (const float *)op->b.data + tile->columns.first * (op->transpose_b ? b_stride : 1);
    if (op->d.shape[0] == 1 && job->inner > 0) {
        multiply_row(job, tile, beta);
        return;
    }
    cblas_sgemm(CblasRowMajor, op->transpose_a ? CblasTrans : CblasNoTrans, op->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)(tile->rows.end - tile->rows.first), (blasint)(tile->columns.end - tile->columns.first),
                (blasint)job->inner, op->alpha, a, (blasint)a_stride, b, (blasint)b_stride, beta, tile->d,
                (blasint)tile->stride);
}

static void matmul_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct matmul_job *job = context;
    const struct op_matmul *op = job->op;
    // Along the longer side first to last, with all tiles of the shorter side at each step: the large operand is then
    // read from memory once and the small one stays in cache.
    bool is_wide = job->tiles_across > job->tiles_down;
    int64_t down = is_wide ? index % job->tiles_down : index / job->tiles_across;
    int64_t across = is_wide ? index / job->tiles_down : index % job->tiles_across;
    struct blas_tile tile = {
        .rows = cpu_piece(op->d.shape[0], job->tile_rows, down),
        .columns = cpu_piece(op->d.shape[1], job->tile_columns, across),
    };
    const struct tensor *target = matmul_target(op);
    tile.stride = target->stride[0];
    tile.d = (float *)target->data + tile.rows.first * tile.stride + tile.columns.first;
    if (matmul_has_bias(op))
        fill_bias(&tile, op->bias.data);
    multiply_tile(job, &tile, matmul_has_bias(op) ? 1.0f : op->beta);
    matmul_finish(op, &(struct matmul_part){tile.rows, tile.columns, tile.d, tile.stride});
}

void matmul_blas(struct device *device, const struct op_matmul *op) {
    struct matmul_job job = {.op = op, .inner = op->a.shape[op->transpose_a ? 0 : 1]};
    int64_t rows = op->d.shape[0], columns = op->d.shape[1];
    // OpenBLAS counts with 32-bit integers; tiles bound the rest.
    CHECK(job.inner <= INT_MAX && op->a.stride[0] <= INT_MAX && op->b.stride[0] <= INT_MAX &&
          op->d.stride[0] <= INT_MAX);
    cut(&job, rows, columns);
    cpu_run(device, job.tiles_down * job.tiles_across, matmul_task, &job);
}
